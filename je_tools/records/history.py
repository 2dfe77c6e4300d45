"""Records of a key, and every version of them that a log still holds.

Source: je-log.md "Records" and "Recovery"; LNLogEntry, TxnEnd, JE 7.5.11 and 25.3.17.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from je_tools.btree.key_ranges import range_of
from je_tools.core.spill import RowLog, Spill
from je_tools.errors import StoppedError
from je_tools.formats.spans import Spans, starts_with
from je_tools.log.entry_table import NO_TIME
from je_tools.log.records import PIECE_BYTES, PIECE_ROWS, bounded_slices
from je_tools.output.files.outputs import scratch_directory
from je_tools.records.version_ends import NO_END, EndedVersions, OpenVersions, ScannedTxnEnds
from je_tools.records.version_matching import VersionMatcher
from je_tools.records.version_scan import VersionCollector
from je_tools.records.versions import (
    ABORTED,
    COMMITTED,
    ROLLED_BACK,
    UNFINISHED,
    VERSION_KINDS,
    VersionBatch,
    VersionRows,
    slots_only,
)
from je_tools.recovery.interval_tables import Writes

if TYPE_CHECKING:
    from je_tools.formats.arrays import Mask
    from je_tools.log.parsing import KeyPattern
    from je_tools.log.records import Records
    from je_tools.recovery.database import Database
    from je_tools.recovery.snapshot import Snapshot


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


def _matches(keys: Spans, pattern: KeyPattern) -> Mask:
    return starts_with(keys.data, keys.starts, keys.sizes, pattern.needle, whole=pattern.whole)


class KeyHistory(Struct, frozen=True):
    """Versions of a key that a log still holds.

    Attributes:
        snapshot: the log.
        database: the database.
        pattern: the keys.
        rows: the versions that have an entry.
        ended: ends of transactions that are in a later part of the log than a version.
        matcher: tells which versions readers see.
        damaged_count: number of unreadable places in the log, which may have held more.
    """

    snapshot: Snapshot
    database: Database
    pattern: KeyPattern
    rows: RowLog
    ended: EndedVersions
    matcher: VersionMatcher
    damaged_count: int

    def __len__(self) -> int:
        return len(self.rows) + self.matcher.slot_count

    def batches(self) -> Iterator[VersionBatch]:
        """Yield the versions in log order; those with only a slot are last.

        Raises:
            StoppedError: a file of the log has changed.
            RefusedError: a temporary file cannot be read.
        """
        current, start = self.matcher.current_mask(), 0
        for columns in self.rows.chunks():
            chunk = VersionRows(*columns)
            state, time_ms = chunk.state.copy(), chunk.time_ms.copy()
            for at, end_ms, is_commit in self.ended.within(start, start + len(chunk)):
                _set_end(state[at], time_ms[at], end_ms, COMMITTED if is_commit else ABORTED)
            is_current = current.within(start, start + len(chunk))
            start += len(chunk)
            chunk = replace(chunk, state=state, time_ms=time_ms)
            sizes = np.maximum(chunk.key_size, 0) + np.maximum(chunk.data_size, 0)
            for cut in bounded_slices(sizes, PIECE_ROWS, PIECE_BYTES):
                yield self._read(chunk.select(cut), is_current[cut])
        if self.matcher.slot_count:
            yield from self._slots()

    def _read(self, rows: VersionRows, is_current: Mask) -> VersionBatch:
        image = self.snapshot.image
        positions, _ = image.places(rows.lsn)
        if (positions < 0).any():
            raise StoppedError("a log file changed while it was read: run the command again")
        ends = np.maximum(rows.key_start + rows.key_size, rows.data_start + rows.data_size)
        image.load(positions, ends.astype(np.int64))
        return VersionBatch(
            lsn=rows.lsn,
            txn_id=rows.txn_id,
            vlsn=rows.vlsn,
            time_ms=rows.time_ms,
            type=rows.type,
            state=rows.state,
            is_current=is_current,
            key=Spans(image.data, positions + rows.key_start, rows.key_size.astype(np.int64)),
            data=Spans(image.data, positions + rows.data_start, rows.data_size.astype(np.int64)),
        )

    def _slots(self) -> Iterator[VersionBatch]:
        slots, start = self.matcher.slot_mask(), 0
        found = records_of_key(self.snapshot, self.database, self.pattern, show_expired=True)
        for records in found:
            keep = slots.within(start, start + len(records))
            start += len(records)
            if keep.any():
                yield slots_only(records.select(keep))


def _set_end(state: Any, time_ms: Any, end_ms: int, outcome: int) -> None:
    """Set the outcome of versions and, if they have no time, that of the end."""
    state[:] = outcome
    if end_ms > 0:
        time_ms[time_ms == NO_TIME] = end_ms


def history_of_key(
    snapshot: Snapshot,
    database: Database,
    pattern: KeyPattern,
    directory: Callable[[], Path] | None = None,
) -> KeyHistory:
    """Find every version of a key's records, by one scan of the log.

    Args:
        snapshot: the log.
        database: a database of it.
        pattern: the keys.
        directory: returns the directory for temporary files, if there are many versions; None for
            the system's, outside of the environment.

    Raises:
        StoppedError: a file shrank, vanished or was replaced while it was read.
        RefusedError: a temporary file cannot be written.
    """
    environment = snapshot.environment
    spill = Spill(environment.size, directory or scratch_directory(None, environment))
    matcher = VersionMatcher(spill)
    collected = _CollectedVersions(snapshot, RowLog(spill, VERSION_KINDS), OpenVersions())
    next_lsn = snapshot.end.next_lsn
    work = VersionCollector(database, pattern, next_lsn, matcher.seed)
    damaged = 0
    for part in snapshot.scanner.scan(environment, work):
        base = part.file.file_no << 32
        damaged += sum(base + gap.start < next_lsn for gap in part.gaps)
        for found in part.results:
            collected.open.find_ends(found.ends)
            for versions, first, second in found.versions:
                collected.add(versions, found.ends)
                matcher.add_versions(first, second)
            damaged += found.bad_count
    for records in records_of_key(snapshot, database, pattern, show_expired=True):
        matcher.add_records(records.lsn, records.key)
    matcher.match()
    ended = collected.open.ended()
    return KeyHistory(snapshot, database, pattern, collected.rows, ended, matcher, damaged)


class _CollectedVersions(Struct, frozen=True):
    """Versions collected so far, and those whose transaction has no end yet."""

    snapshot: Snapshot
    rows: RowLog
    open: OpenVersions

    def add(self, versions: VersionRows, ends: ScannedTxnEnds) -> None:
        """Add the versions of a part of the log, with the outcome of their transactions."""
        state, time_ms = versions.state.copy(), versions.time_ms.copy()
        is_open = (versions.txn_id != 0) & (state != ROLLED_BACK)
        writes = Writes(versions.lsn, versions.txn_id, np.zeros(len(versions), np.uint8))
        is_undone = is_open & self.snapshot.rules.is_rolled_back(writes)
        state[is_undone] = ROLLED_BACK
        rows = np.flatnonzero(is_open & ~is_undone)
        found = ends.next_of(versions.txn_id[rows], versions.lsn[rows])
        has_end = found != NO_END
        state[rows] = UNFINISHED
        ended, found = rows[has_end], found[has_end]
        state[ended] = np.where(ends.is_commit[found], COMMITTED, ABORTED)
        takes_time = (time_ms[ended] == NO_TIME) & (ends.time_ms[found] > 0)
        time_ms[ended[takes_time]] = ends.time_ms[found[takes_time]]
        rows = rows[~has_end]
        self.open.add(versions.txn_id[rows], len(self.rows) + rows)
        self.rows.append(replace(versions, state=state, time_ms=time_ms).columns())
