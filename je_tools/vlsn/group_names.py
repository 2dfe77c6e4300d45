"""The group to which a node belongs, and the names of its members.

Source: RepGroupDB.GroupBinding and NodeBinding, JE 18.3.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.formats.je.internal.names import REP_GROUP_DB
from je_tools.formats.je.internal.records import Unreadable
from je_tools.formats.je.internal.replication import RepGroup, RepNode
from je_tools.recovery.internal_databases import internal_database
from je_tools.recovery.utilization import internal_records

if TYPE_CHECKING:
    from collections.abc import Mapping

    from je_tools.recovery.snapshot import Snapshot


class GroupNames(Struct, frozen=True):
    """The group of a node.

    Attributes:
        name, group_id: None if the record of the group is missing or cannot be read.
        nodes: names of the members by id, former ones included.
        problem: reason why the group is not known, or not completely; None if it is.
    """

    name: str | None
    group_id: str | None
    nodes: Mapping[int, str]
    problem: str | None


def read_group_names(snapshot: Snapshot) -> GroupNames:
    """Read the group database; damaged entries are added to `snapshot.faults`."""
    database = internal_database(snapshot, REP_GROUP_DB)
    if database is None:
        return GroupNames(None, None, {}, "the log has no group database")
    name = group_id = problem = None
    nodes = {}
    for record in internal_records(snapshot, REP_GROUP_DB):
        if isinstance(record, RepGroup):
            name, group_id = record.name, str(record.group_id)
        elif isinstance(record, RepNode):
            nodes[record.node_id] = record.name or ""
        elif isinstance(record, Unreadable):
            problem = f"a record of the group database cannot be read: {record.reason}"
    if any(fault.db_id == database.db_id for fault in snapshot.faults.damage):
        problem = "a record of the group database is damaged or missing"
    if group_id is None and problem is None:
        problem = "the group database has no record of the group"
    return GroupNames(name, group_id, nodes, problem)
