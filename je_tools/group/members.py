"""Group database: the record of the replication group, and those of its nodes.

Source: je-log.md "Databases of the engine"; RepGroupDB.fetchGroup, RepGroupImpl, RepNodeImpl,
JE 18.3.12.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.errors import InputError
from je_tools.findings import CODES, Finding
from je_tools.formats.je.internal.names import REP_GROUP_DB
from je_tools.formats.je.internal.records import Unreadable, read_record
from je_tools.formats.je.internal.replication import GROUP_KEY, NODE_TYPES, RepGroup, RepNode
from je_tools.recovery.internal_databases import internal_database

if TYPE_CHECKING:
    from je_tools.recovery.database import Database
    from je_tools.recovery.snapshot import Snapshot

FORMATS = (2, 3)
"""Format versions of the group's records. Source: RepGroupImpl, JE 18.3.12 and 25.3.17."""

_PORT_MAX = 65535


class GroupProblem(Struct, frozen=True):
    """A record that is wrong, or missing.

    Attributes:
        expected, found: expected and actual content.
        lsn: LSN of the record's entry; None if there is none.
    """

    expected: str
    found: str
    lsn: int | None = None


class GroupRecords(Struct, frozen=True):
    """Records of the group database.

    Attributes:
        database: the database.
        group: record of the group; None if it is missing or unreadable.
        nodes: records of the nodes, in the order of their ids.
        keys: keys of all records, in key order.
        problems: what is wrong with the records.
        contradictions: the problems of readable records; a part of `problems`.
    """

    database: Database
    group: RepGroup | None
    nodes: tuple[RepNode, ...]
    keys: tuple[bytes, ...]
    problems: tuple[GroupProblem, ...]
    contradictions: tuple[GroupProblem, ...]

    def node(self, name: str) -> RepNode | None:
        """Return the record of a node, or None."""
        return next((node for node in self.nodes if node.name == name), None)


def read_group(snapshot: Snapshot) -> GroupRecords:
    """Return the records of the group database.

    Damage in its tree is added to `snapshot.faults`.

    Raises:
        InputError: the environment is not a node of a replication group.
    """
    database = internal_database(snapshot, REP_GROUP_DB)
    if database is None:
        raise InputError(
            f"{snapshot.environment.name}: the environment is not a node of a replication group: "
            f"the log has no database {REP_GROUP_DB}"
        )
    group: RepGroup | None = None
    nodes: list[tuple[RepNode, int]] = []
    keys: list[bytes] = []
    problems: list[GroupProblem] = []
    for batch in snapshot.records(database, show_expired=True):
        for row, lsn in enumerate(batch.lsn.tolist()):
            key, data = batch.key[row] or b"", batch.data[row]
            keys.append(key)
            lost = Unreadable("its data are lost")
            record = lost if data is None else read_record(REP_GROUP_DB, key, data)
            if isinstance(record, RepGroup):
                group = record
            elif isinstance(record, RepNode):
                nodes.append((record, lsn))
            else:
                problems.append(
                    GroupProblem("the record of a node or of the group", _why(record), lsn)
                )
    if group is None:
        problems.append(GroupProblem(f"a record with the key {GROUP_KEY}", "none that is readable"))
    wrong = tuple(_contradictions(group, nodes))
    ordered = tuple(sorted((node for node, _ in nodes), key=lambda node: node.node_id))
    return GroupRecords(database, group, ordered, tuple(keys), (*problems, *wrong), wrong)


def _why(record: object) -> str:
    return record.reason if isinstance(record, Unreadable) else "another record"


def _contradictions(
    group: RepGroup | None, nodes: Sequence[tuple[RepNode, int]]
) -> Iterator[GroupProblem]:
    """Yield what the engine would reject in records that are readable."""
    if group is not None and group.format_version not in FORMATS:
        expected = f"format version {FORMATS[0]} or {FORMATS[-1]} of the group"
        yield GroupProblem(expected, f"{group.format_version}")
    ids: dict[int, str] = {}
    for node, lsn in nodes:
        name = f"node {node.name}"
        if not 0 <= node.node_type < len(NODE_TYPES):
            yield GroupProblem(f"a type of {name}", f"number {node.node_type}", lsn)
        if not node.host or not 0 < node.port <= _PORT_MAX:
            yield GroupProblem(f"an address of {name}", f"{node.host}:{node.port}", lsn)
        if node.node_id in ids:
            found = f"{node.node_id}, which is that of {ids[node.node_id]}"
            yield GroupProblem(f"an id of {name} alone", found, lsn)
        ids[node.node_id] = name
        if group is None:
            continue
        if (node.format_version or 0) > group.format_version:
            expected = f"at most format version {group.format_version} of {name}"
            yield GroupProblem(expected, f"{node.format_version}", lsn)
        if node.node_id > group.node_id_sequence:
            expected = f"an id of {name} up to {group.node_id_sequence}, the last that was given"
            yield GroupProblem(expected, f"{node.node_id}", lsn)


def group_findings(snapshot: Snapshot, records: GroupRecords) -> list[Finding]:
    """Return a finding for each record that is wrong or missing."""
    return problem_findings(snapshot, records.problems)


def problem_findings(snapshot: Snapshot, problems: Sequence[GroupProblem]) -> list[Finding]:
    """Return a finding for each problem."""
    code = CODES["group-record"]
    return [
        Finding(
            code.name,
            code.severity,
            snapshot.environment.name,
            file_no=None if problem.lsn is None else problem.lsn >> 32,
            offset=None if problem.lsn is None else problem.lsn & 0xFFFFFFFF,
            expected=problem.expected,
            found=problem.found,
            hint=code.hint,
        )
        for problem in problems
    ]
