"""Transactions of a log: those without an end, and the largest.

`collect_transactions` is work for a scan with `segmented`. A transaction that begins and ends in
the same range is complete there, and only the largest of these are kept; `Transactions` joins the
others. Memory grows with the number of transactions that are open at once, not with the log.

Source: je-log.md "Records"; TxnEnd, RollbackStart and RollbackTracker, JE 7.5.11 and 25.3.17.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, field

from je_tools.formats.je.log.segments import Segments
from je_tools.formats.je.types import (
    CKPT_END_NO,
    COMMIT_NO,
    ROLLBACK_START_NO,
    mask_of,
)

if TYPE_CHECKING:
    from je_tools.formats.je.log.entry_rows import Rows

MARK_TYPES = mask_of((ROLLBACK_START_NO, CKPT_END_NO))
"""Types of the entries that `collect_marks` needs as rows."""


class TransactionOutcome(StrEnum):
    """Outcome of a transaction."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNFINISHED = "unfinished"
    """No end in the log: recovery would undo it, or it continues at the master."""
    PREPARED = "prepared"
    """As UNFINISHED, but an XA manager decides its end."""
    UNDONE = "undone"
    """No end in the log, and a later checkpoint does not know it: a recovery undid it."""
    ROLLED_BACK = "rolled back"
    """A replica undid all its entries."""


class Transaction(Struct):
    """One transaction.

    Attributes:
        txn_id: its id; negative if replicated. An id can be reused after a rollback.
        first_lsn, last_lsn: of its entries, including Commit or Abort.
        entries, size: number and bytes of its entries.
        invisible: number of entries that a rollback undid.
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
    """A RollbackStart, which undoes entries of some transactions after the matchpoint."""

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
        rows: entries of one file, read with `segmented`; those that end a range have all segments
            of it.
        largest: number of largest transactions to keep.
    """
    segments = rows.segments if rows.segments is not None else Segments.none()
    whole = segments.begins & (segments.end_type != 0)
    committed = int(np.count_nonzero(segments.end_type[whole] == COMMIT_NO))
    counts = committed, int(np.count_nonzero(whole)) - committed
    inside = np.flatnonzero(whole)
    # Segments are in log order, so that those of one size stay in it.
    best = np.argsort(-segments.size[inside], kind="stable")[:largest]
    beyond = np.flatnonzero(~whole)
    pieces = tuple(
        TransactionPiece(bool(segments.begins[i]), _transaction(segments, i))
        for i in beyond.tolist()
    )
    kept = tuple(_transaction(segments, i) for i in inside[best].tolist())
    return TransactionPart(pieces, kept, counts, *collect_marks(rows))


def collect_marks(rows: Rows) -> tuple[tuple[Rollback, ...], int | None]:
    """Return the RollbackStarts of these rows, and the firstActiveLsn of their last CkptEnd."""
    rollbacks = []
    first_active_lsn = None
    for row in np.flatnonzero(MARK_TYPES[rows.type] & rows.good).tolist():
        fields = rows.fields(row)
        if "first_active_lsn" in fields:
            first_active_lsn = fields["first_active_lsn"]
        elif "active_txns" in fields:
            txn_ids = frozenset(fields["active_txns"])
            rollbacks.append(Rollback(int(rows.lsn[row]), fields["matchpoint_lsn"], txn_ids))
    return tuple(rollbacks), first_active_lsn


def _transaction(segments: Segments, i: int) -> Transaction:
    """Return one segment as an object."""
    ended = bool(segments.end_type[i])
    return Transaction(
        txn_id=int(segments.txn_id[i]),
        first_lsn=int(segments.first_lsn[i]),
        last_lsn=int(segments.last_lsn[i]),
        entries=int(segments.entries[i]),
        size=int(segments.size[i]),
        invisible=int(segments.invisible[i]),
        databases=set(segments.db_id[segments.db_first[i] : segments.db_first[i + 1]].tolist()),
        outcome=_outcome(segments, i),
        end_ms=int(segments.end_ms[i]) if ended else None,
    )


def _outcome(segments: Segments, i: int) -> TransactionOutcome:
    if segments.end_type[i]:
        return (
            TransactionOutcome.COMMITTED
            if segments.end_type[i] == COMMIT_NO
            else TransactionOutcome.ABORTED
        )
    return TransactionOutcome.PREPARED if segments.prepared[i] else TransactionOutcome.UNFINISHED


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
