"""A replication group and its nodes, as tables and as rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from je_tools.formats.je.internal.replication import NODE_TYPES, RepNode
from je_tools.output.views import sections as s
from je_tools.output.views.findings import finding_row
from je_tools.output.views.section_formats import Report
from je_tools.output.views.sections import Column, Kind, Section, fact_section, section_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from je_tools.findings import Finding
    from je_tools.formats.je.internal.replication import RepGroup
    from je_tools.group.members import GroupRecords

_GROUP = (
    Column("name", "group", Kind.TEXT),
    Column("group_id", "id", Kind.TEXT, cell=lambda group: str(group.group_id)),
    Column("format_version", "format version", Kind.ID),
    Column("change_version", "change version", Kind.ID),
    Column("node_id_sequence", "last node id", Kind.ID),
    Column("min_je_version", "oldest JE", Kind.TEXT),
)
_NODES = (
    Column("name", "node", Kind.TEXT, wraps=True),
    Column("node_id", "id", Kind.ID),
    Column("node_type", "type", Kind.TEXT, cell=lambda node: _type(node)),
    Column("host", "host", Kind.TEXT, wraps=True),
    Column("port", "port", Kind.ID),
    Column("membership", "state", Kind.TEXT, cell=lambda node: _membership(node)),
    Column("quorum_ack", "acknowledged", Kind.FLAG, rank=3),
    Column("is_removed", "removed", Kind.FLAG, rank=3),
    Column("change_version", "change version", Kind.ID, rank=1),
    Column("je_version", "JE", Kind.TEXT, rank=2),
    Column("barrier_vlsn", "barrier VLSN", rank=5),
    Column("barrier_ms", "barrier time (UTC)", Kind.TIME, rank=6),
    Column("format_version", "format version", Kind.ID, rank=4),
)
_ACKNOWLEDGED = ("secondary", "external")
"""Types of nodes that count as acknowledged by the quorum. Source: RepNodeImpl, JE 18.3.12."""


def group_sections(records: GroupRecords, *, as_facts: bool) -> list[Section]:
    """Return the group, if its record is readable, and its nodes.

    Args:
        records: records of the group database.
        as_facts: True to show the group as a list of facts, for people.
    """
    nodes = section_of("nodes", "Nodes", _NODES, records.nodes)
    if records.group is None:
        return [nodes]
    if not as_facts:
        return [section_of("group", "", _GROUP, [records.group]), nodes]
    return [fact_section("group", _facts(records.group)), nodes]


def group_report(records: GroupRecords, findings: Iterable[Finding]) -> Report:
    """Return the group, its nodes and findings as one object.

    Args:
        records: records of the group database.
        findings: findings on them and on the log.
    """
    *groups, nodes = group_sections(records, as_facts=False)
    group = next((row for section in groups for row in s.row_values(section)), None)
    return Report({"group": group}, "group", {}, [nodes], {"findings": map(finding_row, findings)})


def _facts(group: RepGroup) -> Iterator[tuple[str, str | None]]:
    yield "name", group.name
    yield "id", str(group.group_id)
    yield "format version", str(group.format_version)
    yield "change version", str(group.change_version)
    yield "last node id", str(group.node_id_sequence)
    yield "oldest JE of a node", group.min_je_version


def _type(node: RepNode) -> str:
    is_known = 0 <= node.node_type < len(NODE_TYPES)
    return NODE_TYPES[node.node_type] if is_known else f"unknown ({node.node_type})"


def _membership(node: RepNode) -> str:
    """Return the state of a node as DbDumpGroup prints it."""
    if node.is_removed:
        return "is removed"
    is_durable = node.quorum_ack or _type(node) in _ACKNOWLEDGED
    return "is member" if is_durable else "not yet a durable member"
