"""Engine that runs the tasks of an audit in processes of this machine, without Java."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from je_tools.audit.daemon import LOADED
from je_tools.core.worker_processes import open_workers, prepare_workers
from je_tools.errors import StoppedError

T = TypeVar("T")
R = TypeVar("R")

TRIES = 4
"""Tries for each task whose process is killed, as Spark has them."""


class LocalEngine:
    """Processes of this machine, as an engine; see `stages.Engine`."""

    def __init__(
        self, cores: int | None = None, on_progress: Callable[[int, int], None] | None = None
    ) -> None:
        self.cores = cores or len(os.sched_getaffinity(0))
        self._on_progress = on_progress or (lambda _done, _total: None)
        prepare_workers(LOADED)

    def run(self, work: Callable[[T], R], tasks: Sequence[T]) -> Iterator[R]:
        """Yield results as they come; a task whose process is killed is tried again.

        Raises:
            StoppedError: the process of a task was killed each time.
        """
        left = dict(enumerate(tasks))
        for attempt in range(TRIES):
            # A task that kills its process must not take others with it again and again.
            count = min(self.cores if attempt == 0 else 1, len(left))
            try:
                for number, result in self._tried(work, left, count):
                    del left[number]
                    self._on_progress(len(tasks) - len(left), len(tasks))
                    yield result
            except BrokenProcessPool:
                continue
            return
        raise StoppedError("a process that read logs was killed, perhaps for lack of memory")

    def _tried(
        self, work: Callable[[T], R], left: dict[int, T], count: int
    ) -> Iterator[tuple[int, R]]:
        if not left:
            return
        with open_workers(count, None) as pool:
            waiting = {pool.submit(work, task): number for number, task in left.items()}
            for done in as_completed(waiting):
                yield waiting[done], done.result()
