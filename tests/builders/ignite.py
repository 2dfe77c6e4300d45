"""Segments of Ignite's write-ahead log, made byte by byte."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from je_tools.formats.ignite.types import NUMBERS

_MAGIC = 0xB0D045ACE7ED045A
_COMPACTED = 0x4E07AE0E573A694E
_NEAR = (1, 5, 6, 7)

Record = tuple[str, bytes]
"""Name of a type, and a payload."""


def checksum(data: bytes) -> int:
    """Return the engine's checksum."""
    return zlib.crc32(data) ^ 0xFFFFFFFF


def header(index: int, *, order: str = "<", compacted: bool = False, serializer: int = 2) -> bytes:
    """Return the first record of a segment."""
    magic = _COMPACTED if compacted else _MAGIC
    start = struct.pack(f"{order}BqiQi", 5, index, 0, magic, serializer)
    return start + struct.pack(f"{order}I", checksum(start))


def record(name: str, payload: bytes, index: int, offset: int, order: str = "<") -> bytes:
    """Return a record at an offset of a segment."""
    start = struct.pack(f"{order}BqiI", NUMBERS[name] + 1, index, offset, len(payload) + 21)
    return start + payload + struct.pack(f"{order}I", checksum(start + payload))


def segment(
    index: int, records: Sequence[Record], *, order: str = "<", end: bytes = b"\x29"
) -> tuple[bytes, list[int]]:
    """Return a segment that ends with `end`, and the offsets of its records."""
    data, offsets = header(index, order=order), []
    for name, payload in records:
        offsets.append(len(data))
        data += record(name, payload, index, len(data), order)
    return data + end, offsets


def string(text: bytes) -> bytes:
    """Return a string as a value of a cache."""
    return b"\x09" + struct.pack("<i", len(text)) + text


def data_payload(
    key: bytes, value: bytes | None, *, time_ms: int = 1000, order: str = "<"
) -> bytes:
    """Return the payload of a DATA_RECORD_V2 with one entry of cache 9."""
    out = struct.pack(f"{order}iq", 1, time_ms)
    out += struct.pack(f"{order}iiB", 9, len(key), 1) + key
    out += struct.pack(f"{order}i", -1) if value is None else b""
    if value is not None:
        out += struct.pack(f"{order}iB", len(value), 1) + value
    version = struct.pack(f"{order}Biiq", *_NEAR)
    return out + b"\x02" + version * 2 + struct.pack(f"{order}iqqB", 3, 4, 0, 1)


class Entry(NamedTuple):
    """One update of a key; its transaction is its near version's order, 0 for none."""

    key: bytes
    value: bytes | None
    near: int = 0
    counter: int = 1
    op: int = 2
    cache: int = 9
    partition: int = 3

    def record(self) -> Record:
        """Return a DATA_RECORD_V2 with this entry."""
        out = struct.pack("<iq", 1, 1000)
        out += struct.pack("<iiB", self.cache, len(self.key), 1) + self.key
        value = self.value
        out += struct.pack("<i", -1) if value is None else b""
        out += b"" if value is None else struct.pack("<iB", len(value), 1) + value
        near = struct.pack("<Biiq", 1, 5, 6, self.near) if self.near else b"\0"
        out += bytes([self.op]) + near + struct.pack("<Biiq", 1, 5, 6, 100 + self.counter)
        return "DATA_RECORD_V2", out + struct.pack("<iqqB", self.partition, self.counter, 0, 1)


def tx_record(state: int, near: int) -> Record:
    """Return a TX_RECORD of the transaction of entries."""
    version = struct.pack("<Biiq", 1, 5, 6, near)
    return "TX_RECORD", bytes([state]) + version * 2 + struct.pack("<iq", 0, 1000)


def metastore_record(key: bytes, value: bytes) -> Record:
    """Return a METASTORE_DATA_RECORD; an empty value removes the key."""
    parts = struct.pack("<i", len(key)) + key + struct.pack("<i", len(value)) + value
    return "METASTORE_DATA_RECORD", parts


def state_record(partition: int, state: int, group: int) -> Record:
    """Return a PART_META_UPDATE_STATE."""
    return "PART_META_UPDATE_STATE", struct.pack("<iiBq", group, partition, state, 5)


def recovery_payload(time_ms: int, order: str = "<") -> bytes:
    """Return the payload of a MEMORY_RECOVERY."""
    return struct.pack(f"{order}q", time_ms)


def write_store(root: Path, archive: Sequence[bytes], work: Sequence[bytes]) -> Path:
    """Write a work directory of one node, whose archive begins at segment 0."""
    folders = (root / "db" / "wal" / "archive" / "node1", root / "db" / "wal" / "node1")
    for folder, segments in zip(folders, (archive, work), strict=True):
        folder.mkdir(parents=True)
        for number, data in enumerate(segments):
            (folder / f"{number:016}.wal").write_bytes(data)
    (root / "db" / "node1" / "cp").mkdir(parents=True)
    return root


def write_damaged_store(root: Path) -> Path:
    """Write a store with a record damaged in the archive only, and a segment that is missing."""
    records = [
        ("MEMORY_RECOVERY", recovery_payload(1_795_218_457_000)),
        *(("DATA_RECORD_V2", data_payload(b"key", bytes(n))) for n in range(4)),
    ]
    first, offsets = segment(0, records)
    damaged = bytearray(first)
    damaged[offsets[2] + 40] ^= 1
    last, _ = segment(2, records, end=bytes(60))
    return write_store(root, [bytes(damaged)], [first + bytes(30), last])


def checkpoint_payload(
    checkpoint: UUID,
    counters: dict[int, int],
    *,
    mark: tuple[int, int, int] | None = None,
    order: str = "<",
) -> bytes:
    """Return the payload of a CHECKPOINT_RECORD: group 9 with a counter for each partition."""
    high, low = checkpoint.int >> 64, checkpoint.int & (1 << 64) - 1
    out = struct.pack(f"{order}QQB", high, low, mark is not None)
    out += struct.pack(f"{order}qii", *mark) if mark is not None else b""
    out += struct.pack(f"{order}HiH", 1, 9, len(counters))
    for partition, counter in counters.items():
        out += struct.pack(f"{order}HqqB", partition, counter * 2, counter, 1)
    return out + b"\0"


def write_marker(
    store: Path,
    time_ms: int,
    checkpoint: UUID,
    kind: str,
    pointer: tuple[int, int, int],
    order: str = "<",
) -> Path:
    """Write a marker of the node of `write_store`."""
    path = store / "db" / "node1" / "cp" / f"{time_ms}-{checkpoint}-{kind}.bin"
    path.write_bytes(struct.pack(f"{order}qii", *pointer))
    return path


CHECKPOINTS = tuple(UUID(int=n) for n in (1, 2, 3))
CHECKPOINT_TIMES = tuple(1_795_218_457_000 + 60_000 * n for n in range(3))


def write_checkpointed_store(root: Path, order: str = "<") -> list[tuple[int, int, int]]:
    """Write a store with a checkpoint in each of three segments; return the pointers to them.

    All have a begin, and all but the last an end. The third is in the work ring.
    """
    segments, pointers = [], []
    for n, checkpoint in enumerate(CHECKPOINTS):
        payload = checkpoint_payload(checkpoint, {0: 10 * n, 1: 5 * n}, order=order)
        records = [("DATA_RECORD_V2", data_payload(b"k", b"v", order=order))] * 2
        records.insert(1, ("CHECKPOINT_RECORD", payload))
        data, offsets = segment(n, records, order=order)
        segments.append(data)
        pointers.append((n, offsets[1], len(payload) + 21))
    write_store(root, segments[:2], [segments[2]])
    for n, pointer in enumerate(pointers):
        for kind in ("START", "END")[: 1 if n == 2 else 2]:
            write_marker(root, CHECKPOINT_TIMES[n], CHECKPOINTS[n], kind, pointer, order)
    return pointers


ACCOUNTS = -2137146394
"""Id of the cache `accounts`."""


def tx_payload(state: int, time_ms: int, order: str = "<") -> bytes:
    """Return the payload of a TX_RECORD without nodes."""
    version = struct.pack(f"{order}Biiq", *_NEAR)
    return bytes([state]) + version * 2 + struct.pack(f"{order}iq", 0, time_ms)


def write_exported_store(root: Path, *, is_damaged: bool = False) -> Path:
    """Write a store whose cache `accounts` has records only in the log.

    A transaction is prepared and not committed. The record before the last can be damaged.
    """
    entries = [
        Entry(string(b"alice"), b"\x03\x05\0\0\0", counter=1, cache=ACCOUNTS),
        Entry(string(b"bob"), string(b"old"), counter=2, cache=ACCOUNTS),
        Entry(string(b"bob"), string(b"new"), counter=3, cache=ACCOUNTS),
        Entry(string(b"carol"), string(b"gone"), counter=4, cache=ACCOUNTS),
        Entry(string(b"carol"), None, counter=5, op=3, cache=ACCOUNTS),
        Entry(string(b"dave"), string(b"open"), near=7, counter=6, cache=ACCOUNTS),
        Entry(string(b"erin"), string(b"last"), counter=1, cache=ACCOUNTS, partition=4),
    ]
    records = [tx_record(2, 7), *(entry.record() for entry in entries)]
    data, offsets = segment(0, records, end=bytes(60))
    damaged = bytearray(data)
    damaged[offsets[-2] + 30] ^= is_damaged
    return _write_cache_store(root, bytes(damaged))


def write_cache_store(root: Path, records: Sequence[Record]) -> Path:
    """Write a store with the cache `accounts`, whose records are only in the log."""
    return _write_cache_store(root, segment(0, records, end=bytes(60))[0])


def _write_cache_store(root: Path, data: bytes) -> Path:
    write_store(root, [], [data])
    folder = root / "db" / "node1" / "cache-accounts"
    folder.mkdir()
    (folder / "cache_data.dat").write_bytes(b"\xac\xed\0\5p")
    return root


def write_dumped_store(root: Path) -> Path:
    """Write a store with entries of cache 9, a transaction, and a page of the cache `accounts`."""
    page = struct.pack("<iQQ", ACCOUNTS, 0x0001_0005_0000_0002, 0x0001_0005_0000_0007)
    first, _ = segment(
        0,
        [
            ("DATA_RECORD_V2", data_payload(b"one", b"1")),
            ("PAGES_LIST_ADD_PAGE", page),
            ("TX_RECORD", tx_payload(5, 2000)),
            ("DATA_RECORD_V2", data_payload(b"one", b"2")),
        ],
    )
    last, _ = segment(1, [("DATA_RECORD_V2", data_payload(b"two", None, time_ms=3000))])
    write_store(root, [first], [last + bytes(60)])
    (root / "db" / "node1" / "cache-accounts").mkdir()
    return root
