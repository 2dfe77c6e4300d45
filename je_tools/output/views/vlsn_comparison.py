"""A comparison of the nodes of a group: a verdict and tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from je_tools.core.escaping import counted, printable
from je_tools.output.views.sections import Column, Kind, Section
from je_tools.vlsn.compare import (
    NEEDS_RESTORE,
    ROLLBACK_LIMIT,
    GroupComparison,
    LeaderReason,
    NodePair,
    Outcome,
    can_lead,
)
from je_tools.vlsn.stream_tail import SYNC_POINTS_MAX

if TYPE_CHECKING:
    from je_tools.output.views.sections import Cell

WARNING = (
    "choose a leader by hand only if the group has lost its majority for good; otherwise start the "
    "nodes, and they elect one. Only the ends of the logs were read: `je-tools vlsn check` checks "
    "a whole node"
)

_LEADS = "leads"
_FIRST_TO_GO = 9

_NODE = (
    Column("node", "node", Kind.TEXT),
    Column("outcome", "with the leader", Kind.TEXT),
    Column("node_type", "type", Kind.TEXT, rank=4),
    Column("first_vlsn", "first VLSN", Kind.ID, rank=6),
    Column("last_vlsn", "last VLSN", Kind.ID),
    Column("commit_vlsn", "last Commit", Kind.ID),
    Column("commit_ms", "time (UTC)", Kind.TIME, rank=3),
    Column("master_node_id", "master", Kind.ID, rank=5),
    Column("master_name", "master name", Kind.TEXT, rank=4),
    Column("master_term", "term", Kind.ID, rank=7),
    Column("durable_vlsn", "durable VLSN", Kind.ID, rank=1),
    Column("journal_id", "journal id", Kind.ID, rank=2),
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


def comparison_row(comparison: GroupComparison) -> dict[str, Any]:
    """Return the facts of a comparison as one object."""
    first = comparison.nodes[0].report.facts
    choice = comparison.choice
    return {
        "verdict": verdict(comparison),
        "leader": None if choice is None else printable(comparison.nodes[choice.node].name),
        "leads_by": None if choice is None or choice.reason is None else choice.reason.value,
        "uncommitted_count": None if choice is None else choice.uncommitted_count,
        "group_name": None if first.group_name is None else printable(first.group_name),
        "group_id": first.group_id,
    }


def comparison_sections(comparison: GroupComparison) -> list[Section]:
    """Return the tables of nodes and pairs."""
    nodes = [list(row) for row in _node_rows(comparison)]
    pairs = [_pair_row(comparison, pair) for pair in comparison.pairs]
    return [
        Section("nodes", "Nodes", _node_columns(nodes), nodes),
        Section("pairs", "Pairs", _PAIR, pairs),
    ]


def _node_columns(rows: list[list[Cell]]) -> tuple[Column, ...]:
    """Return the columns of nodes: those that decide stay on a narrow terminal if they have cells.

    Without a cell, they are dropped first.
    """
    has_cells = [any(cells) for cells in zip(*rows, strict=True)]
    deciding = ("node_type", "journal_id", "problems")
    return tuple(
        replace(column, rank=0 if has else _FIRST_TO_GO) if column.name in deciding else column
        for column, has in zip(_NODE, has_cells, strict=True)
    )


def _node_rows(comparison: GroupComparison) -> Iterator[list[Cell]]:
    outcomes = {pair.node: pair.outcome.value for pair in comparison.to_leader()}
    if comparison.leader is not None:
        outcomes[comparison.leader] = _LEADS
    for place, node in enumerate(comparison.nodes):
        facts, commit = node.report.facts, node.report.last_commit
        master = None if commit is None else commit.master_node_id
        yield [
            node.name,
            outcomes.get(place),
            facts.node_type,
            facts.first_vlsn,
            facts.last_vlsn,
            None if commit is None else commit.vlsn,
            None if commit is None else commit.time_ms,
            master,
            None if master is None else facts.node_names.get(master),
            None if commit is None else commit.master_term,
            node.report.durable_vlsn,
            facts.journal_id,
            facts.problems,
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


def verdict(comparison: GroupComparison) -> str:
    """Return the result in one line."""
    choice = comparison.choice
    if choice is None:
        nodes = [node.report for node in comparison.nodes]
        why = (
            "all of them have errors"
            if all(each.facts.problems for each in nodes)
            else "those that could be elected have errors"
        )
        return f"no node can lead: {why}{_barred(comparison)}"
    pairs = comparison.to_leader()
    leader = comparison.nodes[choice.node]
    last = leader.report.facts.last_vlsn
    is_chosen = choice.reason is None
    agree = all(pair.outcome is Outcome.AGREES for pair in pairs)
    if agree and not is_chosen and not _barred(comparison):
        return f"all nodes agree up to VLSN {last}, and any of them can lead"
    parts = [_pair_text(comparison, pair) for pair in pairs]
    name = printable(leader.name)
    return (
        f"{f'if {name} led' if is_chosen else f'{name} should lead'}, with VLSNs up to "
        f"{last}{_reason(comparison)}: "
        f"{'; '.join(parts)}{_barred(comparison)}"
    )


def _reason(comparison: GroupComparison) -> str:
    """Return why the leader leads, in parentheses."""
    choice = comparison.choice
    assert choice is not None
    report = comparison.nodes[choice.node].report
    commit, durable = report.last_commit, report.durable_vlsn
    facts = [
        "no Commit" if commit is None else f"last Commit {commit.vlsn}",
        f"{choice.uncommitted_count:,} uncommitted after it",
        "no durable VLSN" if durable is None else f"durable VLSN {durable}",
    ]
    if choice.reason not in (None, LeaderReason.NONE):
        facts.append(f"ahead by its {choice.reason}")
    return f" ({', '.join(facts)})"


def _barred(comparison: GroupComparison) -> str:
    """Return which nodes were left out of the choice because of their type."""
    barred = [node for node in comparison.nodes if not can_lead(node.report)]
    if not barred:
        return ""
    names = ", ".join(f"{printable(node.name)} ({node.report.facts.node_type})" for node in barred)
    return f". Not electable, so left out of the choice: {names}"


def _pair_text(comparison: GroupComparison, pair: NodePair) -> str:
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
        if lost is None and pair.outcome is Outcome.PROHIBITED:
            loses = f" and loses more than {ROLLBACK_LIMIT} Commits"
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
                facts = node.report.facts
                if not facts.sync_is_whole:
                    yield (
                        f"{printable(node.name)} reaches back to VLSN {facts.sync_first_vlsn}, and "
                        "its matchpoint with another node lies before that: "
                        + (
                            "make it again with a larger --sync-points"
                            if node.back_to is None
                            else f"the search ends after {SYNC_POINTS_MAX:,} sync points"
                        )
                    )


def keyless_texts(comparison: GroupComparison) -> Iterator[str]:
    """Yield how to see the lost keys of nodes of which only a report was given."""
    for pair in comparison.losing():
        node, vlsn = comparison.nodes[pair.node], pair.matchpoint.vlsn
        if node.records is None and vlsn is not None:
            yield (
                f"{printable(node.name)} has no keys: on the host of the node, `je-tools dump "
                f"ENV_DIR --from-vlsn {vlsn + 1}` shows those that it would lose"
            )
