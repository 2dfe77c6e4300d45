"""Summary of the replication stream of a whole log, whose memory does not grow with the log.

It has runs of consecutive VLSNs, and rollbacks. The stream of an intact log is one run.

Source: LNFileReader, RollbackTracker, VLSNTracker.track, JE 18.3.12 and 25.3.17.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.verify.vlsn_sequence import ROLLBACK, Runs
from je_tools.vlsn.logged_stream import EntryState, StreamEnd
from je_tools.vlsn.node_rollbacks import (
    LoggedRollback,
    NodeRollback,
    bounds_of,
    highest_left,
    is_left,
    joined_rollbacks,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    from je_tools.formats.arrays import Ints, Mask
    from je_tools.vlsn.stream_probe import ProbedRows, StreamPlace, StreamProbe

NewestEnds = Callable[[int], tuple[int | None, int | None]]

RUNS_MAX = 1 << 16
"""Largest number of runs that are kept. Each border between two is a finding."""


class VlsnRuns(Struct, frozen=True):
    """Runs of consecutive VLSNs that no rollback undid, in log order.

    Attributes:
        lsn: int64; LSN of the first entry of each run.
        first, last: int64; first and last VLSN of each run.
    """

    lsn: Ints
    first: Ints
    last: Ints

    def __len__(self) -> int:
        return len(self.lsn)

    @property
    def is_ascending(self) -> bool:
        """True if the VLSNs ascend."""
        return bool((self.first[1:] > self.last[:-1]).all())

    @property
    def is_whole(self) -> bool:
        """True if each VLSN follows the one before it."""
        return bool((self.first[1:] == self.last[:-1] + 1).all())

    def count(self) -> int:
        """Return the number of different VLSNs."""
        if self.is_ascending:
            return int((self.last - self.first + 1).sum())
        borders, owner = self._owners()
        return int(np.diff(borders)[owner[:-1] >= 0].sum())

    def is_newest(self, lsns: Ints, vlsns: Ints) -> Mask:
        """Return a mask of the entries whose VLSN no later run has."""
        if self.is_ascending:
            return np.ones(len(lsns), np.bool_)
        borders, owner = self._owners()
        newest = owner[np.maximum(np.searchsorted(borders, vlsns, "right") - 1, 0)]
        own = np.searchsorted(self.lsn, lsns, "right") - 1
        found: Mask = newest <= own
        return found

    def _owners(self) -> tuple[Ints, Ints]:
        """Return borders between VLSNs, and the last run with the VLSNs from each border on."""
        borders = np.sort(np.concatenate([self.first, self.last + 1]))
        owner = np.full(len(borders), -1, np.int64)
        lows = np.searchsorted(borders, self.first).tolist()
        stops = np.searchsorted(borders, self.last + 1).tolist()
        for run, (low, stop) in enumerate(zip(lows, stops, strict=True)):
            owner[low:stop] = run
        return borders, owner


class StreamSummary(Struct, frozen=True):
    """Summary of the replication stream of a log.

    Attributes:
        entry_count: number of its entries.
        visible_count: number of VLSNs that no rollback undid.
        first_vlsn: first of these; None without one.
        end: last of these, and the last sync point and end of a transaction that the index covers.
        has_sync, has_txn_end: True if the log has a visible sync point, or end of a transaction,
            with the VLSN that the range of the index names as the last one.
        is_right: bool; mappings that lead to the visible entry of their VLSN, in LSN order.
        rollbacks: rollbacks, in log order.
        runs: VLSNs that no rollback undid.
    """

    entry_count: int
    visible_count: int
    first_vlsn: int | None
    end: StreamEnd
    has_sync: bool
    has_txn_end: bool
    is_right: Mask
    rollbacks: list[NodeRollback]
    runs: VlsnRuns

    def states(self, lsns: Ints, vlsns: Ints, hidden: Mask) -> npt.NDArray[np.uint8]:
        """Return the state of some entries, as values of `EntryState`.

        Args:
            lsns, vlsns: int64; the entries.
            hidden: bool; those that are marked invisible.
        """
        state = np.full(len(lsns), EntryState.VISIBLE, np.uint8)
        state[~self.runs.is_newest(lsns, vlsns)] = EntryState.REPEATED
        state[~is_left(lsns, vlsns, bounds_of(self.rollbacks))] = EntryState.ROLLED_BACK
        state[hidden] = EntryState.INVISIBLE
        return state


class SummaryBuilder:
    """Builder of a summary from the results of a probe; add them in log order."""

    def __init__(self, probe: StreamProbe) -> None:
        self._probe = probe
        self._right = np.zeros(len(probe.lsn), np.bool_)
        self._entry_count = 0
        self._runs: list[list[int]] = []
        self._goes_on = False
        self._last_sync: StreamPlace | None = None
        self._last_txn_end: StreamPlace | None = None
        self._has_sync = self._has_txn_end = False
        self._rollbacks: list[LoggedRollback] = []

    def add(self, parts: Iterable[ProbedRows | None]) -> None:
        """Add the next rows."""
        for part in parts:
            if part is None:
                continue
            self._entry_count += part.entry_count
            self._right[part.hits] = True
            self._last_sync = part.last_sync or self._last_sync
            self._last_txn_end = part.last_txn_end or self._last_txn_end
            self._has_sync |= part.has_sync
            self._has_txn_end |= part.has_txn_end
            self._rollbacks += part.rollbacks
            self._add_runs(part.file_no << 32, part.runs)

    def _add_runs(self, high: int, runs: Runs) -> None:
        columns = (runs.offset.tolist(), runs.first.tolist(), runs.last.tolist())
        for offset, first, last in zip(*columns, strict=True):
            if first == ROLLBACK:
                self._goes_on = False
            elif self._goes_on and self._runs[-1][2] + 1 == first:
                self._runs[-1][2] = last
            elif len(self._runs) < RUNS_MAX:
                self._runs.append([high | offset, first, last])
                self._goes_on = True

    def finish(self, newest_ends: NewestEnds) -> StreamSummary:
        """Return the summary.

        Args:
            newest_ends: as `TailReader.newest_ends`. It is called if rollbacks undid the last
                sync points, so that earlier ones count.
        """
        probe, rollbacks = self._probe, joined_rollbacks(self._rollbacks)
        runs = _runs_after_rollbacks(np.array(self._runs, np.int64).reshape(-1, 3), rollbacks)
        right = self._right & is_left(probe.lsn, probe.vlsn, bounds_of(rollbacks))
        right &= runs.is_newest(probe.lsn, probe.vlsn)
        return StreamSummary(
            entry_count=self._entry_count,
            visible_count=runs.count(),
            first_vlsn=int(runs.first.min()) if len(runs) else None,
            end=self._end(newest_ends, runs, rollbacks),
            has_sync=self._has_sync,
            has_txn_end=self._has_txn_end,
            is_right=right,
            rollbacks=rollbacks,
            runs=runs,
        )

    def _end(
        self, newest_ends: NewestEnds, runs: VlsnRuns, rollbacks: Sequence[NodeRollback]
    ) -> StreamEnd:
        last = int(runs.last[-1]) if len(runs) else None
        found = [each for each in (self._last_sync, self._last_txn_end) if each is not None]
        lsns, vlsns = (np.array([each[i] for each in found], np.int64) for i in (1, 0))
        if is_left(lsns, vlsns, bounds_of(rollbacks)).all():
            places = (self._last_sync, self._last_txn_end)
            return StreamEnd(last, *(None if each is None else each.vlsn for each in places))
        return StreamEnd(last, *newest_ends(self._probe.covered.last))


def _runs_after_rollbacks(runs: Ints, rollbacks: Sequence[NodeRollback]) -> VlsnRuns:
    """Return runs without the VLSNs that rollbacks undo.

    Args:
        runs: int64 (n, 3); LSN, first and last VLSN of each. No run continues after a rollback.
        rollbacks: in log order.
    """
    lsn, first, last = runs.T
    last = np.minimum(last, highest_left(lsn, bounds_of(rollbacks)))
    kept = first <= last
    return VlsnRuns(lsn[kept], first[kept], last[kept])
