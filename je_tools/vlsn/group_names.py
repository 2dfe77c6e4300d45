"""The group to which a node belongs, and the names of its members.

Source: RepGroupDB.GroupBinding and NodeBinding, JE 18.3.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.formats.je.internal.names import REP_GROUP_DB
from je_tools.formats.je.internal.replication import NODE_TYPES
from je_tools.group.members import GroupProblem, read_group
from je_tools.recovery.internal_databases import internal_database

if TYPE_CHECKING:
    from collections.abc import Mapping

    from je_tools.recovery.snapshot import Snapshot


class GroupNames(Struct, frozen=True):
    """The group of a node.

    Attributes:
        name, group_id: None if the record of the group is missing or cannot be read.
        nodes: names of the members by id, former ones included.
        types: their types, of `NODE_TYPES`, by name.
        problem: reason why the group is not known completely; None if it is.
        contradictions: problems of readable records, which the engine would reject.
    """

    name: str | None
    group_id: str | None
    nodes: Mapping[int, str]
    types: Mapping[str, str]
    problem: str | None
    contradictions: tuple[GroupProblem, ...] = ()


def read_group_names(snapshot: Snapshot) -> GroupNames:
    """Read the group database; add unreadable nodes and records to `snapshot.faults`."""
    database = internal_database(snapshot, REP_GROUP_DB)
    if database is None:
        return GroupNames(None, None, {}, {}, "the log has no group database")
    records = read_group(snapshot)
    group, problem = records.group, None
    unreadable = len(records.problems) - len(records.contradictions)
    if any(fault.db_id == database.db_id for fault in snapshot.faults.damage):
        problem = "a record of the group database is damaged or missing"
    elif unreadable:
        first = records.problems[0]
        problem = f"the group database needs {first.expected}; found {first.found}"
    return GroupNames(
        name=None if group is None else group.name,
        group_id=None if group is None else str(group.group_id),
        nodes={node.node_id: node.name or "" for node in records.nodes},
        types={
            node.name: NODE_TYPES[node.node_type]
            for node in records.nodes
            if node.name is not None and 0 <= node.node_type < len(NODE_TYPES)
        },
        problem=problem,
        contradictions=records.contradictions,
    )
