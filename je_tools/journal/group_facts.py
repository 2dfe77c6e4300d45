"""The replication group of a front end, compared with what its ROLE and VERSION say.

A follower is an electable member of the group. An observer is a secondary node, of which the group
database has no record.

Source: BDBEnvironment.setupEnvironment, Storage.reload, FrontendNodeType, StarRocks 3.x;
BDBEnvironment.setup, Apache Doris 2.x; RepGroupDB, JE 18.3.12.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.formats.je.internal.names import REP_GROUP_DB
from je_tools.formats.je.internal.replication import NODE_TYPES, RepNode
from je_tools.group.members import read_group
from je_tools.journal.series import GROUP_NAME
from je_tools.recovery.internal_databases import internal_database

if TYPE_CHECKING:
    from je_tools.journal.front_end import FrontEnd
    from je_tools.recovery.snapshot import Snapshot

_FOLLOWER, _OBSERVER = "FOLLOWER", "OBSERVER"
_ELECTABLE = "electable"


class GroupFacts(Struct, frozen=True):
    """Facts in the group database.

    Attributes:
        name: name of the group; None without a group or a readable record of it.
        nodes: its nodes, removed ones included, by name.
        exists: True if there is a group database.
    """

    name: str | None
    nodes: dict[str, RepNode]
    exists: bool

    @property
    def members(self) -> list[str]:
        """Names of the nodes that were not removed."""
        return sorted(name for name, node in self.nodes.items() if not node.is_removed)


class GroupDifference(Struct, frozen=True):
    """A difference between the files of a front end and its group database, or a bad file.

    Attributes:
        expected, found: both sides, in words.
        is_harmless: True if the front end can start nevertheless.
    """

    expected: str
    found: str
    is_harmless: bool = False


def group_facts(snapshot: Snapshot) -> GroupFacts:
    """Return what the group database of a snapshot says; unreadable records are left out."""
    if internal_database(snapshot, REP_GROUP_DB) is None:
        return GroupFacts(None, {}, exists=False)
    records = read_group(snapshot)
    nodes = {node.name: node for node in records.nodes if node.name is not None}
    return GroupFacts(records.group.name if records.group else None, nodes, exists=True)


def node_type_of(node: RepNode) -> str:
    """Return the type of a node in words."""
    known = 0 <= node.node_type < len(NODE_TYPES)
    return NODE_TYPES[node.node_type] if known else f"of type {node.node_type}"


def compare_with_group(front_end: FrontEnd, group: GroupFacts) -> Iterator[GroupDifference]:
    """Yield the differences between ROLE and VERSION of a front end and its group."""
    for problem in front_end.problems:
        yield GroupDifference("ROLE and VERSION that can be read", problem)
    if group.name is not None and group.name != GROUP_NAME:
        found = f"the group {group.name}"
        yield GroupDifference(f"the group {GROUP_NAME}", found, is_harmless=True)
    cluster_id = front_end.cluster_id
    if cluster_id is not None and not (cluster_id.isascii() and cluster_id.isdigit()):
        yield GroupDifference("a number as clusterId in image/VERSION", f"clusterId {cluster_id!r}")
    role, name = front_end.role, front_end.node_name
    if role is None:
        return
    if role not in (_FOLLOWER, _OBSERVER):
        yield GroupDifference(
            f"the role {_FOLLOWER} or {_OBSERVER} in image/ROLE", f"role {role!r}"
        )
        return
    if not group.exists:
        yield GroupDifference(
            f"a replication group, since image/ROLE says {role}", "no group database"
        )
    elif name is not None:
        difference = _of_node(role, name, group)
        if difference is not None:
            yield difference


def _of_node(role: str, name: str, group: GroupFacts) -> GroupDifference | None:
    """Return the difference between the role of a node and its record in the group."""
    node = group.nodes.get(name)
    members = ", ".join(group.members) or "none"
    if role == _OBSERVER:
        if node is None or node.is_removed or node_type_of(node) != _ELECTABLE:
            return None
        expected = f"no electable member {name}, since image/ROLE says {role}"
        return GroupDifference(expected, f"an electable member of this name; members: {members}")
    expected = f"an electable member {name}, since image/ROLE says {role}"
    if node is None:
        return GroupDifference(expected, f"no member of this name; members: {members}")
    if node.is_removed:
        return GroupDifference(expected, f"a removed node of this name; members: {members}")
    if node_type_of(node) != _ELECTABLE:
        return GroupDifference(expected, f"a member that is {node_type_of(node)}")
    return None
