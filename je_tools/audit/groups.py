"""Comparison of the nodes of a replication group, from the reports of an audit.

The outcome of each node is that of `vlsn compare`, for the node that an election would prefer.
Copies of one node are distinguished from members, and members whose logs are not here are counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from je_tools.audit.copies import find_copies
from je_tools.audit.lost_ends import LostEnd, find_lost_ends
from je_tools.audit.member_reports import Member, MemberFacts, unpack_facts, unpack_report
from je_tools.vlsn.compare import Following, LeaderChoice, choose_leader, follow
from je_tools.vlsn.own_member import ELECTABLE

if TYPE_CHECKING:
    from je_tools.vlsn.node_report import NodeReport

LEADS = "leads"
"""Outcome of the node that would lead, as `vlsn compare` calls it."""

_WITH_LOG = (ELECTABLE, "secondary", None)
"""Types of members that have a log of the group."""


class GroupNode(Struct, frozen=True):
    """A node of a group, compared with the one that would lead.

    Attributes:
        facts: what its report says.
        copy_of: name of the environment that is the newest copy of the same node; None if this is.
        is_leader: True if it would lead.
        following: what it would do to follow the leader, or a copy to follow the newest one; None
            for the leader, or if there is no leader.
        lag_vlsn: last VLSN of the leader minus that of the node; for a copy, of the newest one.
        lag_ms: the same of the times of the last Commits.
        lost_end: the end that its log has lost; None if nothing shows that.
    """

    facts: MemberFacts
    copy_of: str | None = None
    is_leader: bool = False
    following: Following | None = None
    lag_vlsn: int | None = None
    lag_ms: int | None = None
    lost_end: LostEnd | None = None

    @property
    def outcome(self) -> str | None:
        """The outcome under the name that `vlsn compare` gives it."""
        if self.is_leader:
            return LEADS
        if self.following is None or self.copy_of is not None:
            return None
        return self.following.outcome.value


class ComparedGroup(Struct, frozen=True):
    """A group, as far as its nodes are here.

    Attributes:
        group_id, name: UUID and name.
        nodes: environments, in the order of their names.
        members: members that the newest group database names, without removed ones.
        missing: names of the members with a log that are not here, or candidates for them.
        missing_count: number of these members.
        choice: the node that would lead, by its index in `nodes`; None without two nodes, or if
            all have errors.
    """

    group_id: str
    name: str
    nodes: tuple[GroupNode, ...]
    members: tuple[Member, ...]
    missing: tuple[str, ...]
    missing_count: int
    choice: LeaderChoice | None

    @property
    def leader(self) -> GroupNode | None:
        """The node that would lead."""
        return None if self.choice is None else self.nodes[self.choice.node]

    @property
    def found(self) -> tuple[GroupNode, ...]:
        """Nodes that were found, each once."""
        return tuple(each for each in self.nodes if each.copy_of is None)


def compare_group(packed: Sequence[bytes]) -> ComparedGroup:
    """Compare the nodes of one group; two of their reports at a time are unpacked.

    Args:
        packed: reports on nodes of one group.
    """
    reports = sorted(((unpack_facts(data), data) for data in packed), key=lambda each: each[0].env)
    facts = [each for each, _ in reports]

    def report(index: int) -> NodeReport:
        return unpack_report(reports[index][1])

    copies = find_copies(facts, report)
    found = [index for index in range(len(facts)) if index not in copies]
    members, is_whole = _members(facts)
    own = [facts[index] for index in found]
    ends = find_lost_ends(own, members, lambda index: report(found[index]))
    choice = choose_leader(own) if len(own) > 1 else None
    leader = None if choice is None else found[choice.node]
    nodes = [GroupNode(each) for each in facts]
    for index, original in copies.items():
        copy = GroupNode(facts[index], copy_of=facts[original].env)
        following = follow(report(index), report(original))
        nodes[index] = _behind(copy, facts[original], following)
    feeder = None if leader is None else report(leader)
    for place, index in enumerate(found):
        node = GroupNode(facts[index], lost_end=ends.get(place), is_leader=index == leader)
        if leader is not None and feeder is not None:
            own_following = None if index == leader else follow(report(index), feeder)
            node = _behind(node, facts[leader], own_following)
        nodes[index] = node
    missing, count = _missing(own, members) if is_whole else ((), 0)
    return ComparedGroup(
        group_id=facts[0].facts.group_id or "",
        name=facts[0].facts.group_name or "",
        nodes=tuple(nodes),
        members=members,
        missing=missing,
        missing_count=count,
        choice=None if choice is None or leader is None else replace(choice, node=leader),
    )


def _members(facts: Sequence[MemberFacts]) -> tuple[tuple[Member, ...], bool]:
    """Return the members by the newest group database, and whether all of them are known."""
    newest = max(facts, key=lambda each: (each.change_version, each.facts.last_vlsn or -1))
    members = tuple(each for each in newest.members if not each.is_removed)
    return members, not newest.is_cut


def _missing(
    found: Sequence[MemberFacts], members: Sequence[Member]
) -> tuple[tuple[str, ...], int]:
    """Return the names of members that may be missing, and how many of them are."""
    names = {each.facts.node_name for each in found}
    unknown = sum(each.facts.node_name is None for each in found)
    absent = [m.name for m in members if m.node_type in _WITH_LOG and m.name not in names]
    count = max(len(absent) - unknown, 0)
    return tuple(absent) if count else (), count


def _behind(node: GroupNode, leader: MemberFacts, following: Following | None) -> GroupNode:
    """Return a node with what it would do to follow another one, and its lag behind that."""
    lag_vlsn, lag_ms = _lag(node.facts, leader)
    return replace(node, following=following, lag_vlsn=lag_vlsn, lag_ms=lag_ms)


def _lag(node: MemberFacts, leader: MemberFacts) -> tuple[int | None, int | None]:
    last, newest = node.facts.last_vlsn, leader.facts.last_vlsn
    lag_vlsn = None if newest is None else newest - (last or 0)
    if node.last_commit is None or leader.last_commit is None:
        return lag_vlsn, None
    return lag_vlsn, leader.last_commit.time_ms - node.last_commit.time_ms
