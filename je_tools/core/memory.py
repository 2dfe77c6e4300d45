"""Memory that the allocator keeps after it is freed, tuned for large arrays that come and go."""

from __future__ import annotations

import os
import sys
from typing import Any

_KEPT_LITTLE, _KEPT_OF_ARRAYS = 2 << 20, 64 << 20
"""Bytes of freed memory that malloc keeps: in worker processes, and where arrays come and go."""
_KEPT_BETWEEN = 256 << 10
"""Bytes of freed memory that malloc keeps in a process that waits for the results of others."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
"""Options of glibc's mallopt. Source: mallopt(3)."""

_ARROW_POOL = "ARROW_DEFAULT_MEMORY_POOL"
"""Variable with the name of Arrow's pool. Source: memory_pool.cc, Arrow 26.0."""


_own_processes: set[int] = set()
"""Id of this process, if it is ours. A process that was forked from it has another id."""


def own_this_process() -> None:
    """Let this process be tuned for good: it only runs a command or works for one.

    In other processes, such as notebooks and Spark's, only memory that is already free is given
    back to the system.
    """
    _own_processes.add(os.getpid())


def avoid_arrow_pool() -> None:
    """Have Arrow use malloc instead of a pool of its own, and return free memory to the system.

    Arrow is not loaded for this.
    """
    if "pyarrow" in sys.modules and _is_own():
        import pyarrow

        pyarrow.set_memory_pool(pyarrow.system_memory_pool())
    give_back_memory()


def coordinate_in_little_memory() -> None:
    """Load Arrow, have it use malloc, and have that keep one arena for all threads.

    This suits a process that hands out work and reads the results. An arena for each of Arrow's
    threads, and the pool that Arrow's own code uses otherwise, would keep much more than is used.
    If Arrow is already loaded, nothing is done.
    """
    if "pyarrow" in sys.modules or not _is_own():
        # Too late for its pool, or this process does other work too.
        return
    _tune(
        {_M_ARENA_MAX: 1, _M_TRIM_THRESHOLD: _KEPT_BETWEEN, _M_MMAP_THRESHOLD: _KEPT_BETWEEN // 2}
    )
    if _ARROW_POOL in os.environ:
        return
    # Processes that this one starts, such as Spark's, must not inherit it.
    os.environ[_ARROW_POOL] = "system"
    try:
        import pyarrow

        pyarrow.default_memory_pool()
    finally:
        del os.environ[_ARROW_POOL]


def give_back_memory() -> None:
    """Return to the system what threads have freed."""
    give_back = getattr(_library(), "malloc_trim", None)
    if give_back is not None:
        give_back(0)


def keep_freed_memory() -> None:
    """Have malloc keep freed memory.

    This suits arrays of some 100 kB that come and go: a new page costs time, since the system
    clears it.
    """
    _tune({_M_TRIM_THRESHOLD: _KEPT_OF_ARRAYS, _M_MMAP_THRESHOLD: _KEPT_OF_ARRAYS // 2})


def keep_freed_memory_in_one_arena() -> None:
    """Have malloc keep freed memory in one arena for all threads; call it before there are any.

    This suits arrays of megabytes that one thread makes and another frees: an arena for each thread
    would keep more than is used.
    """
    _tune({_M_ARENA_MAX: 1})
    keep_freed_memory()


def keep_little_freed_memory() -> None:
    """Have malloc keep little freed memory; by default its thresholds grow.

    This costs time, so only worker processes do it: there are several of them.
    """
    _tune({_M_TRIM_THRESHOLD: _KEPT_LITTLE, _M_MMAP_THRESHOLD: _KEPT_LITTLE // 2})


def _is_own() -> bool:
    return os.getpid() in _own_processes


def _tune(options: dict[int, int]) -> None:
    """Set options of malloc if this process is ours."""
    library = _library()
    if _is_own() and hasattr(library, "mallopt"):
        for option, value in options.items():
            library.mallopt(option, value)


def _library() -> Any:
    import ctypes

    return ctypes.CDLL(None)
