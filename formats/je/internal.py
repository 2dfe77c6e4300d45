"""Internal database records as typed values, and back to bytes.

`read_record` decodes key and data of a record, given the name of its database; `encode` of each
class returns the bytes. File numbers, LSNs and VLSNs are plain numbers; VLSN -1 is none. File
summaries are LNs of a type of their own, whose payload `entries` decodes; this module has their
key.

Source: je-log.md "Databases of the engine"; ReservedFileInfo, ExpirationTracker.serialize,
ExtinctionScanner, RepGroupDB.GroupBinding and NodeBinding, VLSNBucket, GhostBucket, VLSNRange,
DataEraser.storeState, JE 18.3.12 and 25.3.17.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Sequence
from typing import TypeVar

from msgspec import Struct

from je_tools.formats.je.internal_names import (
    EXPIRATION_DB,
    EXTINCT_SCANS_DB,
    METADATA_DB,
    REP_GROUP_DB,
    RESERVED_FILES_DB,
    VLSN_MAP_DB,
)
from je_tools.formats.je.tuples import (
    TupleError,
    TupleReader,
    TupleWriter,
    long_key,
    sorted_packed_key,
    string_key,
)

T = TypeVar("T")

GROUP_KEY = "$$GROUP_KEY$$"
ERASER_KEY = b"eraser"
RANGE_KEY = -1
"""Keys of single records: the group among its nodes, the eraser's state, the VLSN range."""

NODE_TYPES = ("monitor", "electable", "secondary", "arbiter", "external")
"""Node types by number. Source: NodeType, JE 25.3.17."""

_SUMMARY_KEY_SIZE = 8
_SEQUENCE_MAX = 0x7FFFFFFF
_HOURS_A_DAY = 24
_RECORD_EXTINCTION, _DATABASE_EXTINCTION = 0, 1
_LAST_TYPE_WITHOUT_FORMAT = 1
_FORMAT_WITH_VERSION = 3


class Unreadable(Struct, frozen=True):
    """A record that does not decode."""

    reason: str


def database_key(db_id: int) -> bytes:
    """Return the key of a database in the id database."""
    return str(db_id).encode()


def database_id(key: bytes) -> int:
    """Return the id of a database, given its key in the id database.

    Raises:
        TupleError: the key is not a decimal number as the engine writes it.
    """
    digits = key.removeprefix(b"-")
    if not digits.isdigit() or database_key(int(key)) != key:
        raise TupleError("not the decimal spelling of a number", 0)
    return int(key)


class FileSummaryKey(Struct, frozen=True):
    """The key of a file summary; the newest summary of a file sorts first.

    Attributes:
        sequence: number of entries in the file when the summary was logged, obsolete ones twice.
    """

    file_no: int
    sequence: int

    @classmethod
    def decode(cls, key: bytes) -> FileSummaryKey:
        """Decode a key; raise TupleError if it is malformed."""
        if len(key) != _SUMMARY_KEY_SIZE:
            raise TupleError(f"a key of {_SUMMARY_KEY_SIZE} bytes expected", len(key))
        file_no, rest = struct.unpack(">II", key)
        return cls(file_no, _SEQUENCE_MAX - rest)

    def encode(self) -> bytes:
        """Return the bytes of the key."""
        return struct.pack(">II", self.file_no, _SEQUENCE_MAX - self.sequence)


class ReservedFile(Struct, frozen=True):
    """A cleaned file that waits for its deletion.

    Attributes:
        flags: 0 in all releases.
        first_vlsn, last_vlsn: VLSNs in the file; -1 for none.
        db_ids: databases that had records in it, as far as the engine still lists them.
    """

    file_no: int
    flags: int
    first_vlsn: int
    last_vlsn: int
    db_ids: tuple[int, ...]

    @classmethod
    def decode(cls, key: bytes, data: bytes) -> ReservedFile:
        """Decode a record; raise TupleError if it is malformed."""
        file_no = _whole(key, TupleReader.i64)
        reader = TupleReader(data)
        flags, first, last = reader.byte(), reader.packed(), reader.packed()
        ids = tuple(reader.packed() for _ in _counted(reader))
        _end(reader)
        return cls(file_no, flags, first, last, ids)

    def encode(self) -> tuple[bytes, bytes]:
        """Return the bytes of key and data."""
        writer = TupleWriter().byte(self.flags).packed(self.first_vlsn).packed(self.last_vlsn)
        writer.packed(len(self.db_ids))
        for db_id in self.db_ids:
            writer.packed(db_id)
        return long_key(self.file_no), bytes(writer.data)


class Expirations(Struct, frozen=True):
    """Number of bytes of a file by expiration time.

    Attributes:
        in_hours: True if times are in hours, False if in days; since 1970, UTC.
        sizes: (time, bytes), ascending by time.
    """

    file_no: int
    in_hours: bool
    sizes: tuple[tuple[int, int], ...]

    @classmethod
    def decode(cls, key: bytes, data: bytes) -> Expirations:
        """Decode a record; raise TupleError if it is malformed."""
        file_no = _whole(key, TupleReader.sorted_packed)
        if not data:
            return cls(file_no, False, ())
        reader = TupleReader(data)
        in_hours = reader.boolean()
        sizes = []
        time = 0
        if not reader.left:
            raise TupleError("a unit of time without times", reader.at)
        while reader.left:
            time += reader.packed()
            sizes.append((time, reader.packed()))
        return cls(file_no, in_hours, tuple(sizes))

    def encode(self) -> tuple[bytes, bytes]:
        """Return the bytes of key and data."""
        key = sorted_packed_key(self.file_no)
        if not self.sizes:
            return key, b""
        writer = TupleWriter().boolean(self.in_hours)
        before = 0
        for time, size in self.sizes:
            writer.packed(time - before).packed(size)
            before = time
        return key, bytes(writer.data)

    def expired_size(self, now_ms: int) -> int:
        """Return the number of bytes that have expired at a time."""
        now = now_ms // 3_600_000
        if not self.in_hours:
            now //= _HOURS_A_DAY
        return sum(size for time, size in self.sizes if time <= now)


class DatabaseExtinction(Struct, frozen=True):
    """A removed database whose records are still to be counted as obsolete."""

    scan_id: int
    version: int
    db_id: int

    def encode(self) -> tuple[bytes, bytes]:
        """Return the bytes of key and data."""
        writer = TupleWriter().packed(_DATABASE_EXTINCTION).packed(self.version)
        return sorted_packed_key(self.scan_id), bytes(writer.packed(self.db_id).data)


class RecordExtinction(Struct, frozen=True):
    """A range of records that the application has discarded.

    Attributes:
        count_complete: True if the records have been counted as obsolete.
        db_ids: ids of databases, ascending.
        begin_key, end_key: bounds of the range; empty for none.
        scan_filter: the application's filter as a serialized Java object; empty for none.
        label: the application's name for the range.
        flushed_db_id, flushed_key: progress of the scan.
    """

    scan_id: int
    version: int
    count_complete: bool
    db_ids: tuple[int, ...]
    begin_key: bytes
    end_key: bytes
    scan_filter: bytes
    label: str | None
    flushed_db_id: int
    flushed_key: bytes

    def encode(self) -> tuple[bytes, bytes]:
        """Return the bytes of key and data."""
        writer = TupleWriter().packed(_RECORD_EXTINCTION).packed(self.version)
        _put_ascending(writer.boolean(self.count_complete), self.db_ids)
        for data in (self.begin_key, self.end_key, self.scan_filter):
            writer.packed(len(data)).raw(data)
        writer.string(self.label).packed(self.flushed_db_id)
        writer.packed(len(self.flushed_key)).raw(self.flushed_key)
        return sorted_packed_key(self.scan_id), bytes(writer.data)


def decode_extinction(key: bytes, data: bytes) -> DatabaseExtinction | RecordExtinction:
    """Decode a record of the extinct scans; raise TupleError if it is malformed."""
    scan_id = _whole(key, TupleReader.sorted_packed)
    reader = TupleReader(data)
    kind, version = reader.packed(), reader.packed()
    scan: DatabaseExtinction | RecordExtinction
    if kind == _DATABASE_EXTINCTION:
        scan = DatabaseExtinction(scan_id, version, reader.packed())
    elif kind == _RECORD_EXTINCTION:
        scan = RecordExtinction(
            scan_id=scan_id,
            version=version,
            count_complete=reader.boolean(),
            db_ids=_ascending(reader),
            begin_key=reader.take(reader.packed()),
            end_key=reader.take(reader.packed()),
            scan_filter=reader.take(reader.packed()),
            label=reader.string(),
            flushed_db_id=reader.packed(),
            flushed_key=reader.take(reader.packed()),
        )
    else:
        raise TupleError(f"{kind} is no kind of extinction", 0)
    _end(reader)
    return scan


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
        _end(reader)
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
        _end(reader)
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
        _end(reader)
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
    _end(reader)
    return bucket


class EraserState(Struct, frozen=True):
    """Progress of the data eraser in its cycle.

    Attributes:
        start_ms, end_ms: start and end of the cycle.
        total_work: number of bytes to process.
        completed, pending: numbers of files, ascending.
        version: None in releases that end the record with `pending`.
        oldest_obsolete_lsn: None in those releases.
    """

    start_ms: int
    end_ms: int
    total_work: int
    completed: tuple[int, ...]
    pending: tuple[int, ...]
    version: int | None
    oldest_obsolete_lsn: int | None

    @classmethod
    def decode(cls, data: bytes) -> EraserState:
        """Decode a record; raise TupleError if it is malformed."""
        reader = TupleReader(data)
        times = reader.i64(), reader.i64()
        work, completed, pending = reader.packed(), _ascending(reader), _ascending(reader)
        if not reader.left:
            return cls(*times, work, completed, pending, None, None)
        state = cls(*times, work, completed, pending, reader.i32(), reader.i64())
        _end(reader)
        return state

    def encode(self) -> tuple[bytes, bytes]:
        """Return the bytes of key and data."""
        writer = TupleWriter().i64(self.start_ms).i64(self.end_ms).packed(self.total_work)
        _put_ascending(writer, self.completed)
        _put_ascending(writer, self.pending)
        if self.version is not None and self.oldest_obsolete_lsn is not None:
            writer.i32(self.version).i64(self.oldest_obsolete_lsn)
        return ERASER_KEY, bytes(writer.data)


InternalRecord = (
    ReservedFile
    | Expirations
    | DatabaseExtinction
    | RecordExtinction
    | RepGroup
    | RepNode
    | VlsnRange
    | VlsnBucket
    | GhostBucket
    | EraserState
)


def read_record(database: str, key: bytes, data: bytes) -> InternalRecord | Unreadable:
    """Decode a record of an internal database, given the name of the database.

    Raises:
        KeyError: the database is not one of `RECORD_DATABASES`.
    """
    decode = _DECODE[database]
    try:
        return decode(key, data)
    except TupleError as error:
        return Unreadable(str(error))


def _decode_vlsns(key: bytes, data: bytes) -> InternalRecord:
    first = _whole(key, TupleReader.i64)
    if first == RANGE_KEY:
        return VlsnRange.decode(data)
    bucket = decode_bucket(data)
    if bucket.first != first:
        raise TupleError(f"a bucket from VLSN {bucket.first} on has the key {first}", 0)
    return bucket


def _decode_member(key: bytes, data: bytes) -> InternalRecord:
    name = _whole(key, TupleReader.string)
    if name == GROUP_KEY:
        return RepGroup.decode(data)
    node = RepNode.decode(data)
    if node.name != name:
        raise TupleError(f"a node {node.name!r} has the key {name!r}", 0)
    return node


def _decode_metadata(key: bytes, data: bytes) -> InternalRecord:
    if key != ERASER_KEY:
        raise TupleError(f"{key!r} is not the key of the eraser's state", 0)
    return EraserState.decode(data)


_DECODE: dict[str, Callable[[bytes, bytes], InternalRecord]] = {
    RESERVED_FILES_DB: ReservedFile.decode,
    EXPIRATION_DB: Expirations.decode,
    EXTINCT_SCANS_DB: decode_extinction,
    METADATA_DB: _decode_metadata,
    VLSN_MAP_DB: _decode_vlsns,
    REP_GROUP_DB: _decode_member,
}

RECORD_DATABASES = tuple(_DECODE)


def _whole(data: bytes, read: Callable[[TupleReader], T]) -> T:
    reader = TupleReader(data)
    value = read(reader)
    _end(reader)
    return value


def _end(reader: TupleReader) -> None:
    if reader.left:
        raise TupleError(f"{reader.left} bytes too many", reader.at)


def _counted(reader: TupleReader) -> range:
    """Return a range with the next number as its length; each item takes at least one byte."""
    count = reader.packed()
    if not 0 <= count <= reader.left:
        raise TupleError(f"{count} numbers do not fit {reader.left} bytes", reader.at)
    return range(count)


def _ascending(reader: TupleReader) -> tuple[int, ...]:
    values = []
    value = 0
    for _ in _counted(reader):
        value += reader.packed()
        values.append(value)
    return tuple(values)


def _put_ascending(writer: TupleWriter, values: Sequence[int]) -> None:
    writer.packed(len(values))
    before = 0
    for value in values:
        writer.packed(value - before)
        before = value
