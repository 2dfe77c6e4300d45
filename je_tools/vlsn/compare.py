"""Comparison of the nodes of a group: matchpoints, rollbacks, and who should lead.

Source: ReplicaFeederSyncup, RankingProposer, MasterSuggestionGenerator, JE 18.3.12 and 25.3.17;
the outcomes were observed on JE 7.5.11, 18.3.12 and 25.3.17.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from itertools import permutations
from typing import TYPE_CHECKING, Protocol

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from je_tools.errors import InputError, UsageError
from je_tools.vlsn.matchpoint import (
    EntriesAfterMatchpoint,
    MatchpointSearch,
    commits_from,
    entries_after,
    find_matchpoint,
)
from je_tools.vlsn.own_member import ELECTABLE

if TYPE_CHECKING:
    from je_tools.vlsn.lost_records import LostRecordReader, LostRecords
    from je_tools.vlsn.node_report import NodeFacts, NodeReport, SyncPoint

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
    """It undoes Aborts, or Commits up to the limit, by cutting its log (RollbackException)."""
    PROHIBITED = "prohibited"
    """It would undo more Commits than the limit (RollbackProhibitedException)."""
    RESTORES = "network-restore"
    """It has no sync point in common with the other one, or the other one lacks VLSNs for it."""
    UNKNOWN = "unknown"
    """The reports do not reach back far enough."""


class LeaderReason(StrEnum):
    """Reasons to choose a leader, in the order in which they count."""

    DURABLE = "durable VLSN"
    COMMIT = "last Commit"
    LAST = "last VLSN"
    NONE = "nothing"
    """The next best node has the same, or there is none."""


NEEDS_RESTORE = (Outcome.PROHIBITED, Outcome.RESTORES)
LOSES = (Outcome.ROLLS_BACK, Outcome.CUTS_LOG, Outcome.PROHIBITED)


class ComparedNode(Struct, frozen=True):
    """A node to compare.

    Attributes:
        name: environment, or file of its report.
        report: the node, as far as it has been read.
        back_to: reads a report back to a VLSN; None if there is only the report.
        records: reads the records that the node would roll back; None if there is only the report.
    """

    name: str
    report: NodeReport
    back_to: Callable[[int], NodeReport] | None = None
    records: LostRecordReader | None = None

    def lost_records(self, matchpoint_vlsn: int) -> Iterator[LostRecords]:
        """Yield the records after a matchpoint; nothing if there is only the report.

        Raises:
            StoppedError: a file shrank, vanished or was replaced meanwhile.
            InputError: a file cannot be read.
        """
        sync = self.report.sync
        rows = np.flatnonzero(sync.vlsn == matchpoint_vlsn)
        if self.records is not None and len(rows):
            yield from self.records.read(int(sync.lsn[rows[0]]))


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
    lost: EntriesAfterMatchpoint | None
    outcome: Outcome


class Following(Struct, frozen=True):
    """Steps of a node to follow another one; attributes as in `NodePair`."""

    matchpoint: MatchpointSearch
    lost: EntriesAfterMatchpoint | None
    outcome: Outcome


class Standing(Protocol):
    """A node as an election compares it: a `NodeReport`, or only the facts in it."""

    @property
    def facts(self) -> NodeFacts:
        """Facts of the report."""
        ...

    @property
    def last_commit(self) -> SyncPoint | None:
        """The last Commit that was read."""
        ...

    @property
    def durable_vlsn(self) -> int | None:
        """Last VLSN that the master knew to be durable."""
        ...


class LeaderChoice(Struct, frozen=True):
    """The node that should lead, and the reason.

    Attributes:
        node: its index.
        reason: what puts it before the next best node; None if the caller has chosen it.
        uncommitted_count: number of VLSNs after its last Commit.
    """

    node: int
    reason: LeaderReason | None
    uncommitted_count: int


class GroupComparison(Struct, frozen=True):
    """Comparison of the nodes of a group.

    Attributes:
        nodes: the nodes.
        pairs: every ordered pair of them.
        choice: the node that should lead; None if none should.
    """

    nodes: tuple[ComparedNode, ...]
    pairs: tuple[NodePair, ...]
    choice: LeaderChoice | None

    @property
    def leader(self) -> int | None:
        """Index of the node that should lead; None if none should."""
        return None if self.choice is None else self.choice.node

    def losing(self) -> list[NodePair]:
        """Return the pairs of nodes that would lose entries to follow the leader."""
        return [pair for pair in self.to_leader() if pair.lost is not None and pair.lost.vlsn_count]

    def to_leader(self) -> list[NodePair]:
        """Return what each other node would do to follow the leader."""
        return [pair for pair in self.pairs if pair.other == self.leader]

    @property
    def is_in_order(self) -> bool:
        """True if the others can follow the leader, and nothing is lost."""
        if self.leader is None:
            return False
        fine = (Outcome.AGREES, Outcome.FOLLOWS)
        is_whole = not any(node.report.facts.problems for node in self.nodes)
        return is_whole and all(pair.outcome in fine for pair in self.to_leader())


def compare_nodes(nodes: Sequence[ComparedNode], leader: str | None = None) -> GroupComparison:
    """Compare the nodes of a group.

    Args:
        nodes: two nodes or more.
        leader: name of the node to follow; None for the one that an election would prefer.

    Raises:
        UsageError: a node is given twice, or only one is given, or the leader is none of them.
        InputError: they are not of one group, or the group of one is not known.
    """
    _check(nodes)
    names = [node.name for node in nodes]
    if leader is not None and leader not in names:
        raise UsageError(f"--leader {leader}: it is none of the nodes: {', '.join(names)}")
    found = list(nodes)
    pairs = []
    for one, other in permutations(range(len(found)), 2):
        search = _search(found, one, other)
        pairs.append((one, other, search))
    compared = tuple(found)
    reports = [node.report for node in compared]
    choice = (
        choose_leader(reports) if leader is None else _choice_of(reports, names.index(leader), None)
    )
    return GroupComparison(
        compared,
        tuple(_pair(compared, *each) for each in pairs),
        choice,
    )


def _check(nodes: Sequence[ComparedNode]) -> None:
    if len(nodes) < 2:
        raise UsageError(
            f"compare needs two nodes or more, found one, {nodes[0].name}: name the environments "
            "of other nodes, or with --from-json the files that `je-tools vlsn show ENV_DIR "
            "--format json --output FILE` writes on their hosts"
        )
    names: dict[str, str] = {}
    for node in nodes:
        before = names.setdefault(node.report.facts.state_id, node.name)
        if before is not node.name:
            raise UsageError(
                f"{before} and {node.name} are the same node, or a copy of it: name each node once"
            )
    first = nodes[0]
    for node in nodes:
        if node.report.facts.group_id is None:
            raise InputError(
                f"{node.name}: its group database is missing or cannot be read, so it is not "
                "known to which group it belongs; `je-tools verify --tree` reports what is damaged"
            )
        if node.report.facts.group_id != first.report.facts.group_id:
            raise InputError(
                f"{first.name} and {node.name} belong to two groups: {_group(first.report)} and "
                f"{_group(node.report)}. Name nodes of one group"
            )


def _group(report: NodeReport) -> str:
    return f"{report.facts.group_name} ({report.facts.group_id})"


def _search(nodes: list[ComparedNode], one: int, other: int) -> MatchpointSearch:
    """Return the matchpoint of two nodes; read their logs back until it is known."""
    while True:
        search = find_matchpoint(nodes[one].report, nodes[other].report)
        if search.is_known or search.missing_from is None:
            return search
        if not any(_read_back(nodes, place, search.missing_from) for place in (one, other)):
            return search


def _read_back(nodes: list[ComparedNode], place: int, vlsn: int) -> bool:
    """Read more of a node; return False if there is no more."""
    node = nodes[place]
    if node.back_to is None or node.report.facts.sync_is_whole:
        return False
    before = len(node.report.sync)
    nodes[place] = replace(node, report=node.back_to(vlsn - 1))
    return len(nodes[place].report.sync) > before


def _pair(
    nodes: Sequence[ComparedNode], one: int, other: int, search: MatchpointSearch
) -> NodePair:
    followed = follow(nodes[one].report, nodes[other].report, search)
    return NodePair(one, other, search, followed.lost, followed.outcome)


def follow(
    report: NodeReport, feeder: NodeReport, search: MatchpointSearch | None = None
) -> Following:
    """Return what a node would do to follow another one, as far as their reports reach back.

    Args:
        report, feeder: the node, and the one that it would follow.
        search: their matchpoint; None to search for it.
    """
    search = find_matchpoint(report, feeder) if search is None else search
    if search.vlsn is None:
        return Following(search, None, _outcome_without(report, search))
    lost = entries_after(report, search.vlsn)
    return Following(search, lost, _outcome(report, feeder, search.vlsn, lost))


def _outcome_without(report: NodeReport, search: MatchpointSearch) -> Outcome:
    """Return the outcome for a node if no matchpoint was found."""
    if search.is_known:
        return Outcome.RESTORES
    # Both logs were read from this VLSN on, and have no sync point in common.
    known = search.compared_from
    if known is not None and commits_from(report, known) > ROLLBACK_LIMIT:
        return Outcome.PROHIBITED
    return Outcome.UNKNOWN


def _outcome(
    report: NodeReport, feeder: NodeReport, vlsn: int, lost: EntriesAfterMatchpoint
) -> Outcome:
    if feeder.facts.last_vlsn is not None and feeder.facts.last_vlsn > vlsn:
        first = feeder.facts.first_vlsn
        if first is not None and first > vlsn + 1:
            return Outcome.RESTORES
    if not lost.vlsn_count:
        return Outcome.AGREES if feeder.facts.last_vlsn == vlsn else Outcome.FOLLOWS
    if not lost.commit_count and not lost.abort_count:
        return Outcome.ROLLS_BACK
    if lost.commit_count > ROLLBACK_LIMIT:
        return Outcome.PROHIBITED
    is_followed = report.facts.checkpoint_vlsn is not None and report.facts.checkpoint_vlsn > vlsn
    if report.facts.log_version >= _RESTORES_SINCE and is_followed:
        return Outcome.RESTORES
    return Outcome.CUTS_LOG


def choose_leader(reports: Sequence[Standing]) -> LeaderChoice | None:
    """Choose the node that an election would prefer: by durable VLSN, last Commit and last VLSN.

    A node with errors is not chosen, nor one whose type cannot be elected.
    """
    fit = [
        place
        for place, report in enumerate(reports)
        if not report.facts.problems and can_lead(report)
    ]
    ranked = sorted(fit, key=lambda place: _rank(reports[place]), reverse=True)
    if not ranked:
        return None
    reason = LeaderReason.NONE
    if len(ranked) > 1:
        ranks = (_rank(reports[place]) for place in ranked[:2])
        by_reason = zip(LeaderReason, *ranks, strict=False)
        reason = next((each for each, mine, other in by_reason if mine != other), reason)
    return _choice_of(reports, ranked[0], reason)


def _choice_of(reports: Sequence[Standing], node: int, reason: LeaderReason | None) -> LeaderChoice:
    commit, last = reports[node].last_commit, reports[node].facts.last_vlsn or 0
    return LeaderChoice(node, reason, last - (commit.vlsn if commit is not None else 0))


def can_lead(report: Standing) -> bool:
    """Return True unless the type of a node is known and is not electable."""
    return report.facts.node_type in (None, ELECTABLE)


def _rank(report: Standing) -> tuple[int, int, int]:
    commit = report.last_commit
    return (
        report.durable_vlsn or 0,
        commit.vlsn if commit is not None else 0,
        report.facts.last_vlsn or 0,
    )
