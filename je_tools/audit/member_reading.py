"""Reading of the report on a node, from its log as recovery leaves it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from je_tools.audit.member_reports import Member, MemberFacts, pack_report
from je_tools.core.escaping import clean_text
from je_tools.formats.je.internal.names import REP_GROUP_DB
from je_tools.formats.je.internal.replication import NODE_TYPES
from je_tools.group.members import read_group
from je_tools.recovery.internal_databases import internal_database
from je_tools.vlsn.node_report import report_of
from je_tools.vlsn.node_state import read_node

if TYPE_CHECKING:
    from je_tools.log.log_files import LogFile
    from je_tools.recovery.snapshot import Snapshot
    from je_tools.vlsn.node_report import SyncPoint
    from je_tools.vlsn.node_state import NodeState
    from je_tools.vlsn.quick_check import QuickCheck

REPORT_SIZE = 64 << 10
"""Largest size of a packed report."""

SYNC_COUNT = 1_000
"""Sync points that are read back, as by `vlsn show` and `vlsn compare`."""

SYNC_MAX = 8_192
"""Largest number of sync points in a report: those that were read anyway are kept."""

FILES_MAX = 4_096
"""Largest number of files in a report: the newest ones."""

MEMBERS_MAX = 256
"""Largest number of members in a report."""

_NAME_MAX = 200
"""Largest number of characters of a name in a report: members have host names."""


class MemberReport(Struct, frozen=True):
    """A packed report, and what the audit needs of it at once.

    Attributes:
        group_id, group_name: group of the node, as in the report; None if unknown.
        data: the packed report.
        last_commit: the last Commit; None without one.
    """

    group_id: str | None
    group_name: str | None
    data: bytes
    last_commit: SyncPoint | None


def read_member(snapshot: Snapshot, env: str, known: QuickCheck) -> MemberReport:
    """Read the report on a node; it is packed into at most REPORT_SIZE bytes.

    Args:
        snapshot: the log of a replicated node.
        env: name of the environment in the tables.
        known: result of a check of the node.

    Raises:
        StoppedError: a file shrank, vanished or was replaced meanwhile.
        InputError: a file cannot be read.
    """
    state, reader = read_node(snapshot, SYNC_COUNT, known=known, with_masters=False)
    commit = report_of(state).last_commit
    facts = _facts(snapshot, state, env, commit)
    # The reader keeps whole files, so there may be more sync points than it was asked for.
    tail = reader.tail()
    count = SYNC_MAX
    while True:
        data = pack_report(facts, report_of(replace(state, tail=tail.last(count))))
        if len(data) <= REPORT_SIZE:
            node = facts.facts
            return MemberReport(node.group_id, node.group_name, data, commit)
        if count > 1:
            count //= 2
        else:
            facts = _cut(facts)


def _facts(snapshot: Snapshot, state: NodeState, env: str, commit: SyncPoint | None) -> MemberFacts:
    node = report_of(state)
    change_version, members = _members(snapshot)
    files = [file for file in snapshot.end.files if _created(file) is not None][-FILES_MAX:]
    facts = node.facts
    names = {each.node_id: each.name for each in members}
    return MemberFacts(
        env=env,
        facts=replace(
            facts,
            env=env,
            group_name=_short(facts.group_name),
            node_name=_short(facts.node_name),
            node_names=names,
        ),
        change_version=change_version,
        members=members,
        file_no=tuple(file.file_no for file in files),
        created_ms=tuple(_created(file) or 0 for file in files),
        last_commit=None if commit is None else replace(commit, written={}),
        durable_vlsn=node.durable_vlsn,
        is_cut=len(members) == MEMBERS_MAX or len(files) == FILES_MAX,
    )


def _created(file: LogFile) -> int | None:
    return file.header.created_ms if file.header.good else None


def _members(snapshot: Snapshot) -> tuple[int, tuple[Member, ...]]:
    if internal_database(snapshot, REP_GROUP_DB) is None:
        return -1, ()
    records = read_group(snapshot)
    members = tuple(
        Member(
            _short(node.name) or "",
            node.node_id,
            NODE_TYPES[node.node_type] if 0 <= node.node_type < len(NODE_TYPES) else None,
            node.is_removed,
            node.quorum_ack,
            node.barrier_vlsn,
        )
        for node in records.nodes[:MEMBERS_MAX]
    )
    return -1 if records.group is None else records.group.change_version, members


def _short(name: str | None) -> str | None:
    return None if name is None else clean_text(name)[:_NAME_MAX]


def _cut(facts: MemberFacts) -> MemberFacts:
    """Leave out half of what a report has many of."""
    half = len(facts.file_no) // 2
    members = facts.members[: len(facts.members) // 2]
    changes: dict[str, Any] = {"node_names": {each.node_id: each.name for each in members}}
    return replace(
        facts,
        facts=replace(facts.facts, **changes),
        members=members,
        file_no=facts.file_no[half:],
        created_ms=facts.created_ms[half:],
        is_cut=True,
    )
