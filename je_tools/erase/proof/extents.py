"""Extents of files: bytes that other files share, and bytes that were allocated but not written.

Source: fiemap in the documentation of the Linux kernel; linux/fiemap.h.
"""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path

from msgspec import Struct

_FIEMAP = 0xC020660B
_HEAD = struct.Struct("<QQIIII")
_EXTENT = struct.Struct("<QQQQQIIII")
_AT_ONCE = 256
_CALLS_MAX = 4_000
"""Largest number of calls for one file, so that a fragmented file of terabytes takes no minutes."""

_LAST, _UNWRITTEN, _SHARED = 0x1, 0x800, 0x2000
_END = (1 << 64) - 1


class Extents(Struct):
    """Sizes of the extents of a file in bytes.

    Attributes:
        shared: bytes that another file or a snapshot has too.
        unwritten: bytes that are allocated and read as zeros: their blocks may hold old content.
    """

    shared: int = 0
    unwritten: int = 0


def extents_of(path: Path) -> Extents | None:
    """Return the extents of a file; None if its file system does not report them."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        return _read(descriptor)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _read(descriptor: int) -> Extents:
    """Return the extents of an open file.

    Raises:
        OSError: the file system does not report them.
    """
    found = Extents()
    at = 0
    for _ in range(_CALLS_MAX):
        buffer = bytearray(_HEAD.size + _AT_ONCE * _EXTENT.size)
        _HEAD.pack_into(buffer, 0, at, _END - at, 0, 0, _AT_ONCE, 0)
        fcntl.ioctl(descriptor, _FIEMAP, buffer)
        count = _HEAD.unpack_from(buffer)[3]
        flags = _LAST
        for i in range(min(count, _AT_ONCE)):
            start, _, size, _, _, flags, *_ = _EXTENT.unpack_from(
                buffer, _HEAD.size + i * _EXTENT.size
            )
            found.shared += size if flags & _SHARED else 0
            found.unwritten += size if flags & _UNWRITTEN else 0
            at = start + size
        if flags & _LAST:
            break
    return found
