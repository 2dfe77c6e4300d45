"""Records of a key, and every version of them that a log still holds.

Source: je-log.md "Records" and "Recovery"; LNLogEntry, TxnEnd, JE 7.5.11 and 25.3.17.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from je_tools.btree.key_ranges import range_of
from je_tools.formats.je.btree.slots import split_two_part_keys
from je_tools.formats.je.entry.columns import MAX_ROWS, decode
from je_tools.formats.je.entry.payloads import PAYLOAD_FAMILIES, payload_of
from je_tools.formats.je.types import ABORT_NO, COMMIT_NO, ENTRY_TYPES, Family, Group, mask_of
from je_tools.formats.spans import Spans, starts_with
from je_tools.log import entry_table as entries
from je_tools.log.records import NO_TIME, NO_VLSN, Records
from je_tools.recovery.interval_tables import Writes

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.je.log.entry_rows import Rows
    from je_tools.log.selection import KeyPattern
    from je_tools.recovery.database import Database
    from je_tools.recovery.snapshot import Snapshot

_IS_LN = mask_of(each.no for each in ENTRY_TYPES.values() if Group.LN in each.groups)
_IS_USER_LN = mask_of(
    each.no for each in ENTRY_TYPES.values() if each.family in (Family.LN, Family.DEL_DUP_LN)
)
_HAS_PAYLOAD = mask_of(each.no for each in ENTRY_TYPES.values() if each.family in PAYLOAD_FAMILIES)
_IS_END = mask_of((COMMIT_NO, ABORT_NO))

_NO_END = -1
_KEYS = frozenset({"db_id", "txn_id", "key"})


class VersionState(StrEnum):
    """Fate of a version of a record."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNFINISHED = "unfinished"
    """Its transaction has no end in the log."""
    ROLLED_BACK = "rolled back"
    """Taken back by a rollback in a replication group."""
    NON_TRANSACTIONAL = "non-transactional"
    SLOT = "in a slot only"
    """Its entry is gone with its file; the tree still holds the record."""


class Version(Struct, frozen=True):
    """One version of a record, or its deletion.

    Attributes:
        lsn: NULL_LSN if no entry is known.
        type: the engine's name of the entry's type; None if there is only a slot.
        key: without the data, in a database with duplicates.
        data: None for a deletion, or if it cannot be read.
        txn_id: 0 outside transactions.
        vlsn: NO_VLSN if it has none.
        time_ms: of the record, else of the end of its transaction; None if neither has one.
        state: fate of the version.
        is_current: True if a reader sees it.
    """

    lsn: int
    type: str | None
    key: bytes
    data: bytes | None
    txn_id: int
    vlsn: int
    time_ms: int | None
    state: VersionState
    is_current: bool = False


class _Ends(Struct, frozen=True):
    """Commits and Aborts in int64 columns; `is_commit` marks the Commits."""

    lsn: Ints
    txn_id: Ints
    time_ms: Ints
    is_commit: Mask

    def next_of(self, txn_ids: Ints, lsns: Ints) -> Ints:
        """Return the row of the first end of each transaction after an LSN, or _NO_END.

        Ids can be reused, so only the first end after an entry is its own.
        """
        rows = np.flatnonzero(np.isin(self.txn_id, txn_ids))
        txns = np.concatenate((self.txn_id[rows], txn_ids))
        order = np.lexsort((np.concatenate((self.lsn[rows], lsns)), txns))
        end_at = np.where(order < len(rows), np.arange(len(order)), len(order))
        next_at = np.minimum.accumulate(end_at[::-1])[::-1]
        found = np.empty(len(order), np.int64)
        found[order] = np.append(rows, _NO_END)[np.append(order, -1)[next_at]]
        found = found[len(rows) :]
        own = (found != _NO_END) & (np.append(self.txn_id, 0)[found] == txn_ids)
        return np.where(own, found, _NO_END)


def records_of_key(
    snapshot: Snapshot, database: Database, pattern: KeyPattern, *, show_expired: bool = False
) -> Iterator[Records]:
    """Yield the records of a key, or of all keys with a prefix, by a descent of the tree.

    If a comparator of the application orders the keys, the whole database is read.
    """
    if not database.comparators:
        yield from snapshot.records(database, inside=range_of(pattern), show_expired=show_expired)
        return
    for records in snapshot.records(database, show_expired=show_expired):
        keep = _matches(records.key, pattern)
        if keep.any():
            yield records.select(keep)


class History(Struct, frozen=True):
    """Versions of a key that a log still holds.

    Attributes:
        versions: in log order; versions with only a slot are last.
        damaged_count: number of unreadable places in the log, which may have held more.
    """

    versions: list[Version]
    damaged_count: int


def history_of_key(snapshot: Snapshot, database: Database, pattern: KeyPattern) -> History:
    """Return every version of a key's records, by one scan of the log."""
    work = _VersionCollector(snapshot, database, pattern)
    found: list[Version] = []
    ends: list[_Ends] = []
    damaged = 0
    next_lsn = snapshot.end.next_lsn
    for part in snapshot.scanner.scan(snapshot.environment, work):
        base = part.file.file_no << 32
        damaged += sum(base + gap.start < next_lsn for gap in part.gaps)
        for versions, some, bad in part.results:
            found += versions
            ends.append(some)
            damaged += bad
    found = _with_states(snapshot, found, ends)
    current: list[Version] = []
    for records in records_of_key(snapshot, database, pattern, show_expired=True):
        current += _current(records)
    shown = {(each.lsn, each.key) for each in current}
    known = {(each.lsn, each.key) for each in found}
    marked = [replace(each, is_current=(each.lsn, each.key) in shown) for each in found]
    marked += [each for each in current if (each.lsn, each.key) not in known]
    return History(marked, damaged)


def _matches(keys: Spans, pattern: KeyPattern) -> Mask:
    return starts_with(keys.data, keys.starts, keys.sizes, pattern.needle, whole=pattern.whole)


class _VersionCollector(Struct, frozen=True):
    """Work for a scan: versions of a key, ends of all transactions, number of bad entries."""

    snapshot: Snapshot
    database: Database
    pattern: KeyPattern

    def __call__(self, rows: Rows) -> tuple[list[Version], _Ends, int]:
        types = _IS_LN if self.database.is_internal else _IS_USER_LN
        inside = rows.lsn < self.snapshot.end.next_lsn
        counts = rows.good & inside
        versions: list[Version] = []
        for some in _pieces(rows, counts & types[rows.type]):
            versions += self._versions(some)
        ends = _ends(rows, counts & _IS_END[rows.type])
        return versions, ends, int(np.count_nonzero(inside & ~rows.good))

    def _versions(self, rows: Rows) -> Iterator[Version]:
        table = entries.build_table(rows, wanted=_KEYS)
        keys, _ = self._parts(rows, table)
        hits = table.has_db & (table.db_id == self.database.db_id)
        hits &= _matches(keys, self.pattern)
        if not hits.any():
            return
        rows = rows.select(np.flatnonzero(hits))
        table = entries.build_table(rows)
        keys, data = self._parts(rows, table)
        for row in range(len(rows)):
            time_ms = int(table.time_ms[row])
            yield Version(
                lsn=int(rows.lsn[row]),
                type=ENTRY_TYPES[int(rows.type[row])].name,
                key=keys[row] or b"",
                data=data[row],
                txn_id=int(table.txn_id[row]) if table.has_txn[row] else 0,
                vlsn=int(rows.vlsn[row]) if rows.has_vlsn[row] else NO_VLSN,
                time_ms=None if time_ms == entries.NO_TIME else time_ms,
                state=VersionState.ROLLED_BACK
                if rows.invisible[row]
                else VersionState.NON_TRANSACTIONAL,
            )

    def _parts(self, rows: Rows, table: entries.EntryTable) -> tuple[Spans, Spans]:
        """Return keys and data as an application sees them."""
        keys = Spans(rows.data, table.key_start, table.key_size)
        data = Spans(rows.data, table.data_start, table.data_size)
        if self.database.is_internal:
            return keys, _with_payloads(rows, data)
        if not self.database.has_duplicates or self.database.old_duplicates:
            return keys, data
        first, second = split_two_part_keys(keys)
        deleted = table.data_size < 0
        return first, Spans(second.data, second.starts, np.where(deleted, -1, second.sizes))


def _with_payloads(rows: Rows, data: Spans) -> Spans:
    """Return the data of records; if an entry has fields instead of data, the bytes of these."""
    starts, sizes = data.starts.copy(), data.sizes.copy()
    for row in np.flatnonzero(_HAS_PAYLOAD[rows.type] & (sizes >= 0)).tolist():
        payload = payload_of(rows.entry_bytes(row), rows.version)
        if payload is not None:
            starts[row] = int(rows.offset[row]) - rows.base + payload.start
            sizes[row] = payload.stop - payload.start
    return Spans(data.data, starts, sizes)


def _pieces(rows: Rows, wanted: Mask) -> Iterator[Rows]:
    chosen = np.flatnonzero(wanted)
    for first in range(0, len(chosen), MAX_ROWS):
        yield rows.select(chosen[first : first + MAX_ROWS])


def _ends(rows: Rows, wanted: Mask) -> _Ends:
    parts = []
    for some in _pieces(rows, wanted):
        head = decode(some, Family.TXN_END).fields
        times = head.number("time_ms") if head.has("time_ms") else np.zeros(len(some), np.int64)
        parts.append(_Ends(some.lsn, head.number("txn_id"), times, some.type == COMMIT_NO))
    return _joined(parts)


def _joined(parts: Sequence[_Ends]) -> _Ends:
    none = np.empty(0, np.int64)
    return _Ends(
        np.concatenate([none, *(part.lsn for part in parts)]),
        np.concatenate([none, *(part.txn_id for part in parts)]),
        np.concatenate([none, *(part.time_ms for part in parts)]),
        np.concatenate([np.empty(0, np.bool_), *(part.is_commit for part in parts)]),
    )


def _with_states(
    snapshot: Snapshot, versions: list[Version], parts: Sequence[_Ends]
) -> list[Version]:
    """Return the versions in log order, with the outcome of their transactions."""
    versions = sorted(versions, key=lambda each: each.lsn)
    lsns = np.array([each.lsn for each in versions], np.int64)
    txn_ids = np.array([each.txn_id for each in versions], np.int64)
    rolled_back = snapshot.rules.is_rolled_back(
        Writes(lsns, txn_ids, np.zeros(len(versions), np.uint8))
    )
    ends = _joined(parts)
    rows = ends.next_of(txn_ids, lsns)
    told = []
    for i, version in enumerate(versions):
        if version.txn_id == 0 or version.state is VersionState.ROLLED_BACK:
            told.append(version)
        elif rolled_back[i]:
            told.append(replace(version, state=VersionState.ROLLED_BACK))
        else:
            told.append(_ended(version, ends, int(rows[i])))
    return told


def _ended(version: Version, ends: _Ends, end: int) -> Version:
    if end == _NO_END:
        return replace(version, state=VersionState.UNFINISHED)
    state = VersionState.COMMITTED if ends.is_commit[end] else VersionState.ABORTED
    time_ms = version.time_ms
    if time_ms is None and ends.time_ms[end] > 0:
        time_ms = int(ends.time_ms[end])
    return replace(version, state=state, time_ms=time_ms)


def _current(records: Records) -> Iterator[Version]:
    for row in range(len(records)):
        modified_ms = int(records.modified_ms[row])
        yield Version(
            lsn=int(records.lsn[row]),
            type=None,
            key=records.key[row] or b"",
            data=records.data[row],
            txn_id=0,
            vlsn=int(records.vlsn[row]),
            time_ms=None if modified_ms == NO_TIME else modified_ms,
            state=VersionState.SLOT,
            is_current=True,
        )
