"""Values of records in columns, filled from slots, from LNs, and from versions that LNs replaced.

Source: je-log.md "Reading the current content"; CursorImpl.getCurrent, BIN.fetchLN, JE 18.3.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.btree.fault_kinds import FaultKind
from je_tools.btree.faults import UNREADABLE_KINDS, UnreadableRecords
from je_tools.formats.arrays import Ints, Mask, run_of
from je_tools.formats.je.entry.payloads import PAYLOAD_FAMILIES, payload_spans
from je_tools.formats.je.expirations import expiration_ms
from je_tools.formats.je.flags import LnFlag2, SlotState
from je_tools.formats.je.header import NULL_LSN
from je_tools.formats.je.log.fetch import Entries, Found, fetch
from je_tools.formats.je.types import Family
from je_tools.log.records import NO_TIME, NO_VLSN
from je_tools.recovery.outcomes import KeyOutcome, Overlay

if TYPE_CHECKING:
    from je_tools.btree.tree import Tree
    from je_tools.formats.files.source import Bytes
    from je_tools.formats.je.btree.slots import Slots
    from je_tools.formats.je.entry.columns import Columns
    from je_tools.formats.spans import Spans

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


class RecordSource(Struct, frozen=True):
    """A tree whose records are read.

    Attributes:
        tree: tree of the database.
        overlay: changes of undo and redo.
        with_data: as in `RecordReader`.
    """

    tree: Tree
    overlay: Overlay
    with_data: bool


class RecordValues(Struct):
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
    def empty(cls, n: int, data: Bytes) -> RecordValues:
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


def fill_from_slots(source: RecordSource, slots: Slots, values: RecordValues) -> UnreadableRecords:
    """Fill the first rows of `values` from slots and their LNs; return the unreadable records."""
    n = len(slots)
    values.lsn[:n], values.vlsn[:n] = slots.lsn, np.where(slots.vlsn > 0, slots.vlsn, NO_VLSN)
    values.data_start[:n], values.data_size[:n] = slots.data_start, slots.data_size
    values.modified_ms[:n], values.created_ms[:n] = slots.modified_ms, slots.created_ms
    values.expires_ms[:n] = slots.expires_ms
    values.tombstone[:n] = slots.state & SlotState.TOMBSTONE != 0
    rows = np.flatnonzero(slots.data_size < 0)
    if not source.with_data or source.tree.two_part:
        rows = rows[:0]
    room_size = _room_size(slots) if len(rows) == len(values.lsn) else 0
    image, run = source.tree.image, run_of(rows)
    entries = fetch(image, slots.lsn[run], room_size=room_size)
    # LNs are copied only if all data is theirs, so one buffer holds the data of all records.
    values.data = entries.data
    is_unreadable = _from_lns(source, entries, rows, values)
    # Slot and LN may differ: the engine's reads use the expiration of the slot.
    values.expires_ms[run] = slots.expires_ms[run]
    return _unreadable_records(source, entries, is_unreadable, slots.key.select(rows))


def _room_size(slots: Slots) -> int:
    """Return the bytes of all LNs of the slots; 0 if a size is unknown or the sum is too large."""
    if not (slots.logged_size > 0).all():
        return 0
    size = int(slots.logged_size.sum())
    return size if 0 < size <= _ROOM_MAX else 0


def fill_from_changes(
    source: RecordSource, changes: Ints, first: int, values: RecordValues
) -> UnreadableRecords:
    """Fill the rows of `values` from `first` on from changes; return the unreadable records.

    The record of an undone LN is the version that it replaced. That version is in the LN itself, or
    in the LN to which it points.
    """
    overlay, image = source.overlay, source.tree.image
    entries = fetch(image, overlay.lsn[changes])
    rows = first + np.arange(len(changes))
    back = overlay.outcome[changes] == KeyOutcome.ABORT_VERSION
    is_unreadable = np.zeros(len(changes), np.bool_)
    current = np.flatnonzero(~back)
    is_unreadable[current] = _from_lns(source, entries.select(current), rows[current], values)
    abort_lsn = np.full(len(changes), NULL_LSN, np.int64)
    has_abort_data = np.zeros(len(changes), np.bool_)
    for family in (*_IN_COLUMNS, Family.NAME_LN):
        of_family = np.flatnonzero(entries.is_family(family) & back)
        for some, decoded in entries.decode(family, of_family, wanted=ABORT_FIELDS):
            _fill_abort_version(decoded.fields, rows[some], values)
            abort_lsn[some] = decoded.fields.number("abort_lsn")
            if decoded.fields.has("abort_data"):
                has_abort_data[some] = decoded.fields.is_present("abort_data")
    values.lsn[rows[back]] = abort_lsn[back]
    further = np.flatnonzero(back & ~has_abort_data)
    if source.tree.two_part or not len(further):
        return _unreadable_records(source, entries, is_unreadable, overlay.key.select(changes))
    olds = fetch(image, abort_lsn[further])
    expires_ms = values.expires_ms[rows[further]]
    is_unreadable[further] = _from_lns(source, olds, rows[further], values)
    values.expires_ms[rows[further]] = expires_ms
    return _unreadable_records(source, entries, is_unreadable, overlay.key.select(changes))


def _from_lns(source: RecordSource, entries: Entries, rows: Ints, values: RecordValues) -> Mask:
    """Fill rows of `values` from LNs; return a mask of the LNs that cannot be read.

    Args:
        source: the tree and its changes.
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
            values.tombstone[to] = head.known("flags2") & LnFlag2.TOMBSTONE != 0
            had[of] = ~decoded.bad & (size >= 0)
        if len(wanted) == len(entries):
            return ~had
    for family in PAYLOAD_FAMILIES:
        some = np.flatnonzero(entries.is_family(family))
        start, size = np.zeros(len(some), np.int64), np.zeros(len(some), np.int64)
        if source.with_data:
            start, size = payload_spans(entries, some)
        values.data_start[rows[some]], values.data_size[rows[some]] = start, size
        values.lsn[rows[some]] = entries.lsn[some]
        had[some] = size >= 0
    return ~had


def _fill_abort_version(head: Columns, rows: Ints, values: RecordValues) -> None:
    """Fill rows of `values` from the old versions that undone LNs hold."""
    if head.has("abort_data"):
        start, size = head.span("abort_data")
        values.data_start[rows], values.data_size[rows] = start, size
    values.expires_ms[rows] = expiration_ms(head.known("abort_expiration"))
    values.modified_ms[rows] = head.known("abort_modified_ms")
    values.created_ms[rows] = head.known("abort_created_ms")
    values.tombstone[rows] = head.known("flags2") & LnFlag2.ABORT_TOMBSTONE != 0
    vlsn = head.known("abort_vlsn")
    values.vlsn[rows] = np.where(vlsn > 0, vlsn, NO_VLSN)


def _unreadable_records(
    source: RecordSource, entries: Entries, is_unreadable: Mask, keys: Spans
) -> UnreadableRecords:
    """Return the records whose LNs cannot be read."""
    rows, db_id = np.flatnonzero(is_unreadable), source.tree.db_id
    if not len(rows):
        return UnreadableRecords(
            db_id, np.empty(0, np.uint8), entries.lsn[:0], keys.select(slice(0))
        )
    kinds = np.select(
        [entries.found[rows] == Found.BAD, entries.found[rows] == Found.GOOD],
        [UNREADABLE_KINDS.index(FaultKind.DAMAGED), UNREADABLE_KINDS.index(FaultKind.NOT_A_RECORD)],
        UNREADABLE_KINDS.index(FaultKind.MISSING),
    )
    return UnreadableRecords(db_id, kinds.astype(np.uint8), entries.lsn[rows], keys.select(rows))
