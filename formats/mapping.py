"""mmap(2) at a place of one's own choice, which Python's module of that name does not offer.

Source: mmap(2), Linux.
"""

from __future__ import annotations

import ctypes
import mmap

MAP_FIXED, MAP_NORESERVE = 0x10, 0x4000
PROT_NONE = 0
NO_FILE = -1

ANONYMOUS = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE
"""Zeros, which take no memory before they are written to."""

# Looked up at once: a handler of signals maps too.
_LIBC = ctypes.CDLL(None, use_errno=True)
_MMAP, _MUNMAP, _MPROTECT = _LIBC.mmap, _LIBC.munmap, _LIBC.mprotect
_MMAP.restype = ctypes.c_void_p
_MMAP.argtypes = [
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_long,
]
_MUNMAP.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_MPROTECT.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_FAILED = ctypes.c_void_p(-1).value


def map_at(address: int, size: int, protection: int, flags: int, file: int = NO_FILE) -> int | None:
    """Map the beginning of a file, or nothing but memory.

    Args:
        address: where to, in bytes; 0 for wherever there is room.
        size: bytes.
        protection, flags: as for mmap(2).
        file: descriptor.

    Returns:
        The address; None where the system refuses, and then `ctypes.get_errno` tells why.
    """
    found = _MMAP(address, size, protection, flags, file, 0)
    return None if found == _FAILED else int(found or 0)


def unmap(address: int, size: int) -> None:
    """Give bytes back that were mapped."""
    _MUNMAP(address, size)


def protect(address: int, size: int, protection: int) -> bool:
    """Say anew what may be done with bytes that were mapped; False where the system refuses."""
    return bool(_MPROTECT(address, size, protection) == 0)
