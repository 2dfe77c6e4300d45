"""Check of a node without reading its whole stream: its index, its end, its rollbacks, its group.

The caller has read the log, and passes the rollbacks in it. This module reads only the entries to
which mappings lead, the files at the end of the log, the files with rollbacks, and the parts inside
rollbacks. The findings are those of `stream_check.check_stream`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from je_tools.formats.je.log.entry_rows import WantedEntries
from je_tools.vlsn.group_names import GroupNames, read_group_names
from je_tools.vlsn.index_findings import (
    end_findings,
    group_findings,
    misfit_finding,
    record_findings,
)
from je_tools.vlsn.index_state import IndexState, read_index_state
from je_tools.vlsn.judged_buckets import right_in_log
from je_tools.vlsn.node_rollbacks import (
    ROLLBACK_TYPES,
    LoggedRollback,
    NodeRollback,
    joined_rollbacks,
    logged_rollbacks,
)
from je_tools.vlsn.stored_index import mappings_of
from je_tools.vlsn.stream_findings import mapping_findings, rollback_findings
from je_tools.vlsn.stream_summary import StreamSummary, VlsnRuns
from je_tools.vlsn.stream_tail import StreamTail, TailReader
from je_tools.vlsn.sync_points import ABSENT, IS_TXN_END, SyncPoints

if TYPE_CHECKING:
    from je_tools.findings import Finding
    from je_tools.formats.je.log.entry_rows import Rows
    from je_tools.recovery.snapshot import Snapshot
    from je_tools.verify.odd_flags import Period
    from je_tools.vlsn.logged_stream import StreamEnd

_BACK_MAX = 8
"""Largest number of files that are read to find the last Commit or Abort."""

_FOREVER = np.iinfo(np.int64).max


class QuickCheck(Struct, frozen=True):
    """Result of a check.

    Attributes:
        group: the group of the node.
        index: its VLSN index.
        tail: end of its stream, with at least one sync point if the last files have one.
        mapping_count: number of mappings, all of which were followed.
        findings: what is wrong.
    """

    group: GroupNames
    index: IndexState
    tail: StreamTail
    mapping_count: int
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
    """Check a node of a group; add faults of trees to `snapshot.faults`.

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
    rollbacks = _rollbacks(snapshot, periods)
    end = tail.end(index.usable.range.last)
    mappings = mappings_of(index.usable.buckets).in_lsn_order()
    summary = _summary(end, rollbacks)
    summary = replace(summary, is_right=right_in_log(snapshot, mappings, summary))
    findings = [
        *group_findings(snapshot, group),
        *record_findings(snapshot, index.stored, index.tracked_vlsn),
        *misfit_finding(snapshot, index.refusal),
        *end_findings(snapshot, index.usable, end),
        *mapping_findings(snapshot, index.usable, mappings, summary),
        *rollback_findings(snapshot, rollbacks),
    ]
    return QuickCheck(group, index, tail, len(mappings), findings)


def _summary(end: StreamEnd, rollbacks: list[NodeRollback]) -> StreamSummary:
    """Return a summary with one run of VLSNs; `verify` reports those that are used twice."""
    one = VlsnRuns(*(np.array([each], np.int64) for each in (0, 1, _FOREVER - 1)))
    return StreamSummary(
        entry_count=0,
        visible_count=0,
        first_vlsn=None,
        end=end,
        has_sync=True,
        has_txn_end=True,
        is_right=np.zeros(0, np.bool_),
        rollbacks=rollbacks,
        runs=one,
    )


def _tail_of(snapshot: Snapshot) -> StreamTail:
    """Read the stream back to the last Commit or Abort, but at most _BACK_MAX files."""
    reader = TailReader(snapshot)
    tail = reader.at_least(1)
    for _ in range(_BACK_MAX):
        if tail.end(_FOREVER).last_txn_end is not None or reader.is_whole:
            break
        reader.read_file()
        tail = reader.tail()
    return tail


def _rollbacks(snapshot: Snapshot, periods: Sequence[Period]) -> list[NodeRollback]:
    """Read the rollbacks of a log; a RollbackEnd may be in the file after that of its start."""
    next_lsn = snapshot.end.next_lsn

    def select(rows: Rows) -> list[LoggedRollback]:
        return [each for each in logged_rollbacks(rows) if each.lsn < next_lsn]

    numbers = {(start >> 32) + more for _, start in periods for more in (0, 1)}
    files = tuple(file for file in snapshot.end.files if file.file_no in numbers)
    wanted = WantedEntries(ROLLBACK_TYPES, 0)
    scanner = replace(
        snapshot.scanner, progress=None, stage=None, wide=True, asked=lambda _: wanted
    )
    parts = scanner.scan(replace(snapshot.environment, files=files), select) if files else ()
    return joined_rollbacks([each for part in parts for some in part.results for each in some])
