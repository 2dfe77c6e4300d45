"""VLSN sequence check: the VLSNs of a log must ascend, unless a rollback undid some.

The replication stream consists of the entries with the replicated flag that no rollback has marked
invisible. Each takes the next VLSN. A RollbackStart undoes every VLSN above its matchpoint,
even if the entry was never marked invisible. An entry that the cleaner moved keeps its VLSN in some
releases, but not the flag, and does not count.

Source: LNFileReader and RollbackTracker, JE 18.3.12 and 25.3.17.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, field

from je_tools.formats.je.flags import HeaderFlag
from je_tools.formats.je.header import invisible_mask
from je_tools.formats.je.log.walk import Checksum
from je_tools.formats.je.types import ROLLBACK_START_NO, mask_of
from je_tools.log.file_findings import finding

if TYPE_CHECKING:
    from je_tools.findings import Finding
    from je_tools.formats.arrays import Ints
    from je_tools.formats.je.log.entry_rows import Rows
    from je_tools.log.environment import Environment

SPANS_MAX = 4096
"""Largest number of separate VLSN spans that are kept; a log with more is hostile."""


class Runs(Struct, frozen=True):
    """VLSNs of some entries as runs of consecutive ones, in log order.

    Attributes:
        offset: int64 (n,); offset of the first entry of each run.
        first, last: int64 (n,); VLSNs. For a rollback `first` is ROLLBACK and `last` the VLSN to
            which it goes back.
    """

    offset: Ints
    first: Ints
    last: Ints

    @property
    def has_vlsns(self) -> bool:
        """True unless all of these are rollbacks."""
        return bool((self.first != ROLLBACK).any())


ROLLBACK = -1

STREAM_TYPES = mask_of((ROLLBACK_START_NO,))
"""Types of the entries that `runs_of` needs besides replicated ones."""


def runs_of(rows: Rows) -> Runs | None:
    """Return the runs and rollbacks in `rows`, or None; damaged entries do not count."""
    survey = rows.survey
    if not survey.counts[ROLLBACK_START_NO] and not survey.flags & HeaderFlag.REPLICATED:
        return None
    wanted = HeaderFlag.REPLICATED | invisible_mask(rows.version)
    visible = ((rows.flags & wanted) == HeaderFlag.REPLICATED.value) & (rows.vlsn > 0)
    visible &= rows.checksum != Checksum.BAD
    index = np.flatnonzero(visible)
    vlsns = rows.vlsn[index]
    # A run ends before a VLSN that is not the next one, and at a rollback.
    begins = np.ones(len(index), np.bool_)
    np.not_equal(vlsns[1:], vlsns[:-1] + 1, out=begins[1:])
    rollbacks = np.empty(0, np.int64)
    if survey.counts[ROLLBACK_START_NO]:
        rollbacks = np.flatnonzero((rows.type == ROLLBACK_START_NO) & rows.good)
        before = np.searchsorted(rollbacks, index)
        begins[1:] |= before[1:] != before[:-1]
    starts = np.flatnonzero(begins)
    ends = np.concatenate((starts[1:], [len(index)]))[: len(starts)] - 1
    matchpoints = np.array([_matchpoint(rows, int(row)) for row in rollbacks], np.int64)
    order = np.argsort(np.concatenate((index[starts], rollbacks)), kind="stable")
    offsets = np.concatenate((rows.offset[index[starts]], rows.offset[rollbacks]))
    firsts = np.concatenate((vlsns[starts], np.full(len(rollbacks), ROLLBACK)))
    lasts = np.concatenate((vlsns[ends], matchpoints))
    return Runs(offsets.astype(np.int64)[order], firsts[order], lasts[order])


def _matchpoint(rows: Rows, row: int) -> int:
    """Return the VLSN to which a RollbackStart goes back; 0 for NULL (-1) and damage."""
    return max(int(rows.fields(row).get("matchpoint_vlsn", 0)), 0)


class VlsnSequence(Struct):
    """Check of the VLSN sequence through a log.

    Attributes:
        environment: the log, for findings.
        last: last VLSN of the stream; None before the first.
        is_broken: True if entries may be missing since the last one, which explains a gap.
        file_no: number of the file of the last run; None before the first.
    """

    environment: Environment
    last: int | None = None
    is_broken: bool = False
    file_no: int | None = None
    _starts: list[int] = field(default_factory=list)
    _ends: list[int] = field(default_factory=list)

    def merge(self, file_no: int, runs: Runs, lost: deque[int]) -> Iterator[Finding]:
        """Follow the runs of a file; `lost` holds the ascending offsets of lost entries.

        Offsets before a run are removed from `lost`; the rest lie after the last run.
        """
        columns = (runs.offset.tolist(), runs.first.tolist(), runs.last.tolist())
        for offset, first, last in zip(*columns, strict=True):
            while lost and lost[0] < offset:
                lost.popleft()
                self.is_broken = True
            if first == ROLLBACK:
                self._roll_back(last)
            else:
                yield from self._follow(file_no, offset, first, last)
            self.file_no = file_no

    def _follow(self, file_no: int, offset: int, first: int, last: int) -> Iterator[Finding]:
        if self.last is not None and first != self.last + 1:
            code = self._code(first)
            if code:
                # The end of the run is not reported: it may continue in the next rows.
                yield finding(
                    self.environment,
                    code,
                    file_no=file_no,
                    offset=offset,
                    expected=f"VLSN {self.last + 1}",
                    found=f"VLSN {first}",
                )
        self.is_broken = False
        self.last = last
        self._remember(first, last)

    def _code(self, first: int) -> str | None:
        """Return the code of a run that does not continue the one before it; None if explained."""
        if self.last is not None and first > self.last:
            return None if self.is_broken else "vlsn-gap"
        i = bisect_right(self._starts, first) - 1
        return "vlsn-duplicate" if i >= 0 and first <= self._ends[i] else "vlsn-backward"

    def _roll_back(self, matchpoint: int) -> None:
        if self.last is not None:
            self.last = min(self.last, matchpoint)
        while self._starts and self._starts[-1] > matchpoint:
            self._starts.pop()
            self._ends.pop()
        if self._ends:
            self._ends[-1] = min(self._ends[-1], matchpoint)

    def _remember(self, first: int, last: int) -> None:
        """Add a span to the ascending disjoint spans of VLSNs seen so far."""
        starts, ends = self._starts, self._ends
        low = bisect_right(ends, first - 2)
        high = bisect_right(starts, last + 1)
        if low < high:
            first, last = min(first, starts[low]), max(last, ends[high - 1])
        starts[low:high], ends[low:high] = [first], [last]
        if len(starts) > SPANS_MAX:
            del starts[1], ends[0]
