"""Check of a node without reading its whole stream: its index, its end, its rollbacks, its group.

The caller has read the log, and passes the rollbacks in it. Only the entries to which mappings lead
are read, the files at the end of the log, and those of rollbacks. The findings are those of
`check.check_stream`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from je_tools.formats.je.flags import HeaderFlag
from je_tools.formats.je.log.fetch import fetch
from je_tools.vlsn.group_names import GroupNames, read_group_names
from je_tools.vlsn.index_findings import (
    end_findings,
    group_findings,
    misfit_finding,
    record_findings,
)
from je_tools.vlsn.index_state import IndexState, read_index_state
from je_tools.vlsn.logged import (
    STREAM_ENTRIES,
    EntryState,
    LoggedStream,
    collect_logged,
    joined_logged,
)
from je_tools.vlsn.rollback_starts import Rollback, is_left
from je_tools.vlsn.stream_findings import mapping_findings, rollback_findings
from je_tools.vlsn.sync_points import ABSENT, IS_TXN_END, SyncPoints
from je_tools.vlsn.tail import Tail, TailReader

if TYPE_CHECKING:
    from je_tools.findings import Finding
    from je_tools.formats.arrays import Ints
    from je_tools.recovery.snapshot import Snapshot

ROLLBACKS_MAX = 256 << 20
"""Largest number of bytes of files that are read for rollbacks: 22 bytes of memory an entry."""

_FETCHED = 1 << 16
"""Number of mappings whose entries are read at once."""

_BACK_MAX = 8
"""Largest number of files that are read back to the last Commit."""

_SHOWN = HeaderFlag.REPLICATED.value | HeaderFlag.INVISIBLE.value

Period = tuple[int, int]
"""A rollback: LSN of its matchpoint, and of its RollbackStart."""


class QuickCheck(Struct, frozen=True):
    """Result of a check.

    Attributes:
        group: the group of the node.
        index: its VLSN index.
        tail: end of its stream, with at least one sync point if the last files have one.
        mapping_count: number of mappings, all of which were followed.
        are_rollbacks_read: False if the rollbacks of the log are too long.
        findings: what is wrong.
    """

    group: GroupNames
    index: IndexState
    tail: Tail
    mapping_count: int
    are_rollbacks_read: bool
    findings: list[Finding]

    @property
    def last_end(self) -> SyncPoints | None:
        """The last Commit or Abort, as one row; None if none was read."""
        rows = np.flatnonzero(IS_TXN_END[self.tail.sync.type])
        return self.tail.sync.select(rows[-1:]) if len(rows) else None

    @property
    def durable_vlsn(self) -> int | None:
        """Last VLSN that the master knew to be durable, when it wrote the last sync point."""
        known = self.tail.sync.dtvlsn[self.tail.sync.dtvlsn != ABSENT]
        return int(known[-1]) if len(known) else None

    @property
    def open_count(self) -> int | None:
        """Number of VLSNs after the last Commit or Abort; None if none was read."""
        end, last = self.last_end, self.tail.last_vlsn
        return None if end is None or last is None else last - int(end.vlsn[0])


def quick_check(snapshot: Snapshot, periods: Sequence[Period]) -> QuickCheck:
    """Check a node of a group; faults of trees are added to `snapshot.faults`.

    Args:
        snapshot: the log of a replicated node.
        periods: all rollbacks of the log.

    Raises:
        StoppedError: a file shrank, vanished or was replaced meanwhile.
        InputError: a file cannot be read.
    """
    group = read_group_names(snapshot)
    index = read_index_state(snapshot)
    tail = _tail_of(snapshot)
    streams = list(_rollback_streams(snapshot, periods))
    rollbacks = [each for stream in streams for each in stream.rollbacks]
    mappings = index.mappings
    findings = [
        *group_findings(snapshot, group),
        *record_findings(snapshot, index.stored, index.tracked_vlsn),
        *misfit_finding(snapshot, index.refusal),
        *end_findings(snapshot, index.usable, tail.end(index.usable.range.last)),
        *mapping_findings(snapshot, index.usable, _mapped(snapshot, mappings.lsn, rollbacks)),
    ]
    for stream in streams:
        findings += rollback_findings(snapshot, stream)
    return QuickCheck(group, index, tail, len(mappings), bool(streams) or not periods, findings)


def _tail_of(snapshot: Snapshot) -> Tail:
    """Read the end of the stream back to the last Commit or Abort, if that is not too far."""
    reader = TailReader(snapshot)
    tail = reader.at_least(1)
    for _ in range(_BACK_MAX):
        if tail.end(np.iinfo(np.int64).max).last_txn_end is not None or reader.is_whole:
            break
        reader.read_file()
        tail = reader.tail()
    return tail


def _mapped(snapshot: Snapshot, lsns: Ints, rollbacks: Sequence[Rollback]) -> LoggedStream:
    """Return those entries of the stream to which mappings lead."""
    lsns = np.unique(lsns)
    lsns = lsns[lsns < snapshot.end.next_lsn]
    pieces = [_fetched(snapshot, lsns[at : at + _FETCHED]) for at in range(0, len(lsns), _FETCHED)]
    nothing = np.empty(0, np.int64)
    columns = zip(*pieces, strict=True) if pieces else [[nothing]] * 5
    lsn, vlsn, types, size, flags = (np.concatenate(column) for column in columns)
    state = np.full(len(lsn), EntryState.VISIBLE, np.uint8)
    bounds = [(each.start_lsn, each.matchpoint_vlsn) for each in rollbacks]
    state[~is_left(lsn, vlsn, bounds)] = EntryState.ROLLED_BACK
    state[(flags & _SHOWN) == _SHOWN] = EntryState.INVISIBLE
    return LoggedStream(
        lsn, vlsn, types.astype(np.uint8), size.astype(np.int32), state, list(rollbacks)
    )


def _fetched(snapshot: Snapshot, lsns: Ints) -> tuple[Ints, ...]:
    entries = fetch(snapshot.image, lsns)
    is_own = (entries.flags & HeaderFlag.REPLICATED.value) != 0
    rows = np.flatnonzero(entries.good & is_own & (entries.vlsn > 0))
    columns = (entries.vlsn, entries.type, entries.size, entries.flags)
    return lsns[rows], *(column[rows].astype(np.int64) for column in columns)


def _rollback_streams(snapshot: Snapshot, periods: Sequence[Period]) -> Iterator[LoggedStream]:
    """Yield the streams of the files of rollbacks; nothing if these are too long."""
    ranges: list[list[int]] = []
    # A RollbackEnd may be in the file after that of its start.
    for first, last in sorted((each[0] >> 32, (each[1] >> 32) + 1) for each in periods):
        if ranges and first <= ranges[-1][1]:
            ranges[-1][1] = max(ranges[-1][1], last)
        else:
            ranges.append([first, last])
    chosen = [
        tuple(file for file in snapshot.end.files if first <= file.file_no <= last)
        for first, last in ranges
    ]
    if sum(file.size for files in chosen for file in files) > ROLLBACKS_MAX:
        return
    scanner = replace(
        snapshot.scanner, progress=None, stage=None, wide=True, asked=lambda _: STREAM_ENTRIES
    )
    for files in chosen:
        log = replace(snapshot.environment, files=files)
        parts = scanner.scan(log, collect_logged)
        stream = joined_logged([each for part in parts for each in part.results])
        yield stream.up_to(snapshot.end.next_lsn)
