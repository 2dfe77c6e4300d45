"""Worker processes, for work that Python's global lock would put in a queue."""

from __future__ import annotations

import ctypes
import functools
import multiprocessing
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

PROCESSES_FROM = 64 << 20
"""Bytes of a log from which on workers are worth their start."""

_PRELOADED = [
    "je_tools.formats.machine",
    "je_tools.sinks.batches",
    "je_tools.sinks.csvs",
    "pyarrow.compute",
    "arro3.io",
]
"""What workers share with the process that forks them, and find loaded."""


_SAFE_PATH = "PYTHONSAFEPATH"

_KEPT_FREE, _KEPT_OF_ARRAYS = 2 << 20, 64 << 20
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
"""Options of glibc's mallopt. Source: mallopt(3)."""

_told: list[Any] = []
"""What this process was told, when it is a worker."""


def open_workers(count: int, what: Any) -> ProcessPoolExecutor:
    """`count` processes that are each told `what` once, and find it in `told` from then on.

    They end with the process that opened them, however that ends. `what` and what is submitted
    must pickle. A worker that dies makes the results `BrokenProcessPool`.
    """
    expect_workers()
    return _Workers(count, mp_context=_context(), initializer=_begin, initargs=(what,))


def told() -> Any:
    """In a worker, what it was told."""
    return _told[0]


def expect_workers() -> None:
    """Begin to load what workers need, while this process goes on with something else."""
    if _context().get_start_method() == "forkserver":
        from multiprocessing import forkserver, resource_tracker

        with _without_what_lies_here():
            # It starts with the fork server and would let SIGINT through again.
            resource_tracker.ensure_running()
            with _without_ctrl_c():
                forkserver.ensure_running()


@contextmanager
def _without_what_lies_here() -> Iterator[None]:
    """Processes started meanwhile load no module from the folder in which the user stands.

    That may be one of evidence, with files of any name. Source: Python, PYTHONSAFEPATH.
    """
    before = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_SAFE_PATH]
        else:
            os.environ[_SAFE_PATH] = before


@contextmanager
def _without_ctrl_c() -> Iterator[None]:
    """Processes started meanwhile never get SIGINT, nor do theirs: it stays blocked in them.

    Ctrl-C reaches every process of the terminal; the parent is the one to answer it.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@functools.cache
def _context() -> Any:
    """A server that has the modules loaded and forks in milliseconds, where there can be one.

    Unlike this process it has no threads whose locks a fork would copy.
    """
    known = multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if "forkserver" in known else "spawn")
    context.set_forkserver_preload(_PRELOADED)
    return context


class _Workers(ProcessPoolExecutor):
    """Starts each process whole: one that is cut short would complain to the terminal."""

    def submit(self, work: Callable[P, T], /, *arguments: P.args, **named: P.kwargs) -> Future[T]:
        try:
            with _without_ctrl_c():
                return super().submit(work, *arguments, **named)
        except (ConnectionError, EOFError) as error:
            raise BrokenProcessPool("a worker process ended while it was started") from error


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


def _give_back_at_once() -> None:
    """Have malloc keep little of what is freed; its thresholds else grow by themselves.

    It costs time, so that only workers do it, of which there are several.
    """
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(_M_TRIM_THRESHOLD, _KEPT_FREE)
        library.mallopt(_M_MMAP_THRESHOLD, _KEPT_FREE // 2)


def _begin(what: Any) -> None:
    # Where workers are not forked, Ctrl-C can come as early as here; see _without_ctrl_c.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # The parent has said it once.
    warnings.simplefilter("ignore")
    _give_back_at_once()
    keep_little_memory()
    _told.append(what)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
