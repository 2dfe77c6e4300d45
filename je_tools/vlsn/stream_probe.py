"""Probe of a scan: summarize the replication stream, and look up the mappings of an index in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from msgspec import Struct

from je_tools.formats.je.flags import HeaderFlag
from je_tools.formats.je.header import invisible_mask
from je_tools.formats.je.log.walk import Checksum
from je_tools.verify.vlsn_sequence import Runs, runs_of
from je_tools.vlsn.node_rollbacks import LoggedRollback, logged_rollbacks
from je_tools.vlsn.sync_points import IS_SYNC_POINT, IS_TXN_END

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.je.internal.replication import VlsnRange
    from je_tools.formats.je.log.entry_rows import Rows

_NOTHING = np.empty(0, np.int64)
_OFFSET = (1 << 32) - 1


class StreamPlace(NamedTuple):
    """An entry of the stream: its VLSN and its LSN."""

    vlsn: int
    lsn: int


class ProbedRows(Struct, frozen=True):
    """Summary of the stream in some rows.

    Attributes:
        file_no: number of their file.
        entry_count: number of entries of the stream, invisible ones included.
        runs: VLSNs of the visible entries, and the rollbacks.
        hits: int64; mappings that lead to the visible entry of their VLSN.
        last_sync, last_txn_end: last visible sync point, and last visible end of a transaction,
            that the index covers; None without one.
        has_sync, has_txn_end: True if the rows have a visible sync point, or end of a transaction,
            with the VLSN that the range of the index names as the last one.
        rollbacks: RollbackStarts and RollbackEnds.
    """

    file_no: int
    entry_count: int
    runs: Runs
    hits: Ints
    last_sync: StreamPlace | None
    last_txn_end: StreamPlace | None
    has_sync: bool
    has_txn_end: bool
    rollbacks: list[LoggedRollback]


class StreamProbe(Struct, frozen=True):
    """Work for a scan: look up the mappings of an index, and summarize the stream.

    Attributes:
        lsn, vlsn: int64; mappings, in the order of their LSNs.
        covered: range of the index.
        next_lsn: end of the log; entries from there on do not count.
    """

    lsn: Ints
    vlsn: Ints
    covered: VlsnRange
    next_lsn: int

    def __call__(self, rows: Rows, runs: Runs | None = None) -> ProbedRows | None:
        """Return a summary of some rows; None if they have neither the stream nor a rollback.

        Args:
            rows: the rows.
            runs: their runs, if they are known already.
        """
        if not len(rows):
            return None
        if rows.file_no << 32 | int(rows.offset[-1]) >= self.next_lsn:
            rows, runs = rows.select(rows.lsn < self.next_lsn), None
        runs = runs or runs_of(rows)
        if runs is None or not len(rows):
            return None
        is_entry = ((rows.flags & HeaderFlag.REPLICATED.value) != 0) & (rows.vlsn > 0)
        is_entry &= rows.checksum != Checksum.BAD
        visible = is_entry
        if rows.survey.flags & invisible_mask(rows.version):
            visible = is_entry & ~rows.invisible
        points = np.flatnonzero(IS_SYNC_POINT[rows.type])
        points = points[visible[points] & (rows.vlsn[points] <= self.covered.last)]
        ends = points[IS_TXN_END[rows.type[points]]]
        return ProbedRows(
            file_no=rows.file_no,
            entry_count=int(np.count_nonzero(is_entry)),
            runs=runs,
            hits=self._hits(rows, visible),
            last_sync=_last_of(rows, points),
            last_txn_end=_last_of(rows, ends),
            has_sync=bool((rows.vlsn[points] == self.covered.last_sync).any()),
            has_txn_end=bool((rows.vlsn[ends] == self.covered.last_txn_end).any()),
            rollbacks=logged_rollbacks(rows),
        )

    def _hits(self, rows: Rows, visible: Mask) -> Ints:
        """Return the mappings that lead to a visible entry of their VLSN."""
        high = rows.file_no << 32
        bounds = [high | int(rows.offset[0]), (high | int(rows.offset[-1])) + 1]
        first, stop = np.searchsorted(self.lsn, bounds).tolist()
        if first == stop:
            return _NOTHING
        offsets = (self.lsn[first:stop] & _OFFSET).astype(np.uint32)
        at = np.searchsorted(rows.offset, offsets)
        right = (rows.offset[at] == offsets) & (rows.vlsn[at] == self.vlsn[first:stop])
        hits: Ints = first + np.flatnonzero(right & visible[at])
        return hits


def _last_of(rows: Rows, index: Ints) -> StreamPlace | None:
    if not len(index):
        return None
    row = int(index[-1])
    return StreamPlace(int(rows.vlsn[row]), rows.file_no << 32 | int(rows.offset[row]))
