"""Log files with known entries, written from the format page without the project's tables.

| offset | size | field |
|---|---|---|
| 0 | 4 | Adler-32 of the rest, the invisible bit clear |
| 4 | 1 | type |
| 5 | 1 | flags |
| 6 | 4 | offset of the entry before, in the same file |
| 10 | 4 | item size |
| 14 | 8 | VLSN if flags & 0x28 |
"""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

FILE_HEADER, TRACE, CKPT_START, CKPT_END, UPD_LN = 25, 24, 19, 20, 36
ROLLBACK_START, RESTORE_REQUIRED, ERASED, OLD_DELTA, FILE_SUMMARY = 28, 39, 43, 22, 11
REPLICATED, INVISIBLE, VLSN_PRESENT = 0x20, 0x10, 0x08
CREATED_MS = 1_700_000_000_000


class Placed(NamedTuple):
    """Start and end of an entry."""

    start: int
    stop: int


def packed(value: int) -> bytes:
    """Encode a packed number: itself up to 119, else a length byte and the rest, little-endian."""
    if abs(value) <= 119:
        return struct.pack("b", value)
    rest = abs(value) - 119
    size = (rest.bit_length() + 7) // 8
    return struct.pack("b", 119 + size if value > 0 else -119 - size) + rest.to_bytes(
        size, "little"
    )


def text(value: str) -> bytes:
    """Encode a packed length and UTF-8."""
    return packed(len(value.encode())) + value.encode()


def entry(
    type_no: int, item: bytes, prev: int, *, flags: int = 0, vlsn: int | None = None
) -> bytes:
    """Return one entry with its header and a valid checksum."""
    if vlsn is not None:
        flags |= REPLICATED | VLSN_PRESENT if flags & VLSN_PRESENT == 0 else 0
    head = struct.pack("<BBIi", type_no, flags, prev, len(item))
    head += b"" if vlsn is None else struct.pack("<q", vlsn)
    summed = bytes([type_no, flags & ~INVISIBLE]) + head[2:] + item
    return struct.pack("<I", zlib.adler32(summed)) + head + item


@dataclass
class LogFile:
    """A log file that grows at its end.

    Attributes:
        no: file number.
        version: log version in its header.
        last_before: offset of the last entry of the file before it.
        created_ms: creation time in its header.
        data: its bytes.
        placed: its entries, the file header first.
    """

    no: int = 0
    version: int = 17
    last_before: int = 0
    created_ms: int = CREATED_MS
    data: bytearray = field(default_factory=bytearray)
    placed: list[Placed] = field(default_factory=list)

    def __post_init__(self) -> None:
        item = struct.pack("<qIqi", self.created_ms, self.no, self.last_before, self.version)
        self._append(entry(FILE_HEADER, item, 0))

    @property
    def name(self) -> str:
        return f"{self.no:08x}.jdb"

    @property
    def last(self) -> int:
        """Offset of the last entry."""
        return self.placed[-1].start

    def add(self, type_no: int, item: bytes, *, flags: int = 0, vlsn: int | None = None) -> Placed:
        """Append an entry."""
        return self._append(entry(type_no, item, self.last, flags=flags, vlsn=vlsn))

    def trace(self, size: int, *, vlsn: int | None = None) -> Placed:
        """Append a Trace whose item has `size` bytes, not all zero."""
        body = random.Random(f"{self.no}/{len(self.data)}").randbytes(max(size - 9, 0))
        stamp = b"\x7d" + struct.pack("<Q", CREATED_MS)[:6]
        return self.add(TRACE, (stamp + packed(len(body)) + body)[: max(size, 1)], vlsn=vlsn)

    def follower(self, version: int | None = None) -> LogFile:
        """Return the next file with only a header; of the same log version unless one is given."""
        return LogFile(self.no + 1, version or self.version, self.last)

    def _append(self, data: bytes) -> Placed:
        place = Placed(len(self.data), len(self.data) + len(data))
        self.data += data
        self.placed.append(place)
        return place


def write_log(folder: Path, files: Sequence[LogFile]) -> Path:
    """Write the files into a new folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in files:
        (folder / file.name).write_bytes(file.data)
    return folder


def random_log(rng: random.Random, files: int, entries: int, *, version: int = 17) -> list[LogFile]:
    """Return files of traces of many sizes, some much longer than others."""
    made = [LogFile(rng.randrange(3), version)]
    for i in range(files):
        if i:
            made.append(made[-1].follower())
        for _ in range(entries):
            size = rng.choice([1, 10, 30, 60, 100, 300, 700])
            made[-1].trace(rng.randrange(size, 2 * size), vlsn=None)
        if rng.random() < 0.3:
            made[-1].trace(rng.randrange(2000, 9000))
    return made


def placed_in(data: bytes, version: int) -> list[Placed]:
    """Return the places of an undamaged log file's entries, found by their headers alone.

    A last entry that is cut off is left out.
    """
    places = []
    at = 0
    while at + 14 <= len(data):
        type_no, flags, _, size = struct.unpack_from("<BBIi", data, at + 4)
        assert size >= 0
        with_vlsn = type_no != FILE_HEADER and flags & (0x28 if version >= 8 else 0x20)
        stop = at + (22 if with_vlsn else 14) + size
        if stop > len(data):
            break
        places.append(Placed(at, stop))
        at = stop
    return places
