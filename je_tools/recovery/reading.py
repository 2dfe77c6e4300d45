"""Records of a database: its BINs from left to right, with undo and redo applied to their keys.

Source: je-log.md "Reading the current content"; CursorImpl.getCurrent, BIN.fetchLN, JE 18.3.12.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.btree.children import NODES_AT_ONCE, Children, Leaves
from je_tools.btree.counting import count_slots
from je_tools.btree.fault_kinds import Fault, FaultKind
from je_tools.btree.faults import LACKING, Faults, Lacking
from je_tools.btree.old_duplicates import expanded
from je_tools.formats.arrays import Ints, Mask, run_of
from je_tools.formats.je.expirations import expiration_ms
from je_tools.formats.je.fetch import Entries, Found, fetch
from je_tools.formats.je.header import NULL_LSN
from je_tools.formats.je.keysort import order_keys, search_sorted
from je_tools.formats.je.layout import ABORT_TOMBSTONE, LN_TOMBSTONE
from je_tools.formats.je.nodes import TOMBSTONE, Slots, joined_spans, no_nodes
from je_tools.formats.je.payloads import PAYLOAD_FAMILIES, payload_spans
from je_tools.formats.je.slots import split_two_part_keys
from je_tools.formats.je.types import Family
from je_tools.formats.spans import Spans
from je_tools.log.records import NO_TIME, NO_VLSN, Records
from je_tools.recovery.overlay import Outcome, Overlay, match

if TYPE_CHECKING:
    from je_tools.btree.key_ranges import KeyRange
    from je_tools.btree.tree import Tree
    from je_tools.formats.je.columns import Columns
    from je_tools.formats.source import Bytes

_ROOM_MAX = 16 << 20
"""Largest buffer, in bytes, into which the LNs of a batch are copied; each thread has its own."""

_DATA_FIELDS = frozenset({"flags2", "expiration", "modified_ms", "created_ms", "data"})
_IN_COLUMNS = (Family.LN, Family.DEL_DUP_LN)

ABORT_FIELDS = frozenset(
    {
        "flags2",
        "abort_lsn",
        "abort_data",
        "abort_vlsn",
        "abort_expiration",
        "abort_modified_ms",
        "abort_created_ms",
    }
)
"""Fields of an LN that describe the version of the record before its transaction."""


class _Values(Struct):
    """Columns of records while they are filled; see `Records`.

    Attributes:
        data: bytes that hold the data of the records.
    """

    data: Bytes
    data_start: Ints
    data_size: Ints
    lsn: Ints
    vlsn: Ints
    modified_ms: Ints
    created_ms: Ints
    expires_ms: Ints
    tombstone: Mask

    @classmethod
    def empty(cls, n: int, data: Bytes) -> _Values:
        """Return columns of `n` records whose values are all unknown."""
        return cls(
            data=data,
            data_start=np.zeros(n, np.int64),
            data_size=np.full(n, -1, np.int64),
            lsn=np.full(n, NULL_LSN, np.int64),
            vlsn=np.full(n, NO_VLSN, np.int64),
            modified_ms=np.full(n, NO_TIME, np.int64),
            created_ms=np.full(n, NO_TIME, np.int64),
            expires_ms=np.full(n, NO_TIME, np.int64),
            tombstone=np.zeros(n, np.bool_),
        )


class Reading:
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
            at, same = match(self.tree, self.overlay.key.take(changes), slots)
            of_changes = np.zeros(len(changes), np.int64)
            of_changes[at[same]] = np.flatnonzero(same)
            places = np.concatenate((np.flatnonzero(alive), of_changes))
        living = slots if alive.all() else slots.take(alive)
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
            at, same = match(self.tree, self.overlay.key.take(changes), slots)
            alive &= ~same
            if not self.tree.ordered:
                changes = np.unique(at[same])
                self._used[changes] = True
            changes = changes[self.overlay.outcome[changes] != Outcome.NO_RECORD]
            if self.inside is not None:
                keys = self.overlay.key.take(changes)
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
        ends = joined_spans([children.low.take(np.array([0])), children.high.take(np.array([-1]))])
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
        return np.flatnonzero(~self._used & (self.overlay.outcome != Outcome.NO_RECORD))

    def left(self) -> tuple[Records, Faults]:
        """Return the records of `left_changes`, and the faults found."""
        return self._records(no_nodes(self.tree.image.data).slots, self.left_changes())

    def lacking_changes(self, first: int, stop: int) -> Lacking:
        """Return the unreadable records among changes [first, stop) of the overlay."""
        rows = np.arange(first, min(stop, len(self.overlay)))
        rows = rows[self.overlay.outcome[rows] != Outcome.NO_RECORD]
        values = _Values.empty(len(rows), self.tree.image.data)
        return _from_changes(self, rows, 0, values)

    def _records(
        self, slots: Slots, changes: Ints, places: Ints | None = None
    ) -> tuple[Records, Faults]:
        n = len(slots)
        values = _Values.empty(n + len(changes), self.tree.image.data)
        faults = Faults()
        keys = slots.key
        faults.lack(_from_slots(self, slots, values))
        if len(changes):
            faults.lack(_from_changes(self, changes, n, values))
            keys = joined_spans([keys, self.overlay.key.take(changes)])
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


def _in_order(reading: Reading, keys: Spans, values: _Values, order: Ints | None) -> Records:
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
    return records.take(chosen)


def _without_parts(reading: Reading, records: Records) -> Lacking:
    """Return the records whose two-part keys do not end with the data."""
    rows = np.flatnonzero(records.data.sizes < 0)
    kinds = np.full(len(rows), LACKING.index(FaultKind.NOT_TWO_PARTS), np.uint8)
    return Lacking(reading.tree.db_id, kinds, records.lsn[rows], records.key.take(rows))


def _from_slots(reading: Reading, slots: Slots, values: _Values) -> Lacking:
    """Fill in the first records, those of slots; return those that cannot be read."""
    n = len(slots)
    values.lsn[:n], values.vlsn[:n] = slots.lsn, np.where(slots.vlsn > 0, slots.vlsn, NO_VLSN)
    values.data_start[:n], values.data_size[:n] = slots.data_start, slots.data_size
    values.modified_ms[:n], values.created_ms[:n] = slots.modified_ms, slots.created_ms
    values.expires_ms[:n] = slots.expires_ms
    values.tombstone[:n] = slots.state & TOMBSTONE != 0
    rows = np.flatnonzero(slots.data_size < 0)
    if not reading.with_data or reading.tree.two_part:
        rows = rows[:0]
    room_size = _room_size(slots) if len(rows) == len(values.lsn) else 0
    image, run = reading.tree.image, run_of(rows)
    entries = fetch(image, slots.lsn[run], room_size=room_size)
    # LNs are copied only if all data is theirs, so one buffer holds the data of all records.
    values.data = entries.data
    lacking = _from_lns(reading, entries, rows, values)
    # Slot and LN may differ: the engine's reads use the expiration of the slot.
    values.expires_ms[run] = slots.expires_ms[run]
    return _lacking(reading, entries, lacking, slots.key.take(rows))


def _room_size(slots: Slots) -> int:
    """Return the bytes of all LNs of the slots; 0 if a size is unknown or the sum is too large."""
    if not (slots.logged_size > 0).all():
        return 0
    size = int(slots.logged_size.sum())
    return size if 0 < size <= _ROOM_MAX else 0


def _from_changes(reading: Reading, changes: Ints, first: int, values: _Values) -> Lacking:
    """Fill in the remaining records, those of undo and redo; return those that cannot be read."""
    overlay, image = reading.overlay, reading.tree.image
    entries = fetch(image, overlay.lsn[changes])
    rows = first + np.arange(len(changes))
    back = overlay.outcome[changes] == Outcome.ABORT_VERSION
    lacking = np.zeros(len(changes), np.bool_)
    forth = np.flatnonzero(~back)
    lacking[forth] = _from_lns(reading, entries.take(forth), rows[forth], values)
    back_to = np.full(len(changes), NULL_LSN, np.int64)
    kept = np.zeros(len(changes), np.bool_)
    for family in (*_IN_COLUMNS, Family.NAME_LN):
        of_family = np.flatnonzero(entries.is_family(family) & back)
        for some, decoded in entries.decode(family, of_family, wanted=ABORT_FIELDS):
            _fill_abort_version(decoded.fields, rows[some], values)
            back_to[some] = decoded.fields.number("abort_lsn")
            if decoded.fields.has("abort_data"):
                kept[some] = decoded.fields.is_present("abort_data")
    values.lsn[rows[back]] = back_to[back]
    further = np.flatnonzero(back & ~kept)
    if reading.tree.two_part or not len(further):
        return _lacking(reading, entries, lacking, overlay.key.take(changes))
    olds = fetch(image, back_to[further])
    expires_ms = values.expires_ms[rows[further]]
    lacking[further] = _from_lns(reading, olds, rows[further], values)
    values.expires_ms[rows[further]] = expires_ms
    return _lacking(reading, entries, lacking, overlay.key.take(changes))


def _from_lns(reading: Reading, entries: Entries, rows: Ints, values: _Values) -> Mask:
    """Fill in records from their LNs; return a mask of the LNs that cannot be read.

    Args:
        reading: reader of the database.
        entries: the LNs.
        rows: int64, ascending; row of each LN's record in `values`.
        values: columns to fill.
    """
    had = np.zeros(len(entries), np.bool_)
    for family in _IN_COLUMNS:
        wanted = np.flatnonzero(entries.is_family(family))
        for some, decoded in entries.decode(family, wanted, wanted=_DATA_FIELDS):
            head, of, to = decoded.fields, run_of(some), run_of(rows[some])
            if not head.has("data"):
                continue
            start, size = head.span("data")
            values.data_start[to], values.data_size[to] = start, size
            values.lsn[to], values.vlsn[to] = entries.lsn[of], entries.vlsn[of]
            values.expires_ms[to] = expiration_ms(head.known("expiration"))
            values.modified_ms[to] = head.known("modified_ms")
            values.created_ms[to] = head.known("created_ms")
            values.tombstone[to] = head.known("flags2") & LN_TOMBSTONE != 0
            had[of] = ~decoded.bad & (size >= 0)
        if len(wanted) == len(entries):
            return ~had
    for family in PAYLOAD_FAMILIES:
        some = np.flatnonzero(entries.is_family(family))
        start, size = np.zeros(len(some), np.int64), np.zeros(len(some), np.int64)
        if reading.with_data:
            start, size = payload_spans(entries, some)
        values.data_start[rows[some]], values.data_size[rows[some]] = start, size
        values.lsn[rows[some]] = entries.lsn[some]
        had[some] = size >= 0
    return ~had


def _fill_abort_version(head: Columns, rows: Ints, values: _Values) -> None:
    """Fill in records from the old versions that undone LNs hold."""
    if head.has("abort_data"):
        start, size = head.span("abort_data")
        values.data_start[rows], values.data_size[rows] = start, size
    values.expires_ms[rows] = expiration_ms(head.known("abort_expiration"))
    values.modified_ms[rows] = head.known("abort_modified_ms")
    values.created_ms[rows] = head.known("abort_created_ms")
    values.tombstone[rows] = head.known("flags2") & ABORT_TOMBSTONE != 0
    vlsn = head.known("abort_vlsn")
    values.vlsn[rows] = np.where(vlsn > 0, vlsn, NO_VLSN)


def _lacking(reading: Reading, entries: Entries, lacking: Mask, keys: Spans) -> Lacking:
    """Return the records whose LNs cannot be read."""
    rows, db_id = np.flatnonzero(lacking), reading.tree.db_id
    if not len(rows):
        return Lacking(db_id, np.empty(0, np.uint8), entries.lsn[:0], keys.take(slice(0)))
    kinds = np.select(
        [entries.found[rows] == Found.BAD, entries.found[rows] == Found.GOOD],
        [LACKING.index(FaultKind.DAMAGED), LACKING.index(FaultKind.NOT_A_RECORD)],
        LACKING.index(FaultKind.MISSING),
    )
    return Lacking(db_id, kinds.astype(np.uint8), entries.lsn[rows], keys.take(rows))
