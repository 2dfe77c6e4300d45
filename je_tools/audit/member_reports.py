"""Report on a node of a group, packed into few bytes, for the comparison with the other nodes.

It has what `vlsn compare` needs, the members that the node knows, and the times at which its files
were created: these show that one environment is a copy of another.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from msgspec import Struct
from msgspec.structs import astuple, replace

from je_tools.vlsn.node_report import NodeFacts, NodeReport, SyncPoint
from je_tools.vlsn.sync_points import SyncPoints
from je_tools.vlsn.txn_writes import TxnWrites

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints


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


class _Packed(Struct, frozen=True, array_like=True):
    facts: bytes
    sync: list[bytes]
    writes: list[bytes]


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
