"""What malloc does with memory that is free."""

from __future__ import annotations

import ctypes
import sys

_KEPT_FREE, _KEPT_OF_ARRAYS = 2 << 20, 64 << 20
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
"""Options of glibc's mallopt. Source: mallopt(3)."""


def keep_little_memory() -> None:
    """Give back what is free, and have Arrow do so: its own pool keeps what it once had.

    Arrow is not loaded for that.
    """
    if "pyarrow" in sys.modules:
        import pyarrow

        pyarrow.set_memory_pool(pyarrow.system_memory_pool())
    give_back_memory()


def give_back_memory() -> None:
    """Give back what threads have freed, and malloc keeps for them."""
    give_back = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if give_back is not None:
        give_back(0)


def keep_freed_memory() -> None:
    """Have malloc keep what is freed.

    For work with arrays of some 100 kB, which come and go: else each is of pages that the system
    has to clear first.
    """
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(_M_TRIM_THRESHOLD, _KEPT_OF_ARRAYS)
        library.mallopt(_M_MMAP_THRESHOLD, _KEPT_OF_ARRAYS // 2)


def use_memory_again() -> None:
    """As `keep_freed_memory`, in one place for all threads, before there are any.

    For arrays of megabytes that one thread makes and another frees: places of their own for
    threads would keep more than is used.
    """
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(_M_ARENA_MAX, 1)
    keep_freed_memory()


def give_back_at_once() -> None:
    """Have malloc keep little of what is freed; its thresholds else grow by themselves.

    It costs time, so that only workers do it, of which there are several.
    """
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(_M_TRIM_THRESHOLD, _KEPT_FREE)
        library.mallopt(_M_MMAP_THRESHOLD, _KEPT_FREE // 2)
