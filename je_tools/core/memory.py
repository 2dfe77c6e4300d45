"""Memory that the allocator keeps after it is freed, tuned for large arrays that come and go."""

from __future__ import annotations

import ctypes
import os
import sys

_KEPT_FREE, _KEPT_OF_ARRAYS = 2 << 20, 64 << 20
_KEPT_BETWEEN = 256 << 10
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
"""Options of glibc's mallopt. Source: mallopt(3)."""

_ARROW_POOL = "ARROW_DEFAULT_MEMORY_POOL"
"""Variable with the name of Arrow's pool. Source: memory_pool.cc, Arrow 26.0."""


def keep_little_memory() -> None:
    """Return free memory to the system, and have Arrow use malloc instead of a pool of its own.

    This does not load Arrow.
    """
    if "pyarrow" in sys.modules:
        import pyarrow

        pyarrow.set_memory_pool(pyarrow.system_memory_pool())
    give_back_memory()


def coordinate_in_little_memory() -> None:
    """Have malloc keep one arena for all threads, and Arrow use it; do nothing if it is loaded.

    This suits a process that hands out work and reads the results. An arena for each of Arrow's
    threads, and the pool that Arrow's own code takes otherwise, would keep much more than is used.
    """
    if "pyarrow" in sys.modules:
        # Too late for its pool: this process does other work too.
        return
    os.environ.setdefault(_ARROW_POOL, "system")
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(_M_ARENA_MAX, 1)
        library.mallopt(_M_TRIM_THRESHOLD, _KEPT_BETWEEN)
        library.mallopt(_M_MMAP_THRESHOLD, _KEPT_BETWEEN // 2)


def give_back_memory() -> None:
    """Return to the system what threads have freed."""
    give_back = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if give_back is not None:
        give_back(0)


def keep_freed_memory() -> None:
    """Have malloc keep freed memory.

    This suits arrays of some 100 kB that come and go: the system must clear the pages of a new one.
    """
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(_M_TRIM_THRESHOLD, _KEPT_OF_ARRAYS)
        library.mallopt(_M_MMAP_THRESHOLD, _KEPT_OF_ARRAYS // 2)


def use_memory_again() -> None:
    """Have malloc keep freed memory in one arena for all threads; call it before there are any.

    This suits arrays of megabytes that one thread makes and another frees: an arena for each thread
    would keep more than is used.
    """
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(_M_ARENA_MAX, 1)
    keep_freed_memory()


def give_back_at_once() -> None:
    """Have malloc keep little freed memory; by default its thresholds grow.

    This costs time, so only worker processes do it: there are several of them.
    """
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(_M_TRIM_THRESHOLD, _KEPT_FREE)
        library.mallopt(_M_MMAP_THRESHOLD, _KEPT_FREE // 2)
