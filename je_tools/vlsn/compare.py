"""Comparison of the nodes of a group: matchpoints, rollbacks, and who should lead.

Source: ReplicaFeederSyncup, RankingProposer, MasterSuggestionGenerator, JE 18.3.12 and 25.3.17;
the outcomes were observed on JE 7.5.11, 18.3.12 and 25.3.17.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from itertools import permutations
from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.errors import InputError, UsageError
from je_tools.vlsn.matchpoint import LostEnd, MatchpointSearch, end_after, find_matchpoint

if TYPE_CHECKING:
    from je_tools.vlsn.node_report import NodeReport

ROLLBACK_LIMIT = 10
"""Default of je.rep.txnRollbackLimit: Commits that a node may roll back by itself.
Source: RepParams.TXN_ROLLBACK_LIMIT, JE 18.3.12."""

_RESTORES_SINCE = 19
"""Log version since which the engine does not cut off Commits that a checkpoint follows."""


class Outcome(StrEnum):
    """Outcome for a node that follows another one."""

    AGREES = "agrees"
    """It is at the same VLSN."""
    FOLLOWS = "follows"
    """It has nothing that the other one lacks, and gets the rest."""
    ROLLS_BACK = "rolls-back"
    """It rolls back entries of transactions without a Commit."""
    CUTS_LOG = "cuts-log"
    """It passes Commits, at most the limit, or Aborts, and cuts its log (RollbackException)."""
    PROHIBITED = "prohibited"
    """It would pass more Commits than the limit (RollbackProhibitedException)."""
    RESTORES = "network-restore"
    """It has no sync point in common with the other one, or the other one lacks VLSNs for it."""
    UNKNOWN = "unknown"
    """The reports do not reach back far enough."""


NEEDS_RESTORE = (Outcome.PROHIBITED, Outcome.RESTORES)
LOSES = (Outcome.ROLLS_BACK, Outcome.CUTS_LOG, Outcome.PROHIBITED)


class ComparedNode(Struct, frozen=True):
    """A node to compare.

    Attributes:
        name: environment, or file of its report.
        report: the node, as far as it has been read.
        back_to: reads a report back to a VLSN; None if there is only the report.
    """

    name: str
    report: NodeReport
    back_to: Callable[[int], NodeReport] | None = None


class NodePair(Struct, frozen=True):
    """Outcome for one node that follows another one.

    Attributes:
        node, other: indexes of the nodes; `node` would follow `other`.
        matchpoint: search for their matchpoint.
        lost: what `node` has after the matchpoint; None if that is unknown.
        outcome: what it would do.
    """

    node: int
    other: int
    matchpoint: MatchpointSearch
    lost: LostEnd | None
    outcome: Outcome


class GroupComparison(Struct, frozen=True):
    """Comparison of the nodes of a group.

    Attributes:
        nodes: the nodes.
        pairs: every ordered pair of them.
        leader: index of the node that should lead; None if none should.
    """

    nodes: tuple[ComparedNode, ...]
    pairs: tuple[NodePair, ...]
    leader: int | None

    def to_leader(self) -> list[NodePair]:
        """Return what each other node would do to follow the leader."""
        return [pair for pair in self.pairs if pair.other == self.leader]

    @property
    def is_in_order(self) -> bool:
        """True if the others can follow the leader, and nothing is lost."""
        if self.leader is None:
            return False
        fine = (Outcome.AGREES, Outcome.FOLLOWS)
        is_whole = not any(node.report.problems for node in self.nodes)
        return is_whole and all(pair.outcome in fine for pair in self.to_leader())


def compare_nodes(nodes: Sequence[ComparedNode]) -> GroupComparison:
    """Compare the nodes of a group.

    Args:
        nodes: two nodes or more.

    Raises:
        UsageError: a node is given twice, or only one is given.
        InputError: they are not of one group, or the group of one is not known.
    """
    _check(nodes)
    found = list(nodes)
    pairs = []
    for one, other in permutations(range(len(found)), 2):
        search = _search(found, one, other)
        pairs.append((one, other, search))
    compared = tuple(found)
    return GroupComparison(
        compared,
        tuple(_pair(compared, *each) for each in pairs),
        _leader([node.report for node in compared]),
    )


def _check(nodes: Sequence[ComparedNode]) -> None:
    if len(nodes) < 2:
        raise UsageError("compare needs two nodes or more: name another environment or report")
    names: dict[str, str] = {}
    for node in nodes:
        if node.report.state_id in names:
            raise UsageError(
                f"{names[node.report.state_id]} and {node.name} are the same node, or a copy of "
                "it: name each node once"
            )
        names[node.report.state_id] = node.name
    first = nodes[0]
    for node in nodes:
        if node.report.group_id is None:
            raise InputError(
                f"{node.name}: its group database is missing or cannot be read, so it is not "
                "known to which group it belongs; `je-tools verify --tree` reports what is damaged"
            )
        if node.report.group_id != first.report.group_id:
            raise InputError(
                f"{first.name} and {node.name} belong to two groups: {_group(first.report)} and "
                f"{_group(node.report)}. Name nodes of one group"
            )


def _group(report: NodeReport) -> str:
    return f"{report.group_name} ({report.group_id})"


def _search(nodes: list[ComparedNode], one: int, other: int) -> MatchpointSearch:
    """Return the matchpoint of two nodes, after reading back as far as it takes."""
    while True:
        search = find_matchpoint(nodes[one].report, nodes[other].report)
        if search.is_known or search.missing_from is None:
            return search
        if not any(_read_back(nodes, place, search.missing_from) for place in (one, other)):
            return search


def _read_back(nodes: list[ComparedNode], place: int, vlsn: int) -> bool:
    """Read more of a node; return False if there is no more."""
    node = nodes[place]
    if node.back_to is None or node.report.sync_is_whole:
        return False
    before = len(node.report.sync_points)
    nodes[place] = ComparedNode(node.name, node.back_to(vlsn - 1), node.back_to)
    return len(nodes[place].report.sync_points) > before


def _pair(
    nodes: Sequence[ComparedNode], one: int, other: int, search: MatchpointSearch
) -> NodePair:
    report, feeder = nodes[one].report, nodes[other].report
    if search.vlsn is None:
        outcome = Outcome.RESTORES if search.is_known else Outcome.UNKNOWN
        return NodePair(one, other, search, None, outcome)
    lost = end_after(report, search.vlsn)
    return NodePair(one, other, search, lost, _outcome(report, feeder, search.vlsn, lost))


def _outcome(report: NodeReport, feeder: NodeReport, vlsn: int, lost: LostEnd) -> Outcome:
    if feeder.last_vlsn is not None and feeder.last_vlsn > vlsn:
        first = feeder.first_vlsn
        if first is not None and first > vlsn + 1:
            return Outcome.RESTORES
    if not lost.vlsn_count:
        return Outcome.AGREES if feeder.last_vlsn == vlsn else Outcome.FOLLOWS
    if not lost.commit_count and not lost.abort_count:
        return Outcome.ROLLS_BACK
    if lost.commit_count > ROLLBACK_LIMIT:
        return Outcome.PROHIBITED
    is_followed = report.checkpoint_vlsn is not None and report.checkpoint_vlsn > vlsn
    if report.log_version >= _RESTORES_SINCE and is_followed:
        return Outcome.RESTORES
    return Outcome.CUTS_LOG


def _leader(reports: Sequence[NodeReport]) -> int | None:
    """Return the node that an election would prefer: by durable VLSN, then by its last VLSNs."""

    def rank(place: int) -> tuple[int, int, int]:
        report = reports[place]
        commit = report.last_commit
        return (
            report.durable_vlsn or 0,
            commit.vlsn if commit is not None else 0,
            report.last_vlsn or 0,
        )

    whole = [place for place, report in enumerate(reports) if not report.problems]
    return max(whole, key=rank, default=None)
