"""Matchpoint of two nodes: the newest sync point at which their logs agree.

Source: ReplicaFeederSyncup.findMatchpoint, LogEntry.logicalEquals of TxnEnd and Matchpoint,
JE 18.3.12 and 25.3.17.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from je_tools.formats.je.types import ABORT_NO, COMMIT_NO
from je_tools.vlsn.sync_points import ABSENT, IS_TXN_END, SyncPoints

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.vlsn.node_report import NodeReport

PRE_TERM = 1_622_678_400_000 - 1
"""Term of entries that an engine without terms wrote; it equals any other."""


class MatchpointSearch(Struct, frozen=True):
    """Search for the matchpoint of two nodes.

    Attributes:
        vlsn: VLSN of the matchpoint; None if none was found.
        is_known: True if reading more of the logs cannot change the answer.
        missing_from: VLSN before which a log has to be read to continue; None if `is_known`.
        compared_from: VLSN from which both logs were read; None if `is_known`.
    """

    vlsn: int | None
    is_known: bool
    missing_from: int | None = None
    compared_from: int | None = None


class LostTxns(Struct, frozen=True):
    """Transactions that a node would roll back, in whole or in part.

    Those with an end are in the order of their ends; the others follow.

    Attributes:
        txn_id: int64.
        end_type: uint8; COMMIT_NO, ABORT_NO, or 0 without an end.
        record_count: int64; number of records after the matchpoint.
        end_vlsn, time_ms: int64; VLSN and time of the end, ABSENT without one.
    """

    txn_id: Ints
    end_type: npt.NDArray[np.uint8]
    record_count: Ints
    end_vlsn: Ints
    time_ms: Ints

    def __len__(self) -> int:
        return len(self.txn_id)


class EntriesAfterMatchpoint(Struct, frozen=True):
    """The entries of a node after a matchpoint.

    Attributes:
        vlsn_count: number of VLSNs.
        record_count: number of records that were written.
        commit_count: number of Commits. With neither a Commit nor an Abort, the engine rolls back;
            otherwise it has to cut the log.
        abort_count: number of Aborts.
        first_ms, last_ms: times of the first and the last sync point among them; None without one.
        txns: transactions.
    """

    vlsn_count: int
    record_count: int
    commit_count: int
    abort_count: int
    first_ms: int | None
    last_ms: int | None
    txns: LostTxns


def are_same(one: SyncPoints, other: SyncPoints) -> Mask:
    """Return a mask of the sync points that are the same entry, as nodes compare them.

    Times and dtvlsn of a Commit may differ between nodes, and so do checksums and LSNs.

    Args:
        one, other: sync points of two nodes with the same VLSNs.
    """
    same: Mask = (one.type == other.type) & (one.master_node_id == other.master_node_id)
    terms = one.master_term == other.master_term
    for each in (one.master_term, other.master_term):
        terms |= (each == ABSENT) | (each == PRE_TERM)
    ends = (one.txn_id == other.txn_id) & terms
    same &= np.where(IS_TXN_END[one.type], ends, one.time_ms == other.time_ms)
    return same


def find_matchpoint(one: NodeReport, other: NodeReport) -> MatchpointSearch:
    """Return the newest sync point that two nodes have in common."""
    if len(one.sync) and len(other.sync):
        at = np.minimum(np.searchsorted(other.sync.vlsn, one.sync.vlsn), len(other.sync) - 1)
        rows = np.flatnonzero(other.sync.vlsn[at] == one.sync.vlsn)
        same = rows[are_same(one.sync.select(rows), other.sync.select(at[rows]))]
        if len(same):
            return MatchpointSearch(int(one.sync.vlsn[same[-1]]), True)
    # Before these VLSNs one of the logs was not read.
    bounds = [
        each.facts.sync_first_vlsn
        for each in (one, other)
        if not each.facts.sync_is_whole and each.facts.sync_first_vlsn is not None
    ]
    if not bounds:
        return MatchpointSearch(None, True)
    lasts = [int(each.sync.vlsn[-1]) for each in (one, other) if len(each.sync)]
    return MatchpointSearch(None, False, min([*lasts, *bounds]), max(bounds))


def commits_from(report: NodeReport, vlsn: int) -> int:
    """Return the number of Commits of a node from a VLSN on, as far as it was read."""
    return int(np.count_nonzero((report.sync.type == COMMIT_NO) & (report.sync.vlsn >= vlsn)))


def entries_after(report: NodeReport, vlsn: int) -> EntriesAfterMatchpoint:
    """Return what a node has after a matchpoint.

    Args:
        report: the node.
        vlsn: VLSN of the matchpoint, at or after its `sync_first_vlsn`.
    """
    first = int(np.searchsorted(report.sync.vlsn, vlsn, "right"))
    after = report.sync.select(slice(first, None))
    txns = _txns(report, first, after)
    return EntriesAfterMatchpoint(
        max((report.facts.last_vlsn or vlsn) - vlsn, 0),
        int(txns.record_count.sum()),
        int(np.count_nonzero(after.type == COMMIT_NO)),
        int(np.count_nonzero(after.type == ABORT_NO)),
        int(after.time_ms[0]) if len(after) else None,
        int(after.time_ms[-1]) if len(after) else None,
        txns,
    )


def _txns(report: NodeReport, first: int, after: SyncPoints) -> LostTxns:
    """Return the transactions that end or write after a sync point.

    Args:
        report: the node.
        first: index of the first sync point after the matchpoint.
        after: the sync points from there on.
    """
    writes = report.writes
    own = slice(int(np.searchsorted(writes.place, first)), None)
    txn_ids, counts = _sums(writes.txn_id[own], writes.count[own])
    ended = after.select(IS_TXN_END[after.type])
    is_open = ~np.isin(txn_ids, ended.txn_id)
    open_count = int(np.count_nonzero(is_open))
    absent = np.full(open_count, ABSENT, np.int64)
    return LostTxns(
        np.concatenate([ended.txn_id, txn_ids[is_open]]),
        np.concatenate([ended.type, np.zeros(open_count, np.uint8)]),
        np.concatenate([_counts_of(ended.txn_id, txn_ids, counts), counts[is_open]]),
        np.concatenate([ended.vlsn, absent]),
        np.concatenate([ended.time_ms, absent]),
    )


def _sums(ids: Ints, counts: Ints) -> tuple[Ints, Ints]:
    """Return the distinct ids, ascending, and the sum of the counts of each."""
    order = np.argsort(ids, kind="stable")
    ids, counts = ids[order], counts[order]
    starts = np.flatnonzero(np.append(True, ids[1:] != ids[:-1])[: len(ids)])
    return ids[starts], np.add.reduceat(counts, starts) if len(starts) else counts[:0]


def _counts_of(wanted: Ints, ids: Ints, counts: Ints) -> Ints:
    """Return the count of each wanted id; 0 if it is not among the ids."""
    if not len(ids):
        return np.zeros(len(wanted), np.int64)
    at = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
    return np.where(ids[at] == wanted, counts[at], 0)
