"""Transactions of a log: those without an end, and the largest.

`collect_transactions` is work for a scan: it adds up each transaction's entries in columns. A
transaction that begins and ends in the same range is finished there, and only the largest of them
are kept; `Transactions` joins the others. Memory grows with the number of transactions that are
open at once, not with the log.

Source: je-log.md "Records"; TxnEnd, RollbackStart and RollbackTracker, JE 7.5.11 and 25.3.17.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from je_tools.formats.je.header import NULL_LSN
from je_tools.formats.je.types import (
    ABORT_NO,
    BY_NAME,
    CKPT_END_NO,
    COMMIT_NO,
    ENTRY_TYPES,
    ROLLBACK_START_NO,
    mask_of,
)
from je_tools.log.references import read_references

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.je.log.entry_rows import Rows

_OF_TXN = mask_of(each.no for each in ENTRY_TYPES.values() if each.transactional)
_IS_END = mask_of((COMMIT_NO, ABORT_NO))
_PREPARE_NO = BY_NAME["Prepare"].no
_MARKS = mask_of((ROLLBACK_START_NO, CKPT_END_NO))


class TransactionOutcome(StrEnum):
    """Outcome of a transaction."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNFINISHED = "unfinished"
    """No end in the log: recovery would undo it, or it goes on at the master."""
    PREPARED = "prepared"
    """As UNFINISHED, but an XA manager decides its end."""
    UNDONE = "undone"
    """No end in the log, and a later checkpoint does not know it: a recovery undid it."""
    ROLLED_BACK = "rolled back"
    """A replica took back all its entries."""


class Transaction(Struct):
    """One transaction.

    Attributes:
        txn_id: its id; negative if replicated. An id can be reused after a rollback.
        first_lsn, last_lsn: of its entries, including Commit or Abort.
        entries, size: number and bytes of its entries.
        invisible: number of entries that a rollback took back.
        databases: ids of the databases that it wrote to.
        outcome: its outcome.
        end_ms: time of its Commit or Abort; None without one.
    """

    txn_id: int
    first_lsn: int
    last_lsn: int
    entries: int
    size: int
    invisible: int
    databases: set[int]
    outcome: TransactionOutcome
    end_ms: int | None = None

    def rank(self) -> tuple[int, int]:
        """Return a sort key that puts the largest first."""
        return -self.size, self.first_lsn


class TransactionPiece(Struct, frozen=True):
    """A transaction's entries in a range; `begins` is True if none lie before the range."""

    begins: bool
    transaction: Transaction


class Rollback(Struct, frozen=True):
    """A RollbackStart, which takes back entries of some transactions after the matchpoint."""

    lsn: int
    matchpoint_lsn: int
    txn_ids: frozenset[int]


class TransactionPart(Struct, frozen=True):
    """The transactions of some rows.

    Attributes:
        pieces: transactions that reach beyond the rows, in log order.
        largest: the largest transactions that lie in the rows completely.
        counts: number of committed and of aborted transactions that lie in the rows completely.
        rollbacks: the RollbackStarts.
        first_active_lsn: firstActiveLsn of the last CkptEnd; None without one.
    """

    pieces: tuple[TransactionPiece, ...]
    largest: tuple[Transaction, ...]
    counts: tuple[int, int]
    rollbacks: tuple[Rollback, ...]
    first_active_lsn: int | None


def collect_transactions(rows: Rows, largest: int) -> TransactionPart:
    """Return the transactions of these rows; runs in any thread, keeps no view of the bytes.

    Damaged entries do not count.

    Args:
        rows: entries of one file, in log order.
        largest: number of largest transactions to keep.
    """
    segments = Segments.of(rows)
    whole = segments.begins & (segments.end_type != 0)
    committed = int(np.count_nonzero(segments.end_type[whole] == COMMIT_NO))
    counts = committed, int(np.count_nonzero(whole)) - committed
    inside = np.flatnonzero(whole)
    # Segments are in order of transactions; the second key sorts those of one size by LSN.
    best = np.lexsort((segments.first_lsn[inside], -segments.size[inside]))[:largest]
    beyond = np.flatnonzero(~whole)
    beyond = beyond[np.argsort(segments.first_lsn[beyond], kind="stable")]
    pieces = tuple(
        TransactionPiece(bool(segments.begins[i]), segments.transaction(i)) for i in beyond.tolist()
    )
    kept = tuple(segments.transaction(i) for i in inside[best].tolist())
    return TransactionPart(pieces, kept, counts, *collect_marks(rows))


def collect_marks(rows: Rows) -> tuple[tuple[Rollback, ...], int | None]:
    """Return the RollbackStarts of these rows, and the firstActiveLsn of their last CkptEnd."""
    rollbacks = []
    first_active_lsn = None
    for row in np.flatnonzero(_MARKS[rows.type] & rows.good).tolist():
        fields = rows.fields(row)
        if "first_active_lsn" in fields:
            first_active_lsn = fields["first_active_lsn"]
        elif "active_txns" in fields:
            txn_ids = frozenset(fields["active_txns"])
            rollbacks.append(Rollback(int(rows.lsn[row]), fields["matchpoint_lsn"], txn_ids))
    return tuple(rollbacks), first_active_lsn


class Segments(Struct, frozen=True):
    """Runs of entries of one transaction, in columns; a run ends with its Commit or Abort.

    Attributes:
        txn_id, first_lsn, last_lsn, entries, size, invisible: int64, as in Transaction.
        begins: bool; True if it holds the transaction's first entry.
        end_type: uint8; type of its end, 0 without one.
        end_ms: int64; time of that end.
        prepared: bool; True if it holds a Prepare.
        db_first: int64 (segments + 1,); databases of segment i are [db_first[i], db_first[i + 1]).
        db_id: int64; ids of databases, by segment.
    """

    txn_id: Ints
    first_lsn: Ints
    last_lsn: Ints
    entries: Ints
    size: Ints
    invisible: Ints
    begins: Mask
    end_type: npt.NDArray[np.uint8]
    end_ms: Ints
    prepared: Mask
    db_first: Ints
    db_id: Ints

    @classmethod
    def of(cls, rows: Rows) -> Segments:
        """Return the undamaged segments of these rows, by transaction, each in log order."""
        names = ("txn_id", "db_id", "txn_prev_lsn", "last_lsn", "time_ms")
        found = read_references(rows, _OF_TXN, names)
        index = np.flatnonzero(found.present["txn_id"])
        index = index[np.argsort(found.numbers["txn_id"][index], kind="stable")]
        columns = {name: found.numbers[name][index] for name in names}
        has = {name: found.present[name][index] for name in names}
        types = rows.type[index]
        is_end = _IS_END[types]
        # A Commit or Abort without a last LSN is the whole transaction.
        begins = has["txn_prev_lsn"] & (columns["txn_prev_lsn"] == NULL_LSN)
        begins |= is_end & (columns["last_lsn"] == NULL_LSN)
        new = _changes(columns["txn_id"]) | begins
        new[1:] |= is_end[:-1]
        starts = np.flatnonzero(new)
        lsn = rows.lsn[index]
        # Without entries of transactions there must be no stop either.
        stops = np.append(starts[1:], len(index))[: len(starts)]
        ended = is_end[stops - 1]
        segment_of = np.cumsum(new) - 1
        db_first, db_id = _databases(segment_of, columns["db_id"], has["db_id"], len(starts))
        return cls(
            txn_id=columns["txn_id"][starts],
            first_lsn=lsn[starts],
            last_lsn=lsn[stops - 1],
            entries=stops - starts,
            size=_sums(rows.size[index], starts),
            invisible=_sums(rows.invisible[index], starts),
            begins=begins[starts],
            end_type=np.where(ended, types[stops - 1], 0).astype(np.uint8),
            end_ms=columns["time_ms"][stops - 1],
            prepared=_sums(types == _PREPARE_NO, starts) > 0,
            db_first=db_first,
            db_id=db_id,
        )

    def transaction(self, i: int) -> Transaction:
        """Return one segment as an object."""
        ended = bool(self.end_type[i])
        return Transaction(
            txn_id=int(self.txn_id[i]),
            first_lsn=int(self.first_lsn[i]),
            last_lsn=int(self.last_lsn[i]),
            entries=int(self.entries[i]),
            size=int(self.size[i]),
            invisible=int(self.invisible[i]),
            databases=set(self.db_id[self.db_first[i] : self.db_first[i + 1]].tolist()),
            outcome=self._outcome(i),
            end_ms=int(self.end_ms[i]) if ended else None,
        )

    def _outcome(self, i: int) -> TransactionOutcome:
        if self.end_type[i]:
            return (
                TransactionOutcome.COMMITTED
                if self.end_type[i] == COMMIT_NO
                else TransactionOutcome.ABORTED
            )
        return TransactionOutcome.PREPARED if self.prepared[i] else TransactionOutcome.UNFINISHED


def _changes(values: Ints) -> Mask:
    """Return a mask of the values that differ from the one before; True for the first."""
    changes = np.ones(len(values), np.bool_)
    changes[1:] = values[1:] != values[:-1]
    return changes


def _sums(values: npt.NDArray[Any], starts: Ints) -> Ints:
    if not len(starts):
        return np.empty(0, np.int64)
    sums: Ints = np.add.reduceat(values.astype(np.int64), starts)
    return sums


def _databases(segment: Ints, db_id: Ints, has_db: Mask, segments: int) -> tuple[Ints, Ints]:
    """Return the different databases of each segment: their start indexes, and their ids."""
    segment, db_id = segment[has_db], db_id[has_db]
    # Most transactions write to one database, or to several in turn: drop repeats before sorting.
    once = _changes(segment) | _changes(db_id)
    segment, db_id = segment[once], db_id[once]
    order = np.lexsort((db_id, segment))
    segment, db_id = segment[order], db_id[order]
    once = _changes(segment) | _changes(db_id)
    segment, db_id = segment[once], db_id[once]
    return np.searchsorted(segment, np.arange(segments + 1)), db_id


class Transactions(Struct):
    """Transactions of a whole log, merged from its parts.

    Attributes:
        largest_count: number of largest transactions to keep.
        committed, aborted: number of transactions.
    """

    largest_count: int
    committed: int = 0
    aborted: int = 0
    _open: dict[int, Transaction] = field(default_factory=dict)
    _without_end: list[Transaction] = field(default_factory=list)
    _largest: list[Transaction] = field(default_factory=list)
    _rollbacks: list[Rollback] = field(default_factory=list)
    _first_active_lsn: int = 0

    def add(self, part: TransactionPart) -> None:
        """Add the next part, in log order."""
        for piece in part.pieces:
            self._add_piece(piece)
        self.committed += part.counts[0]
        self.aborted += part.counts[1]
        self._keep_largest(part.largest)
        self._rollbacks += part.rollbacks
        if part.first_active_lsn is not None:
            self._first_active_lsn = part.first_active_lsn

    def _add_piece(self, piece: TransactionPiece) -> None:
        new = piece.transaction
        known = self._open.pop(new.txn_id, None)
        if known is not None and piece.begins:
            # The id was reused after a rollback or a recovery.
            self._without_end.append(known)
        elif known is not None:
            new = _joined(known, new)
        if new.outcome is TransactionOutcome.COMMITTED:
            self.committed += 1
        elif new.outcome is TransactionOutcome.ABORTED:
            self.aborted += 1
        else:
            self._open[new.txn_id] = new
            return
        self._keep_largest((new,))

    def _keep_largest(self, new: Iterable[Transaction]) -> None:
        candidates = [*self._largest, *new]
        self._largest = heapq.nsmallest(self.largest_count, candidates, key=Transaction.rank)

    def without_end(self) -> list[Transaction]:
        """Return the transactions without Commit or Abort, in log order, with their outcomes."""
        found = [*self._without_end, *self._open.values()]
        for transaction in found:
            transaction.outcome = self._outcome(transaction)
        return sorted(found, key=lambda transaction: transaction.first_lsn)

    def _outcome(self, transaction: Transaction) -> TransactionOutcome:
        if transaction.invisible == transaction.entries:
            return TransactionOutcome.ROLLED_BACK
        if any(_takes_back(rollback, transaction) for rollback in self._rollbacks):
            return TransactionOutcome.ROLLED_BACK
        undone = transaction.first_lsn < self._first_active_lsn
        if undone and transaction.outcome is TransactionOutcome.UNFINISHED:
            return TransactionOutcome.UNDONE
        return transaction.outcome

    def largest(self) -> list[Transaction]:
        """Return the largest transactions by bytes, ended or not, the largest first."""
        candidates = [*self._largest, *self.without_end()]
        return heapq.nsmallest(self.largest_count, candidates, key=Transaction.rank)


def _joined(before: Transaction, new: Transaction) -> Transaction:
    prepared = TransactionOutcome.PREPARED in (before.outcome, new.outcome)
    ended = new.outcome in (TransactionOutcome.COMMITTED, TransactionOutcome.ABORTED)
    return Transaction(
        txn_id=before.txn_id,
        first_lsn=before.first_lsn,
        last_lsn=new.last_lsn,
        entries=before.entries + new.entries,
        size=before.size + new.size,
        invisible=before.invisible + new.invisible,
        databases=before.databases | new.databases,
        outcome=TransactionOutcome.PREPARED if prepared and not ended else new.outcome,
        end_ms=new.end_ms,
    )


def _takes_back(rollback: Rollback, transaction: Transaction) -> bool:
    inside = rollback.matchpoint_lsn < transaction.first_lsn <= transaction.last_lsn < rollback.lsn
    return inside and transaction.txn_id in rollback.txn_ids
