"""Records of the cleaner, as typed values and back: file summaries, reserved files, extinct scans.

File summaries are LNs of a type of their own, whose payload `entries` decodes; this module has
their key.

Source: ReservedFileInfo, ExpirationTracker.serialize, ExtinctionScanner, DataEraser.storeState,
JE 18.3.12 and 25.3.17.
"""

from __future__ import annotations

import struct

from msgspec import Struct

from je_tools.formats.je.tuples import (
    TupleError,
    TupleReader,
    TupleWriter,
    check_end,
    decode_whole,
    long_key,
    read_ascending,
    read_count,
    sorted_packed_key,
    write_ascending,
)

ERASER_KEY = b"eraser"
"""Key of the eraser's state."""

_SUMMARY_KEY_SIZE = 8

_SEQUENCE_MAX = 0x7FFFFFFF

_HOURS_A_DAY = 24

_RECORD_EXTINCTION, _DATABASE_EXTINCTION = 0, 1


class FileSummaryKey(Struct, frozen=True):
    """The key of a file summary; the newest summary of a file sorts first.

    Attributes:
        sequence: number of entries in the file when the summary was logged; obsolete ones count
            twice.
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
        file_no = decode_whole(key, TupleReader.i64)
        reader = TupleReader(data)
        flags, first, last = reader.byte(), reader.packed(), reader.packed()
        ids = tuple(reader.packed() for _ in read_count(reader))
        check_end(reader)
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
        file_no = decode_whole(key, TupleReader.sorted_packed)
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
        write_ascending(writer.boolean(self.count_complete), self.db_ids)
        for data in (self.begin_key, self.end_key, self.scan_filter):
            writer.packed(len(data)).raw(data)
        writer.string(self.label).packed(self.flushed_db_id)
        writer.packed(len(self.flushed_key)).raw(self.flushed_key)
        return sorted_packed_key(self.scan_id), bytes(writer.data)


def decode_extinction(key: bytes, data: bytes) -> DatabaseExtinction | RecordExtinction:
    """Decode a record of the extinct scans; raise TupleError if it is malformed."""
    scan_id = decode_whole(key, TupleReader.sorted_packed)
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
            db_ids=read_ascending(reader),
            begin_key=reader.take(reader.packed()),
            end_key=reader.take(reader.packed()),
            scan_filter=reader.take(reader.packed()),
            label=reader.string(),
            flushed_db_id=reader.packed(),
            flushed_key=reader.take(reader.packed()),
        )
    else:
        raise TupleError(f"{kind} is no kind of extinction", 0)
    check_end(reader)
    return scan


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
        work, completed, pending = reader.packed(), read_ascending(reader), read_ascending(reader)
        if not reader.left:
            return cls(*times, work, completed, pending, None, None)
        state = cls(*times, work, completed, pending, reader.i32(), reader.i64())
        check_end(reader)
        return state

    def encode(self) -> tuple[bytes, bytes]:
        """Return the bytes of key and data."""
        writer = TupleWriter().i64(self.start_ms).i64(self.end_ms).packed(self.total_work)
        write_ascending(writer, self.completed)
        write_ascending(writer, self.pending)
        if self.version is not None and self.oldest_obsolete_lsn is not None:
            writer.i32(self.version).i64(self.oldest_obsolete_lsn)
        return ERASER_KEY, bytes(writer.data)
