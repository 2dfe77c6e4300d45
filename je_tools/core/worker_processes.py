"""Worker processes, for work that is mostly Python and would wait for its global lock."""

from __future__ import annotations

import functools
import multiprocessing
import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from je_tools.core.memory import avoid_arrow_pool, keep_little_freed_memory, own_this_process

P = ParamSpec("P")
T = TypeVar("T")

PROCESSES_FROM = 64 << 20
"""Smallest log, in bytes, for which starting workers pays."""

_PRELOADED = (
    "je_tools.output.encoders.entry_batches",
    "je_tools.output.encoders.entry_csv",
    "pyarrow.compute",
    "arro3.io",
)
"""Modules that workers of `dump` need."""


_SAFE_PATH = "PYTHONSAFEPATH"

_inputs: list[Any] = []
"""In a worker, the argument `shared` of `open_workers`."""


def open_workers(count: int, shared: Any) -> ProcessPoolExecutor:
    """Return a pool of `count` processes, each of which gets `shared` once, from `worker_input`.

    They end with the process that opened them, however that ends. `shared` and all submitted work
    must pickle. If a worker dies, the results raise `BrokenProcessPool`.
    """
    prepare_workers()
    return _Workers(count, mp_context=_context(), initializer=_begin, initargs=(shared,))


def worker_input() -> Any:
    """Return, in a worker, the argument `shared` of `open_workers`."""
    return _inputs[0]


def prepare_workers(preloaded: Sequence[str] = _PRELOADED) -> None:
    """Start the fork server, which loads what workers need while this process does other work.

    Args:
        preloaded: modules that the fork server loads once, and all workers share. A server that
            runs keeps its own.
    """
    if _context().get_start_method() == "forkserver":
        _context().set_forkserver_preload(list(preloaded))
        from multiprocessing import forkserver, resource_tracker

        with _without_current_directory():
            # It starts with the fork server and would let SIGINT through again.
            resource_tracker.ensure_running()
            with _without_ctrl_c():
                forkserver.ensure_running()


@contextmanager
def _without_current_directory() -> Iterator[None]:
    """Keep processes started meanwhile from loading modules out of the current directory.

    It may hold evidence, with files of any name. Source: Python, PYTHONSAFEPATH.
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
    """Block SIGINT in processes started meanwhile, and in those that they start.

    Ctrl-C reaches every process of the terminal; the parent is the one to answer it.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@functools.cache
def _context() -> Any:
    """Return the context of a fork server if the system has one, else of spawned processes.

    The server has the modules loaded and forks in milliseconds. Unlike this process it has no
    threads, whose locks a fork would copy.
    """
    known = multiprocessing.get_all_start_methods()
    return multiprocessing.get_context("forkserver" if "forkserver" in known else "spawn")


class _Workers(ProcessPoolExecutor):
    """A pool that SIGINT cannot interrupt while it starts a process, which would print an error."""

    def submit(self, work: Callable[P, T], /, *arguments: P.args, **named: P.kwargs) -> Future[T]:
        try:
            with _without_ctrl_c():
                return super().submit(work, *arguments, **named)
        except (ConnectionError, EOFError) as error:
            raise BrokenProcessPool("a worker process ended while it was started") from error

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        """Kill all workers if their results are not wanted any more; then wait for them.

        If a worker dies, ProcessPoolExecutor terminates the others. It misses one that starts at
        this moment, which then waits for ever to send a result that no one reads. The error that
        ends the block is then whatever the caller made of `BrokenProcessPool`.
        """
        if isinstance(error, Exception):
            for each in multiprocessing.active_children():
                each.kill()
        return super().__exit__(kind, error, trace)


def _begin(shared: Any) -> None:
    # If workers are not forked, Ctrl-C can come as early as here; see _without_ctrl_c.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # The parent has shown warnings already.
    warnings.simplefilter("ignore")
    own_this_process()
    keep_little_freed_memory()
    avoid_arrow_pool()
    _inputs.append(shared)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
