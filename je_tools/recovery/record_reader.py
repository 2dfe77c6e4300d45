"""Records of a database: its BINs from left to right, with undo and redo applied to their keys.

Source: je-log.md "Reading the current content"; CursorImpl.getCurrent, BIN.fetchLN, JE 18.3.12.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from je_tools.btree.children import NODES_AT_ONCE, Children, LoadedNodes
from je_tools.btree.counting import count_slots
from je_tools.btree.fault_kinds import Fault, FaultKind
from je_tools.btree.faults import UNREADABLE_KINDS, Faults, UnreadableRecords
from je_tools.btree.old_duplicates import expand_duplicates
from je_tools.formats.je.btree.keysort import order_keys, search_sorted
from je_tools.formats.je.btree.nodes import no_nodes
from je_tools.formats.je.btree.slots import Slots, split_two_part_keys
from je_tools.formats.spans import Spans, joined_spans
from je_tools.log.records import Records, unexpired
from je_tools.recovery.outcomes import KeyOutcome, Overlay
from je_tools.recovery.record_values import (
    RecordSource,
    RecordValues,
    fill_from_changes,
    fill_from_slots,
)
from je_tools.recovery.slot_matching import match_slots

if TYPE_CHECKING:
    from je_tools.btree.key_ranges import KeyRange
    from je_tools.btree.tree import Tree
    from je_tools.formats.arrays import Ints, Mask


class RecordReader:
    """A reader of the records of one database.

    A change is a row of the overlay: a key whose record undo or redo decides.

    Attributes:
        tree: tree of the database.
        overlay: changes of undo and redo.
        with_data: True to read the LNs of slots, which hold data and times; False to read only
            what the slots hold.
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

        If an upper node cannot be read, yield it in place of its BINs: recovery may still add
        records in its range.
        """
        return self.tree.unread_bins(inside=self.inside, at_once=at_once, with_lost=True)

    def read(self, children: Children) -> tuple[Records, Faults]:
        """Return the records of some consecutive BINs, and the faults found."""
        slots, alive, changes, found = self.slots_and_changes(self.tree.read(children))
        places = None
        if not self.tree.ordered and len(changes):
            # The order of keys is unknown, so a change takes the place of its slot.
            at, same = match_slots(self.tree, self.overlay.key.select(changes), slots)
            of_changes = np.zeros(len(changes), np.int64)
            of_changes[at[same]] = np.flatnonzero(same)
            places = np.concatenate((np.flatnonzero(alive), of_changes))
        living = slots if alive.all() else slots.select(alive)
        records, faults = self._records(living, changes, places)
        return records, _merged_faults(found, faults)

    def count(self, children: Children) -> tuple[int, Faults]:
        """Count the records that `read` would return, without building them, and return faults."""
        first, last = self._range(children)
        if first == last and self.inside is None:
            quick = count_slots(self.tree, children, self.now_ms)
            if quick is not None:
                return quick, Faults()
        slots, alive, changes, found = self.slots_and_changes(self.tree.read(children))
        counted = int(np.count_nonzero(alive & unexpired(slots.expires_ms, self.now_ms)))
        more, faults = self.count_changes(changes)
        return counted + more, _merged_faults(found, faults)

    def count_changes(self, changes: Ints) -> tuple[int, Faults]:
        """Count the changes that are records and have not expired, and return faults."""
        if not len(changes):
            return 0, Faults()
        records, faults = self._records(no_nodes(self.tree.image.data).slots, changes)
        return len(records), faults

    def slots_and_changes(self, loaded: LoadedNodes) -> tuple[Slots, Mask, Ints, list[Fault]]:
        """Return the slots of BINs, and the changes that replace or join them.

        Returns:
            The slots; a mask of those that still are records; the changes in the range of the BINs
            that are records; and the faults found.
        """
        slots, faults = self.tree.slots_in_range(loaded)
        if self.tree.old_duplicates:
            slots, more = expand_duplicates(self.tree, slots)
            faults += more
        first, last = self._range(loaded.children)
        changes = np.arange(first, last)
        alive = ~slots.deleted
        if self.inside is not None:
            alive &= self.tree.in_range(slots.key, self.inside)
        if first < last:
            at, same = match_slots(self.tree, self.overlay.key.select(changes), slots)
            alive &= ~same
            if not self.tree.ordered:
                changes = np.unique(at[same])
                self._used[changes] = True
            changes = changes[self.overlay.outcome[changes] != KeyOutcome.NO_RECORD]
            if self.inside is not None:
                keys = self.overlay.key.select(changes)
                changes = changes[self.tree.in_range(keys, self.inside)]
        return slots, alive, changes, faults

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
    def bins_are_independent(self) -> bool:
        """True if the records read from some BINs do not depend on other BINs."""
        return self.tree.ordered or not len(self.overlay)

    @property
    def has_unplaced(self) -> bool:
        """True if changes have matched no slot and their place in the order of keys is unknown.

        Valid after all BINs have been read.
        """
        return not self.tree.ordered and not self._used.all()

    def unplaced_changes(self) -> Ints:
        """Return the unplaced changes that are records, after all BINs have been read."""
        return np.flatnonzero(~self._used & (self.overlay.outcome != KeyOutcome.NO_RECORD))

    def unplaced_records(self) -> tuple[Records, Faults]:
        """Return the records of the unplaced changes, and the faults found."""
        return self._records(no_nodes(self.tree.image.data).slots, self.unplaced_changes())

    def unreadable_changes(self, first: int, stop: int) -> UnreadableRecords:
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
        faults.add_unreadable(fill_from_slots(self._source, slots, values))
        if len(changes):
            faults.add_unreadable(fill_from_changes(self._source, changes, n, values))
            keys = joined_spans([keys, self.overlay.key.select(changes)])
        order: Ints | None = None
        if places is not None:
            order = np.argsort(places, kind="stable")
        elif len(changes) and self.tree.ordered:
            order = order_keys(keys, two_part=self.tree.by_parts)
        records = _in_order(self, keys, values, order)
        if self.with_data and self.tree.two_part:
            faults.add_unreadable(_not_two_part(self, records))
        return records, faults


def _merged_faults(of_nodes: list[Fault], of_records: Faults) -> Faults:
    if not of_nodes:
        return of_records
    faults = Faults()
    faults.extend(of_nodes)
    faults.extend(of_records)
    return faults


def _in_order(
    reader: RecordReader, keys: Spans, values: RecordValues, order: Ints | None
) -> Records:
    """Build records, reordered unless `order` is None, and leave out those that have expired."""
    tree = reader.tree
    lives = unexpired(values.expires_ms, reader.now_ms)
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


def _not_two_part(reader: RecordReader, records: Records) -> UnreadableRecords:
    """Return the records whose two-part keys do not end with the data."""
    rows = np.flatnonzero(records.data.sizes < 0)
    kinds = np.full(len(rows), UNREADABLE_KINDS.index(FaultKind.NOT_TWO_PARTS), np.uint8)
    return UnreadableRecords(reader.tree.db_id, kinds, records.lsn[rows], records.key.select(rows))
