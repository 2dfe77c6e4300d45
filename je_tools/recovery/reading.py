"""Records of a database: its BINs from left to right, with undo and redo applied to their keys.

Source: je-log.md "Reading the current content"; CursorImpl.getCurrent, BIN.fetchLN, JE 18.3.12.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from je_tools.btree.children import NODES_AT_ONCE, Children, Leaves
from je_tools.btree.counting import count_slots
from je_tools.btree.fault_kinds import Fault, FaultKind
from je_tools.btree.faults import LACKING, Faults, Lacking
from je_tools.btree.old_duplicates import expanded
from je_tools.formats.je.btree.keysort import order_keys, search_sorted
from je_tools.formats.je.btree.nodes import no_nodes
from je_tools.formats.je.btree.slots import Slots, split_two_part_keys
from je_tools.formats.spans import Spans, joined_spans
from je_tools.log.records import NO_TIME, Records
from je_tools.recovery.outcomes import KeyOutcome, Overlay
from je_tools.recovery.record_values import (
    RecordSource,
    RecordValues,
    fill_from_changes,
    fill_from_slots,
)
from je_tools.recovery.slot_matching import match

if TYPE_CHECKING:
    from je_tools.btree.key_ranges import KeyRange
    from je_tools.btree.tree import Tree
    from je_tools.formats.arrays import Ints, Mask


class RecordReader:
    """A reader of the records of one database.

    Attributes:
        tree: tree of the database.
        overlay: changes of undo and redo.
        with_data: True to read the LNs of slots too, not only the slots.
        now_ms: records that expired before this time are hidden; None to hide none.
        inside: range of keys to read; None for all.
    """

    def __init__(
        self,
        tree: Tree,
        overlay: Overlay,
        *,
        with_data: bool,
        now_ms: int | None,
        inside: KeyRange | None = None,
    ) -> None:
        self.tree = tree
        self.overlay = overlay
        self.with_data = with_data
        self.now_ms = now_ms
        self.inside = inside
        self._source = RecordSource(tree, overlay, with_data)
        self._used: Mask = np.zeros(len(overlay), np.bool_)

    def children(self, at_once: int = NODES_AT_ONCE) -> Iterator[Children]:
        """Yield up to `at_once` BINs at a time, in key order, for `read` and `count`.

        If BINs cannot be found, yield the unreadable node above them, since recovery may still add
        records there.
        """
        return self.tree.leaf_children(inside=self.inside, at_once=at_once, with_lost=True)

    def read(self, children: Children) -> tuple[Records, Faults]:
        """Return the records of some consecutive BINs, and the faults found."""
        slots, alive, changes, found = self.alive(self.tree.read(children))
        places = None
        if not self.tree.ordered and len(changes):
            # The order of keys is unknown, so a change takes the place of its slot.
            at, same = match(self.tree, self.overlay.key.select(changes), slots)
            of_changes = np.zeros(len(changes), np.int64)
            of_changes[at[same]] = np.flatnonzero(same)
            places = np.concatenate((np.flatnonzero(alive), of_changes))
        living = slots if alive.all() else slots.select(alive)
        records, faults = self._records(living, changes, places)
        return records, _together(found, faults)

    def count(self, children: Children) -> tuple[int, Faults]:
        """Count the records that `read` would return, without building them, and return faults."""
        first, last = self._range(children)
        if first == last and self.inside is None:
            quick = count_slots(self.tree, children, self.now_ms)
            if quick is not None:
                return quick, Faults()
        slots, alive, changes, found = self.alive(self.tree.read(children))
        counted = int(np.count_nonzero(alive & self.lives(slots.expires_ms)))
        more, faults = self.count_changes(changes)
        return counted + more, _together(found, faults)

    def count_changes(self, changes: Ints) -> tuple[int, Faults]:
        """Count the changes that are records and have not expired, and return faults."""
        if not len(changes):
            return 0, Faults()
        records, faults = self._records(no_nodes(self.tree.image.data).slots, changes)
        return len(records), faults

    def alive(self, leaves: Leaves) -> tuple[Slots, Mask, Ints, list[Fault]]:
        """Split the records of BINs into those that are slots and those that are changes.

        Returns:
            Slots, a mask of those that are records, the rows of changes that are records in their
            place or beside them, and the faults found.
        """
        slots, faults = self.tree.slots_in_range(leaves)
        if self.tree.old_duplicates:
            slots, more = expanded(self.tree, slots)
            faults += more
        first, last = self._range(leaves.children)
        changes = np.arange(first, last)
        alive = ~slots.deleted
        if self.inside is not None:
            alive &= self.tree.in_range(slots.key, self.inside)
        if first < last:
            at, same = match(self.tree, self.overlay.key.select(changes), slots)
            alive &= ~same
            if not self.tree.ordered:
                changes = np.unique(at[same])
                self._used[changes] = True
            changes = changes[self.overlay.outcome[changes] != KeyOutcome.NO_RECORD]
            if self.inside is not None:
                keys = self.overlay.key.select(changes)
                changes = changes[self.tree.in_range(keys, self.inside)]
        return slots, alive, changes, faults

    def lives(self, expires_ms: Ints) -> Mask:
        """Return a mask of the records that have not expired."""
        if self.now_ms is None:
            return np.ones(len(expires_ms), np.bool_)
        lives: Mask = (expires_ms == NO_TIME) | (expires_ms >= self.now_ms)
        return lives

    def _range(self, children: Children) -> tuple[int, int]:
        """Return the range [first, last) of changes whose keys belong in these BINs.

        Without an order of keys, these are all changes.
        """
        if not self.tree.ordered or not len(children):
            return 0, len(self.overlay)
        ends = joined_spans(
            [children.low.select(np.array([0])), children.high.select(np.array([-1]))]
        )
        found = search_sorted(self.overlay.key, ends, two_part=self.tree.by_parts)
        low = 0 if ends.sizes[0] < 0 else int(found[0])
        return low, len(self.overlay) if ends.sizes[1] < 0 else int(found[1])

    @property
    def is_apart(self) -> bool:
        """True if the records read from some BINs do not depend on other BINs."""
        return self.tree.ordered or not len(self.overlay)

    @property
    def has_left(self) -> bool:
        """True if some changes have matched no slot, so that their place in key order is unknown.

        Valid after all BINs have been read.
        """
        return not self.tree.ordered and not self._used.all()

    def left_changes(self) -> Ints:
        """Return the rows of those changes that are records, after all BINs have been read."""
        return np.flatnonzero(~self._used & (self.overlay.outcome != KeyOutcome.NO_RECORD))

    def left(self) -> tuple[Records, Faults]:
        """Return the records of `left_changes`, and the faults found."""
        return self._records(no_nodes(self.tree.image.data).slots, self.left_changes())

    def lacking_changes(self, first: int, stop: int) -> Lacking:
        """Return the unreadable records among changes [first, stop) of the overlay."""
        rows = np.arange(first, min(stop, len(self.overlay)))
        rows = rows[self.overlay.outcome[rows] != KeyOutcome.NO_RECORD]
        values = RecordValues.empty(len(rows), self.tree.image.data)
        return fill_from_changes(self._source, rows, 0, values)

    def _records(
        self, slots: Slots, changes: Ints, places: Ints | None = None
    ) -> tuple[Records, Faults]:
        n = len(slots)
        values = RecordValues.empty(n + len(changes), self.tree.image.data)
        faults = Faults()
        keys = slots.key
        faults.lack(fill_from_slots(self._source, slots, values))
        if len(changes):
            faults.lack(fill_from_changes(self._source, changes, n, values))
            keys = joined_spans([keys, self.overlay.key.select(changes)])
        order: Ints | None = None
        if places is not None:
            order = np.argsort(places, kind="stable")
        elif len(changes) and self.tree.ordered:
            order = order_keys(keys, two_part=self.tree.by_parts)
        records = _in_order(self, keys, values, order)
        if self.with_data and self.tree.two_part:
            faults.lack(_without_parts(self, records))
        return records, faults


def _together(of_nodes: list[Fault], of_records: Faults) -> Faults:
    if not of_nodes:
        return of_records
    faults = Faults()
    faults.extend(of_nodes)
    faults.extend(of_records)
    return faults


def _in_order(
    reading: RecordReader, keys: Spans, values: RecordValues, order: Ints | None
) -> Records:
    """Build records in an order, or as they are for None, without those that have expired."""
    tree = reading.tree
    lives = reading.lives(values.expires_ms)
    chosen = slice(None) if order is None else order
    if not lives.all():
        chosen = np.flatnonzero(lives) if order is None else order[lives[order]]
    data = Spans(values.data, values.data_start, values.data_size)
    if tree.two_part:
        keys, data = split_two_part_keys(keys)
    records = Records(
        keys,
        data,
        values.lsn,
        values.vlsn,
        values.modified_ms,
        values.created_ms,
        values.expires_ms,
        values.tombstone,
    )
    return records.select(chosen)


def _without_parts(reading: RecordReader, records: Records) -> Lacking:
    """Return the records whose two-part keys do not end with the data."""
    rows = np.flatnonzero(records.data.sizes < 0)
    kinds = np.full(len(rows), LACKING.index(FaultKind.NOT_TWO_PARTS), np.uint8)
    return Lacking(reading.tree.db_id, kinds, records.lsn[rows], records.key.select(rows))
