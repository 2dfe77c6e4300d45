"""Pages under a map that cannot be read: taken as zeros and remembered, in place of a death.

A file that becomes shorter under a map, or whose device fails, has no bytes for the pages that are
gone, and the kernel sends a signal that ends the process without a word. Here a page of zeros takes
the place of such a page, and whoever made the map asks afterwards whether that happened.

Only pages of maps that were made known are looked after; at any other address the signal ends the
process as ever. Nothing is done where the program handles the signal itself.

Source: sigaction(2), mmap(2), Linux; the layouts that glibc and musl have on 64-bit machines.
"""

from __future__ import annotations

import ctypes
import mmap
import signal
import threading
from dataclasses import dataclass
from typing import Any

_ADDRESS_AT = 16
"""Where a siginfo_t holds the address that could not be read."""

_SA_SIGINFO = 4
_MAP_FIXED = 0x10

_Handler = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


class _Action(ctypes.Structure):
    """A `struct sigaction`."""

    _fields_ = (
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_uint64 * 16),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    )


@dataclass(eq=False)
class Guarded:
    """A stretch of address space with maps of files.

    Attributes:
        start, size: of the stretch.
        torn_at: how far into it a page was that could not be read; -1 where all could.
    """

    start: int
    size: int
    torn_at: int = -1


_GUARDED: list[Guarded] = []
_LOCK = threading.Lock()


def guard(start: int, size: int) -> Guarded:
    """Look after the pages of a stretch from now on."""
    guarded = Guarded(start, size)
    with _LOCK:
        _install()
        _GUARDED.append(guarded)
    return guarded


def forget(guarded: Guarded) -> None:
    """Look after it no longer."""
    with _LOCK:
        _GUARDED.remove(guarded)


def _install() -> None:
    if signal.getsignal(signal.SIGBUS) is not signal.SIG_DFL or _HANDLER_IS_SET.is_set():
        return
    _HANDLER_IS_SET.set()
    action = _Action(ctypes.cast(_HANDLER, ctypes.c_void_p).value, flags=_SA_SIGINFO)
    _libc().sigaction(int(signal.SIGBUS), ctypes.byref(action), None)


def _on_bus_error(_number: int, info: int, _context: int) -> None:
    address = ctypes.c_uint64.from_address(info + _ADDRESS_AT).value
    for guarded in _GUARDED:
        if guarded.start <= address < guarded.start + guarded.size:
            page = address - address % mmap.PAGESIZE
            flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_FIXED
            _MMAP(page, mmap.PAGESIZE, mmap.PROT_READ, flags, -1, 0)
            guarded.torn_at = page - guarded.start
            return
    # What is read again now ends the process.
    _libc().sigaction(int(signal.SIGBUS), ctypes.byref(_Action()), None)


def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


_HANDLER_IS_SET = threading.Event()
_HANDLER = _Handler(_on_bus_error)
_MMAP = ctypes.CDLL(None).mmap
_MMAP.restype = ctypes.c_void_p
_MMAP.argtypes = [
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_long,
]
