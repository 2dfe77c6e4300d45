"""Engine that runs the tasks of an audit on Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from je_tools.audit.session import OnProgress, tracked

T = TypeVar("T")
R = TypeVar("R")


class SparkEngine:
    """A Spark that runs, as an engine; see `stages.Engine`."""

    def __init__(self, context: Any, on_progress: OnProgress | None = None) -> None:
        self.context = context
        self.cores = int(context.defaultParallelism)
        self._on_progress = on_progress

    def run(self, work: Callable[[T], R], tasks: Sequence[T]) -> Iterable[R]:
        """Run each task as a task of Spark, which repeats one whose executor is lost."""
        if not tasks:
            return []
        with tracked(self.context, self._on_progress):
            found: list[R] = self.context.parallelize(tasks, len(tasks)).map(work).collect()
        return found
