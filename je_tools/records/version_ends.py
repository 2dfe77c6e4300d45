"""Ends of transactions, found for versions of records in log order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.formats.je.entry.columns import MAX_ROWS, decode
from je_tools.formats.je.types import COMMIT_NO, Family

if TYPE_CHECKING:
    from collections.abc import Iterator

    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.je.log.entry_rows import Rows

NO_END = -1
"""Row of the end of a transaction that has none."""


class ScannedTxnEnds(Struct, frozen=True):
    """Commits and Aborts in int64 columns; `is_commit` marks the Commits."""

    lsn: Ints
    txn_id: Ints
    time_ms: Ints
    is_commit: Mask

    def select(self, keep: Mask) -> ScannedTxnEnds:
        """Select rows by a mask."""
        return ScannedTxnEnds(
            self.lsn[keep], self.txn_id[keep], self.time_ms[keep], self.is_commit[keep]
        )

    def next_of(self, txn_ids: Ints, lsns: Ints) -> Ints:
        """Return the row of the first end of each transaction after an LSN, or NO_END.

        Ids can be reused, so only the first end after an entry is its own.
        """
        rows = np.flatnonzero(np.isin(self.txn_id, txn_ids))
        txns = np.concatenate((self.txn_id[rows], txn_ids))
        order = np.lexsort((np.concatenate((self.lsn[rows], lsns)), txns))
        end_at = np.where(order < len(rows), np.arange(len(order)), len(order))
        next_at = np.minimum.accumulate(end_at[::-1])[::-1]
        found = np.empty(len(order), np.int64)
        found[order] = np.append(rows, NO_END)[np.append(order, -1)[next_at]]
        found = found[len(rows) :]
        own = (found != NO_END) & (np.append(self.txn_id, 0)[found] == txn_ids)
        return np.where(own, found, NO_END)


def ends_of(rows: Rows, wanted: Mask) -> ScannedTxnEnds:
    """Return the Commits and Aborts among rows that a mask selects."""
    parts = []
    chosen = np.flatnonzero(wanted)
    for first in range(0, len(chosen), MAX_ROWS):
        some = rows.select(chosen[first : first + MAX_ROWS])
        head = decode(some, Family.TXN_END).fields
        times = head.number("time_ms") if head.has("time_ms") else np.zeros(len(some), np.int64)
        parts.append(ScannedTxnEnds(some.lsn, head.number("txn_id"), times, some.type == COMMIT_NO))
    return joined_ends(parts)


def joined_ends(parts: Sequence[ScannedTxnEnds]) -> ScannedTxnEnds:
    """Concatenate ends of transactions."""
    none = np.empty(0, np.int64)
    return ScannedTxnEnds(
        np.concatenate([none, *(part.lsn for part in parts)]),
        np.concatenate([none, *(part.txn_id for part in parts)]),
        np.concatenate([none, *(part.time_ms for part in parts)]),
        np.concatenate([np.empty(0, np.bool_), *(part.is_commit for part in parts)]),
    )


class OpenVersions:
    """Versions whose transaction has no end yet, as runs of rows, and the ends found later.

    Memory follows the transactions that are open where one part of the log ends and the next
    begins.
    """

    def __init__(self) -> None:
        none = np.empty(0, np.int64)
        self._txn_id, self._first, self._stop = none, none, none
        self._ended: list[tuple[Ints, Ints, Ints, Mask]] = []

    def find_ends(self, ends: ScannedTxnEnds) -> None:
        """Find the ends of open versions in the next part of the log."""
        if not len(self._txn_id) or not len(ends.lsn):
            return
        before = np.full(len(self._txn_id), int(ends.lsn.min()) - 1, np.int64)
        found = ends.next_of(self._txn_id, before)
        has_end = found != NO_END
        if has_end.any():
            rows = found[has_end]
            times, is_commit = ends.time_ms[rows], ends.is_commit[rows]
            self._ended.append((self._first[has_end], self._stop[has_end], times, is_commit))
            columns = (self._txn_id, self._first, self._stop)
            self._txn_id, self._first, self._stop = (column[~has_end] for column in columns)

    def add(self, txn_ids: Ints, rows: Ints) -> None:
        """Add versions without an end in their part of the log.

        Args:
            txn_ids: their transactions.
            rows: numbers of the versions, ascending.
        """
        if not len(rows):
            return
        is_new = np.append(True, (txn_ids[1:] != txn_ids[:-1]) | (rows[1:] != rows[:-1] + 1))
        first = np.flatnonzero(is_new)
        last = np.append(first[1:], len(rows)) - 1
        self._txn_id = np.concatenate((self._txn_id, txn_ids[first]))
        self._first = np.concatenate((self._first, rows[first]))
        self._stop = np.concatenate((self._stop, rows[last] + 1))

    def ended(self) -> EndedVersions:
        """Return the versions whose end was found later."""
        none = np.empty(0, np.int64)
        pieces = [(none, none, none, none.astype(np.bool_)), *self._ended]
        columns = [np.concatenate(column) for column in zip(*pieces, strict=True)]
        order = np.argsort(columns[0])
        return EndedVersions(*(column[order] for column in columns))


class EndedVersions(Struct, frozen=True):
    """Runs of versions whose transaction ended in a later part of the log, ascending.

    Attributes:
        first, stop: int64; numbers of the first version, and of the one after the last.
        time_ms: int64; time of the end.
        is_commit: bool.
    """

    first: Ints
    stop: Ints
    time_ms: Ints
    is_commit: Mask

    def within(self, start: int, stop: int) -> Iterator[tuple[slice, int, bool]]:
        """Yield the runs among versions [start, stop): their place there, the time, is_commit."""
        low = int(np.searchsorted(self.stop, start, side="right"))
        high = int(np.searchsorted(self.first, stop))
        for run in range(low, high):
            at = slice(max(int(self.first[run]), start) - start, int(self.stop[run]) - start)
            yield at, int(self.time_ms[run]), bool(self.is_commit[run])
