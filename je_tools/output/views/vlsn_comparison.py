"""A comparison of the nodes of a group: a verdict and tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from je_tools.core.escaping import counted, printable
from je_tools.output.views.section_formats import Report
from je_tools.output.views.sections import Column, Kind, Section
from je_tools.vlsn.compare import NEEDS_RESTORE, GroupComparison, NodePair, Outcome

if TYPE_CHECKING:
    from je_tools.output.views.sections import Cell

WARNING = (
    "choose a leader by hand only if the group has lost its majority for good; otherwise start the "
    "nodes, and they elect one. Only the ends of the logs were read: `je-tools vlsn check` checks "
    "a whole node"
)

SHOWN = 40
"""Largest number of transactions in a table for people; JSON has all."""

_LEADS = "leads"

_NODE = (
    Column("node", "node", Kind.TEXT),
    Column("outcome", "with the leader", Kind.TEXT),
    Column("first_vlsn", "first VLSN", Kind.ID, rank=5),
    Column("last_vlsn", "last VLSN", Kind.ID),
    Column("commit_vlsn", "last Commit", Kind.ID),
    Column("commit_ms", "time (UTC)", Kind.TIME, rank=2),
    Column("master_node_id", "master", Kind.ID, rank=4),
    Column("master_name", "name", Kind.TEXT, rank=3),
    Column("master_term", "term", Kind.ID, rank=6),
    Column("durable_vlsn", "durable VLSN", Kind.ID, rank=1),
    Column("journal_id", "journal id", Kind.ID, rank=1),
    Column("problems", "errors", Kind.TEXTS, rank=2, wraps=True),
)
_PAIR = (
    Column("node", "node", Kind.TEXT),
    Column("other", "to follow", Kind.TEXT),
    Column("matchpoint_vlsn", "matchpoint", Kind.ID),
    Column("outcome", "outcome", Kind.TEXT),
    Column("vlsn_count", "VLSNs after it", rank=3),
    Column("record_count", "records", rank=1),
    Column("txn_count", "transactions", rank=2),
    Column("commit_count", "Commits"),
    Column("first_ms", "from (UTC)", Kind.TIME, rank=5),
    Column("last_ms", "to (UTC)", Kind.TIME, rank=4),
)
_TXN = (
    Column("node", "node", Kind.TEXT),
    Column("txn_id", "transaction", Kind.ID),
    Column("end", "end", Kind.TEXT),
    Column("record_count", "records"),
    Column("end_vlsn", "VLSN", Kind.ID),
    Column("time_ms", "time (UTC)", Kind.TIME),
)


def comparison_report(comparison: GroupComparison) -> Report:
    """Return a comparison as a report."""
    first = comparison.nodes[0].report
    leader = comparison.leader
    row = {
        "verdict": verdict(comparison),
        "leader": None if leader is None else printable(comparison.nodes[leader].name),
        "group_name": None if first.group_name is None else printable(first.group_name),
        "group_id": first.group_id,
    }
    return Report(row, "comparison", {}, [*_sections(comparison), txn_section(comparison)])


def comparison_sections(comparison: GroupComparison) -> list[Section]:
    """Return tables for people; of transactions the first SHOWN."""
    txns = txn_section(comparison)
    shown = Section(txns.name, txns.title, txns.columns, txns.rows[:SHOWN])
    return [*_sections(comparison), *([shown] if shown.rows else [])]


def _sections(comparison: GroupComparison) -> list[Section]:
    nodes = [list(row) for row in _node_rows(comparison)]
    pairs = [_pair_row(comparison, pair) for pair in comparison.pairs]
    return [Section("nodes", "Nodes", _NODE, nodes), Section("pairs", "Pairs", _PAIR, pairs)]


def _node_rows(comparison: GroupComparison) -> Iterator[list[Cell]]:
    outcomes = {pair.node: pair.outcome.value for pair in comparison.to_leader()}
    if comparison.leader is not None:
        outcomes[comparison.leader] = _LEADS
    for place, node in enumerate(comparison.nodes):
        report, commit = node.report, node.report.last_commit
        master = None if commit is None else commit.master_node_id
        yield [
            node.name,
            outcomes.get(place),
            report.first_vlsn,
            report.last_vlsn,
            None if commit is None else commit.vlsn,
            None if commit is None else commit.time_ms,
            master,
            None if master is None else report.node_names.get(master),
            None if commit is None else commit.master_term,
            report.durable_vlsn,
            report.journal_id,
            report.problems,
        ]


def _pair_row(comparison: GroupComparison, pair: NodePair) -> list[Cell]:
    lost = pair.lost
    return [
        comparison.nodes[pair.node].name,
        comparison.nodes[pair.other].name,
        pair.matchpoint.vlsn,
        pair.outcome.value,
        None if lost is None else lost.vlsn_count,
        None if lost is None else lost.record_count,
        None if lost is None else len(lost.txns),
        None if lost is None else lost.commit_count,
        None if lost is None else lost.first_ms,
        None if lost is None else lost.last_ms,
    ]


def txn_section(comparison: GroupComparison) -> Section:
    """Return a table of the transactions that nodes would roll back to follow the leader."""
    rows: list[list[Cell]] = [
        [
            comparison.nodes[pair.node].name,
            txn.txn_id,
            txn.outcome,
            txn.record_count,
            txn.end_vlsn,
            txn.time_ms,
        ]
        for pair in comparison.to_leader()
        for txn in (pair.lost.txns if pair.lost is not None else ())
    ]
    return Section("transactions", "Transactions rolled back", _TXN, rows)


def verdict(comparison: GroupComparison) -> str:
    """Return the result in one line."""
    leader = comparison.leader
    if leader is None:
        return "no node can lead: all of them have errors"
    pairs = comparison.to_leader()
    name = printable(comparison.nodes[leader].name)
    last = comparison.nodes[leader].report.last_vlsn
    if all(pair.outcome is Outcome.AGREES for pair in pairs):
        return f"all nodes agree up to VLSN {last}, and any of them can lead"
    parts = [_part(comparison, pair) for pair in pairs]
    return f"{name} should lead, with VLSNs up to {last}: {'; '.join(parts)}"


def _part(comparison: GroupComparison, pair: NodePair) -> str:
    name, lost = printable(comparison.nodes[pair.node].name), pair.lost
    if pair.outcome is Outcome.UNKNOWN:
        return f"{name} cannot be compared"
    if pair.outcome is Outcome.AGREES:
        return f"{name} agrees"
    if pair.outcome is Outcome.FOLLOWS:
        return f"{name} follows"
    if pair.outcome in NEEDS_RESTORE:
        commits = lost.commit_count if lost is not None else 0
        loses = f" and loses {counted(commits, 'Commit')}" if commits else ""
        return f"{name} needs a network restore{loses}"
    assert lost is not None
    if lost.commit_count:
        return f"{name} loses {counted(lost.commit_count, 'Commit')} when it cuts its log"
    if lost.abort_count:
        return (
            f"{name} cuts its log, which loses no Commit, only {counted(lost.abort_count, 'Abort')}"
        )
    return f"{name} rolls back {counted(len(lost.txns), 'transaction')} without a Commit"


def unknown_texts(comparison: GroupComparison) -> Iterator[str]:
    """Yield what is needed to compare nodes whose reports do not reach back far enough."""
    for pair in comparison.pairs:
        if pair.outcome is Outcome.UNKNOWN and pair.node < pair.other:
            for place in (pair.node, pair.other):
                node = comparison.nodes[place]
                if not node.report.sync_is_whole:
                    yield (
                        f"{printable(node.name)} reaches back to VLSN "
                        f"{node.report.sync_first_vlsn}, and its matchpoint with another node lies "
                        "before that: make it again with a larger --sync-points"
                    )
