"""Pages under a map that cannot be read: taken as zeros and remembered, in place of a death.

A file that becomes shorter under a map, or whose device fails, has no bytes for the pages that are
gone, and the kernel sends a signal that ends the process without a word. Here zeros take the place
of such a page and of all that its file has behind it, in one map, since the system allows a process
only so many; and whoever made the map asks afterwards whether that happened.

Only pages of maps that were made known are looked after. At any other address, or where the signal
was sent by somebody, it goes where it went before: to a handler that the program had, be it one of
Python's or of C (`faulthandler`), or it ends the process. So it does when there is no room for the
zeros. A handler that the program sets later gets all, until another map is made known.

Source: sigaction(2), mmap(2), Linux; the layouts that glibc and musl have on 64-bit machines.
"""

from __future__ import annotations

import ctypes
import mmap
import signal
import threading
from bisect import bisect_right
from collections.abc import Sequence

from msgspec import Struct

from je_tools.formats.mapping import ANONYMOUS, MAP_FIXED, map_at

_CODE_AT, _ADDRESS_AT = 8, 16
"""Where a siginfo_t holds what the signal comes from, above 0 for a fault, and the address that
could not be read."""

_SA_SIGINFO = 4

_Handler = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


class _Action(ctypes.Structure):
    """A `struct sigaction`."""

    _fields_ = (
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_uint64 * 16),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    )


class Guarded(Struct, eq=False):
    """A stretch of address space with maps of files.

    Attributes:
        start, size: of the stretch.
        stops: how far into it the pages of each file end, ascending.
        torn_at: how far into it a page was that could not be read; -1 where all could.
    """

    start: int
    size: int
    stops: Sequence[int]
    torn_at: int = -1


_GUARDED: list[Guarded] = []
_LOCK = threading.Lock()


def guard(start: int, size: int, stops: Sequence[int]) -> Guarded:
    """Look after the pages of a stretch from now on; see `Guarded`."""
    guarded = Guarded(start, size, stops)
    with _LOCK:
        _install()
        _GUARDED.append(guarded)
    return guarded


def forget(guarded: Guarded) -> None:
    """Look after it no longer."""
    with _LOCK:
        _GUARDED.remove(guarded)


def _install() -> None:
    now = _Action()
    _LIBC.sigaction(int(signal.SIGBUS), None, ctypes.byref(now))
    own = ctypes.cast(_HANDLER, ctypes.c_void_p).value
    if now.handler == own:
        return
    _BEFORE[:] = [now]
    action = _Action(own, flags=_SA_SIGINFO)
    _LIBC.sigaction(int(signal.SIGBUS), ctypes.byref(action), None)


def _on_bus_error(_number: int, info: int, _context: int) -> None:
    if ctypes.c_int.from_address(info + _CODE_AT).value <= 0:
        _hand_on()
        # What was sent does not come again by itself.
        _LIBC.raise_(int(signal.SIGBUS))
        return
    address = ctypes.c_uint64.from_address(info + _ADDRESS_AT).value
    for guarded in _GUARDED:
        if guarded.start <= address < guarded.start + guarded.size:
            if not _put_zeros(guarded, address - guarded.start):
                break
            return
    # What could not be read is read again now.
    _hand_on()


def _put_zeros(guarded: Guarded, at: int) -> bool:
    """Zeros for a page and all that its file has behind it; whether there was room."""
    at -= at % mmap.PAGESIZE
    stop = guarded.stops[bisect_right(guarded.stops, at)]
    # Other threads see the zeros as soon as they are there.
    guarded.torn_at = at
    flags = ANONYMOUS | MAP_FIXED
    return map_at(guarded.start + at, stop - at, mmap.PROT_READ, flags) is not None


def _hand_on() -> None:
    """Leave the signal to whom it went before; the second time it ends the process."""
    action = _BEFORE.pop() if _BEFORE else _Action()
    _LIBC.sigaction(int(signal.SIGBUS), ctypes.byref(action), None)


class _Libc:
    """What is called of the C library, looked up before anything has gone wrong."""

    def __init__(self) -> None:
        library = ctypes.CDLL(None, use_errno=True)
        self.sigaction = library.sigaction
        self.raise_ = getattr(library, "raise")


_LIBC = _Libc()
_HANDLER = _Handler(_on_bus_error)
_BEFORE: list[_Action] = []
"""The action that was there before this one, while it has not been handed on to."""
