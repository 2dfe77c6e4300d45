"""Records of replication, as typed values and back: the group, its nodes, and the VLSN index.

VLSN -1 is none.

Source: RepGroupDB.GroupBinding and NodeBinding, VLSNBucket, GhostBucket, VLSNRange, JE 18.3.12 and
25.3.17.
"""

from __future__ import annotations

import struct
import uuid

from msgspec import Struct

from je_tools.formats.je.tuples import (
    TupleError,
    TupleReader,
    TupleWriter,
    check_end,
    long_key,
    string_key,
)

GROUP_KEY = "$$GROUP_KEY$$"
"""Key of the record of the group among those of its nodes."""

RANGE_KEY = -1
"""Key of the VLSN range among the buckets."""

NODE_TYPES = ("monitor", "electable", "secondary", "arbiter", "external")
"""Node types by number. Source: NodeType, JE 25.3.17."""

_LAST_TYPE_WITHOUT_FORMAT = 1

_FORMAT_WITH_VERSION = 3


class RepGroup(Struct, frozen=True):
    """The replication group.

    Attributes:
        min_je_version: oldest release that a member may have; None in formats before 3.
    """

    name: str | None
    group_id: uuid.UUID
    format_version: int
    change_version: int
    node_id_sequence: int
    min_je_version: str | None

    @classmethod
    def decode(cls, data: bytes) -> RepGroup:
        """Decode a record; raise TupleError if it is malformed."""
        reader = TupleReader(data)
        name, high, low = reader.string(), reader.i64(), reader.i64()
        numbers = reader.i32(), reader.i32(), reader.i32()
        release = reader.string() if numbers[0] >= _FORMAT_WITH_VERSION else None
        check_end(reader)
        group_id = uuid.UUID(bytes=struct.pack(">qq", high, low))
        return cls(name, group_id, *numbers, release)

    def encode(self) -> tuple[bytes, bytes]:
        """Return the bytes of key and data."""
        writer = TupleWriter().string(self.name)
        for half in struct.unpack(">qq", self.group_id.bytes):
            writer.i64(half)
        writer.i32(self.format_version).i32(self.change_version).i32(self.node_id_sequence)
        if self.format_version >= _FORMAT_WITH_VERSION:
            writer.string(self.min_je_version)
        return string_key(GROUP_KEY), bytes(writer.data)


class RepNode(Struct, frozen=True):
    """A present or former member of the replication group.

    Attributes:
        format_version: None in formats before 3.
        node_type: index in NODE_TYPES.
        quorum_ack: True if a quorum has acknowledged the member's entry.
        barrier_vlsn, barrier_ms: values for which former releases kept files of the other nodes.
        je_version: release with which it last joined; None in formats before 3.
    """

    name: str | None
    node_id: int
    format_version: int | None
    node_type: int
    quorum_ack: bool
    is_removed: bool
    host: str | None
    port: int
    barrier_vlsn: int
    barrier_ms: int
    change_version: int
    je_version: str | None

    @classmethod
    def decode(cls, data: bytes) -> RepNode:
        """Decode a record; raise TupleError if it is malformed."""
        reader = TupleReader(data)
        name, node_id, number = reader.string(), reader.i32(), reader.byte()
        is_old = number <= _LAST_TYPE_WITHOUT_FORMAT
        node = cls(
            name=name,
            node_id=node_id,
            format_version=None if is_old else number,
            node_type=number if is_old else reader.byte(),
            quorum_ack=reader.boolean(),
            is_removed=reader.boolean(),
            host=reader.string(),
            port=reader.i32(),
            barrier_vlsn=reader.i64(),
            barrier_ms=reader.i64(),
            change_version=reader.i32(),
            je_version=None if is_old else reader.string(),
        )
        check_end(reader)
        return node

    def encode(self) -> tuple[bytes, bytes]:
        """Return the bytes of key and data."""
        writer = TupleWriter().string(self.name).i32(self.node_id)
        if self.format_version is not None:
            writer.byte(self.format_version)
        writer.byte(self.node_type).boolean(self.quorum_ack).boolean(self.is_removed)
        writer.string(self.host).i32(self.port).i64(self.barrier_vlsn).i64(self.barrier_ms)
        writer.i32(self.change_version)
        if self.format_version is not None:
            writer.string(self.je_version)
        return string_key(self.name), bytes(writer.data)


class VlsnRange(Struct, frozen=True):
    """VLSNs that the index covers; all are -1 if it is empty.

    Attributes:
        last_sync: VLSN of the last Commit, Abort or Matchpoint.
        last_txn_end: VLSN of the last Commit or Abort.
    """

    version: int
    first: int
    last: int
    last_sync: int
    last_txn_end: int

    @classmethod
    def decode(cls, data: bytes) -> VlsnRange:
        """Decode a record; raise TupleError if it is malformed."""
        reader = TupleReader(data)
        numbers = [reader.packed() for _ in range(5)]
        check_end(reader)
        return cls(*numbers)

    def encode(self) -> tuple[bytes, bytes]:
        """Return the bytes of key and data."""
        writer = TupleWriter().packed(self.version).packed(self.first).packed(self.last)
        writer.packed(self.last_sync).packed(self.last_txn_end)
        return long_key(RANGE_KEY), bytes(writer.data)


class VlsnBucket(Struct, frozen=True):
    """VLSNs of a file, and the locations of some of their entries.

    Attributes:
        stride: VLSNs from one of `offsets` to the next.
        last_lsn: LSN of the entry of `last`.
        offsets: offsets in the file of `first`, `first + stride` and so on; 0 if unknown.
    """

    version: int
    file_no: int
    stride: int
    first: int
    last: int
    last_lsn: int
    offsets: tuple[int, ...]

    def encode(self) -> tuple[bytes, bytes]:
        """Return the bytes of key and data."""
        writer = TupleWriter().packed(self.version).boolean(False)
        for number in (self.file_no, self.stride, self.first, self.last, self.last_lsn):
            writer.packed(number)
        writer.packed(len(self.offsets))
        for offset in self.offsets:
            writer.u32(offset)
        return long_key(self.first), bytes(writer.data)


class GhostBucket(Struct, frozen=True):
    """A VLSN whose entry is unknown, and the LSNs between which it would be."""

    version: int
    first: int
    first_possible_lsn: int
    last_possible_lsn: int

    def encode(self) -> tuple[bytes, bytes]:
        """Return the bytes of key and data."""
        writer = TupleWriter().packed(self.version).boolean(True).packed(self.first)
        writer.packed(self.first_possible_lsn).packed(self.last_possible_lsn)
        return long_key(self.first), bytes(writer.data)


def decode_bucket(data: bytes) -> VlsnBucket | GhostBucket:
    """Decode a bucket of the VLSN index; raise TupleError if it is malformed."""
    reader = TupleReader(data)
    version = reader.packed()
    bucket: VlsnBucket | GhostBucket
    if reader.boolean():
        bucket = GhostBucket(version, reader.packed(), reader.packed(), reader.packed())
    else:
        file_no, stride, first = reader.packed(), reader.packed(), reader.packed()
        last, last_lsn, count = reader.packed(), reader.packed(), reader.packed()
        if count < 0 or 4 * count != reader.left:
            raise TupleError(f"{count} offsets do not fit {reader.left} bytes", reader.at)
        offsets = struct.unpack(f">{count}I", reader.take(4 * count))
        bucket = VlsnBucket(version, file_no, stride, first, last, last_lsn, offsets)
    check_end(reader)
    return bucket
