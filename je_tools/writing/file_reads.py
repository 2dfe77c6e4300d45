"""Reads of spans of log files, optionally from the device instead of the system's cache."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from je_tools.writing.checksums import crc32c
from je_tools.writing.frames import BLOB_MAX
from je_tools.writing.refusing import changed_since


def sum_of(path: Path, size: int) -> int:
    """Return the CRC-32C of the first `size` bytes of a file, or of all of it if it is shorter."""
    checksum = 0
    for at in range(0, size, BLOB_MAX):
        checksum = crc32c(read_at(path, at, min(BLOB_MAX, size - at)), checksum)
    return checksum


def read_at(path: Path, offset: int, size: int, *, fresh: bool = False) -> bytes:
    """Read bytes of a file, fewer at its end.

    Args:
        path: path of the file.
        offset, size: span to read, in bytes.
        fresh: True to drop the system's cache of the span first, if possible.

    Raises:
        OSError: the file cannot be read.
    """
    number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if fresh:
            os.posix_fadvise(number, offset, size, os.POSIX_FADV_DONTNEED)
        parts = []
        while size:
            part = os.pread(number, size, offset)
            if not part:
                break
            parts.append(part)
            offset += len(part)
            size -= len(part)
        return b"".join(parts)
    finally:
        os.close(number)


def read_pieces(path: Path, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
    """Yield the bytes [start, stop) of a file in pieces, each with its offset.

    Raises:
        RefusedError: the file has become shorter.
        OSError: it cannot be read.
    """
    for at in range(start, stop, BLOB_MAX):
        data = read_at(path, at, min(BLOB_MAX, stop - at))
        if len(data) < min(BLOB_MAX, stop - at):
            raise changed_since(path, "became shorter")
        yield at, data
