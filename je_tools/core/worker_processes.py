"""Worker processes, for work that Python's global lock would put in a queue."""

from __future__ import annotations

import functools
import multiprocessing
import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

from je_tools.core.memory import give_back_at_once, keep_little_memory

P = ParamSpec("P")
T = TypeVar("T")

PROCESSES_FROM = 64 << 20
"""Bytes of a log from which on workers are worth their start."""

_PRELOADED = [
    "je_tools.output.encoders.entry_batches",
    "je_tools.output.encoders.entry_csv",
    "pyarrow.compute",
    "arro3.io",
]
"""What workers share with the process that forks them, and find loaded."""


_SAFE_PATH = "PYTHONSAFEPATH"

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


def _begin(what: Any) -> None:
    # Where workers are not forked, Ctrl-C can come as early as here; see _without_ctrl_c.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A pool of which one worker was killed ends the others by SIGTERM, and waits for them. They
    # would ignore it where the parent of all does.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # The parent has said it once.
    warnings.simplefilter("ignore")
    give_back_at_once()
    keep_little_memory()
    _told.append(what)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
