"""Report on a node of a group, packed into few bytes, for the comparison with the other nodes.

It has what `vlsn compare` needs, the members that the node knows, and the times at which its files
were created: these show that one environment is a copy of another.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from msgspec import Struct
from msgspec.structs import astuple, replace

from je_tools.core.escaping import clean_text
from je_tools.formats.je.internal.names import REP_GROUP_DB
from je_tools.formats.je.internal.replication import NODE_TYPES
from je_tools.group.members import read_group
from je_tools.recovery.internal_databases import internal_database
from je_tools.vlsn.node import read_node
from je_tools.vlsn.node_report import NodeFacts, NodeReport, SyncPoint, report_of
from je_tools.vlsn.sync_points import SyncPoints
from je_tools.vlsn.tail import TxnWrites

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints
    from je_tools.log.log_files import LogFile
    from je_tools.recovery.snapshot import Snapshot
    from je_tools.vlsn.node import NodeState

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


class Member(Struct, frozen=True, array_like=True):
    """A member of a group, as the group database of a node has it.

    Attributes:
        name, node_id: its name and id.
        node_type: one of `NODE_TYPES`; None if the number is none of them.
        is_removed: True if it has left the group.
        quorum_ack: True if a quorum has acknowledged its entry.
        barrier_vlsn: VLSN up to which it once reported to have the stream; -1 if unused.
    """

    name: str
    node_id: int
    node_type: str | None
    is_removed: bool
    quorum_ack: bool
    barrier_vlsn: int


class MemberFacts(Struct, frozen=True):
    """The part of a report that is compared without its sync points.

    Attributes:
        env: name of the environment in the tables.
        facts: the node.
        change_version: number of changes to the members that it knows; -1 if unknown.
        members: members that it knows.
        file_no, created_ms: number and time of creation of each file, in log order.
        last_commit: the last Commit; None without one.
        durable_vlsn: last VLSN that the master knew to be durable.
        is_cut: True if names, members or files were left out.
    """

    env: str
    facts: NodeFacts
    change_version: int
    members: tuple[Member, ...]
    file_no: tuple[int, ...]
    created_ms: tuple[int, ...]
    last_commit: SyncPoint | None
    durable_vlsn: int | None
    is_cut: bool = False

    @property
    def group(self) -> tuple[str, str] | None:
        """Id and name of its group; None if unknown."""
        group_id = self.facts.group_id
        return None if group_id is None else (group_id, self.facts.group_name or "")


class MemberReport(Struct, frozen=True):
    """A packed report, and what the audit needs of it at once."""

    data: bytes
    last_commit: SyncPoint | None


class _Packed(Struct, frozen=True, array_like=True):
    facts: bytes
    sync: list[bytes]
    writes: list[bytes]


def pack_member(snapshot: Snapshot, env: str) -> MemberReport:
    """Read the report on a node, and pack it.

    Args:
        snapshot: the log of a replicated node.
        env: name of the environment in the tables.

    Raises:
        StoppedError: a file shrank, vanished or was replaced meanwhile.
        InputError: a file cannot be read.
    """
    state, reader = read_node(snapshot, SYNC_COUNT)
    commit = report_of(state).last_commit
    facts = _facts(snapshot, state, env, commit)
    # The reader keeps whole files, so there may be more sync points than it was asked for.
    tail = reader.tail()
    count = SYNC_MAX
    while True:
        data = pack_report(facts, report_of(replace(state, tail=tail.last(count))))
        if len(data) <= REPORT_SIZE:
            return MemberReport(data, commit)
        if count > 1:
            count //= 2
        else:
            facts = _cut(facts)


def pack_report(facts: MemberFacts, report: NodeReport) -> bytes:
    """Pack a report; how far its sync points reach back is taken from `report`."""
    node = replace(
        facts.facts,
        sync_first_vlsn=report.facts.sync_first_vlsn,
        sync_is_whole=report.facts.sync_is_whole,
    )
    return msgspec.msgpack.encode(
        _Packed(
            zlib.compress(msgspec.msgpack.encode(replace(facts, facts=node))),
            [_pack_column(each.astype(np.int64)) for each in astuple(report.sync)],
            [_pack_column(each) for each in astuple(report.writes)],
        )
    )


def unpack_facts(data: bytes) -> MemberFacts:
    """Return the facts of a packed report."""
    packed = msgspec.msgpack.decode(data, type=_Packed)
    return msgspec.msgpack.decode(zlib.decompress(packed.facts), type=MemberFacts)


def unpack_report(data: bytes) -> NodeReport:
    """Return a packed report as `vlsn compare` takes it."""
    packed = msgspec.msgpack.decode(data, type=_Packed)
    facts = msgspec.msgpack.decode(zlib.decompress(packed.facts), type=MemberFacts).facts
    lsn, vlsn, type_no, *others = map(_unpack_column, packed.sync)
    sync = SyncPoints(lsn, vlsn, type_no.astype(np.uint8), *others)
    return NodeReport(facts, sync, TxnWrites(*map(_unpack_column, packed.writes)))


def _pack_column(column: Ints) -> bytes:
    """Compress a column of numbers, most of which are close to the one before."""
    steps = np.diff(column, prepend=np.int64(0))
    # The bytes of equal weight lie together: most planes are zeros.
    planes = np.ascontiguousarray(steps.astype("<i8").view(np.uint8).reshape(-1, 8).T)
    return zlib.compress(planes.tobytes())


def _unpack_column(data: bytes) -> Ints:
    planes = np.frombuffer(zlib.decompress(data), np.uint8).reshape(8, -1)
    steps = np.ascontiguousarray(planes.T).view("<i8").reshape(-1)
    return np.cumsum(steps, dtype=np.int64)


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
