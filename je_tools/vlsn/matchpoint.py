"""Matchpoint of two nodes: the newest sync point at which their logs agree.

Source: ReplicaFeederSyncup.findMatchpoint, LogEntry.logicalEquals of TxnEnd and Matchpoint,
JE 18.3.12 and 25.3.17.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.formats.je.types import ABORT_NO, COMMIT_NO, type_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from je_tools.vlsn.node_report import NodeReport, SyncPoint

PRE_TERM = 1_622_678_400_000 - 1
"""Term of entries that an engine without terms wrote; it equals any other."""

_ABORT = type_name(ABORT_NO)
_TXN_ENDS = (type_name(COMMIT_NO), _ABORT)


class MatchpointSearch(Struct, frozen=True):
    """Search for the matchpoint of two nodes.

    Attributes:
        vlsn: VLSN of the matchpoint; None if none was found.
        is_known: True if nothing that was not read could change the answer.
        missing_from: VLSN up to which both logs would have to be read back; None if known.
    """

    vlsn: int | None
    is_known: bool
    missing_from: int | None = None


class RolledBackTxn(Struct, frozen=True):
    """A transaction that a node would roll back, in whole or in part.

    Attributes:
        txn_id: its id.
        outcome: `commit`, `abort`, or `open` without an end.
        record_count: number of its records after the matchpoint.
        end_vlsn, time_ms: VLSN and time of its end; None without one.
    """

    txn_id: int
    outcome: str
    record_count: int
    end_vlsn: int | None
    time_ms: int | None


class LostEnd(Struct, frozen=True):
    """The entries of a node after a matchpoint.

    Attributes:
        vlsn_count: number of VLSNs.
        record_count: number of records that were written.
        commit_count: number of Commits. With neither a Commit nor an Abort, the engine rolls back;
            otherwise it has to cut the log.
        abort_count: number of Aborts.
        first_ms, last_ms: times of the first and the last sync point among them; None without one.
        txns: transactions, in the order of their ends, those without an end last.
    """

    vlsn_count: int
    record_count: int
    commit_count: int
    abort_count: int
    first_ms: int | None
    last_ms: int | None
    txns: tuple[RolledBackTxn, ...]


def is_same(one: SyncPoint, other: SyncPoint) -> bool:
    """Return True if two sync points of one VLSN are the same entry, as nodes compare them.

    Times and dtvlsn of a Commit may differ between nodes, and so do checksums and LSNs.
    """
    if (one.type, one.master_node_id) != (other.type, other.master_node_id):
        return False
    if one.type not in _TXN_ENDS:
        return one.time_ms == other.time_ms
    terms = (one.master_term, other.master_term)
    is_same_term = terms[0] == terms[1] or None in terms or PRE_TERM in terms
    return one.txn_id == other.txn_id and is_same_term


def find_matchpoint(one: NodeReport, other: NodeReport) -> MatchpointSearch:
    """Return the newest sync point that two nodes have in common."""
    of_other = {each.vlsn: each for each in other.sync_points}
    for each in reversed(one.sync_points):
        found = of_other.get(each.vlsn)
        if found is not None and is_same(each, found):
            return MatchpointSearch(each.vlsn, True)
    # Below these VLSNs one of them was not read.
    bounds = [
        each.sync_first_vlsn
        for each in (one, other)
        if not each.sync_is_whole and each.sync_first_vlsn is not None
    ]
    if not bounds:
        return MatchpointSearch(None, True)
    lasts = [each.sync_points[-1].vlsn for each in (one, other) if each.sync_points]
    return MatchpointSearch(None, False, min([*lasts, *bounds]))


def end_after(report: NodeReport, vlsn: int) -> LostEnd:
    """Return what a node has after a matchpoint.

    Args:
        report: the node.
        vlsn: VLSN of the matchpoint, at or after `report.sync_first_vlsn`.
    """
    after = [each for each in report.sync_points if each.vlsn > vlsn]
    counts: dict[int, int] = {}
    for written in (*(each.written for each in after), report.open_written):
        for txn_id, count in written.items():
            counts[txn_id] = counts.get(txn_id, 0) + count
    ended = [each for each in after if each.txn_id is not None]
    txns = [
        RolledBackTxn(
            each.txn_id or 0,
            each.type.lower(),
            counts.pop(each.txn_id or 0, 0),
            each.vlsn,
            each.time_ms,
        )
        for each in ended
    ]
    txns += [RolledBackTxn(txn_id, "open", counts[txn_id], None, None) for txn_id in counts]
    return LostEnd(
        max((report.last_vlsn or vlsn) - vlsn, 0),
        sum(each.record_count for each in txns),
        sum(each.is_commit for each in after),
        sum(each.type == _ABORT for each in after),
        _first(after),
        after[-1].time_ms if after else None,
        tuple(txns),
    )


def _first(after: Sequence[SyncPoint]) -> int | None:
    return after[0].time_ms if after else None
