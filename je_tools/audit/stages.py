"""Stages of an audit: the tasks of each in any order, one stage after the other, on any engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from je_tools.audit.plan import plan_fleet
from je_tools.audit.task_data import JudgeTask, Opened, SliceTask, Written

if TYPE_CHECKING:
    from je_tools.audit.discover import Fleet, FoundEnvironment
    from je_tools.audit.tasks import AuditTasks

T = TypeVar("T")
R = TypeVar("R")


class Engine(Protocol):
    """Runs tasks in parallel."""

    cores: int

    def run(self, work: Callable[[T], R], tasks: Sequence[T]) -> Iterable[R]:
        """Return the result of each task, in any order; `work`, tasks and results must pickle."""
        ...


def run_stages(engine: Engine, fleet: Fleet, work: AuditTasks) -> Written:
    """Scan and judge all environments; return the finished files of all tables.

    Args:
        engine: runs the tasks.
        fleet: what is audited.
        work: folders of the run.
    """
    plan = plan_fleet(fleet, engine.cores)
    written = work.stage_problems(fleet.problems)
    # Large environments first: their slices wait for them.
    first: list[Any] = [*plan.large, *plan.small]
    opened: list[Opened] = []
    for result in engine.run(partial(_first, work, plan.share), first):
        if isinstance(result, Opened):
            opened.append(result)
        else:
            written += result
    slices = [SliceTask(each, i) for each in opened for i in range(each.slice_count)]
    scanned: dict[str, dict[int, str]] = {each.found.name: {} for each in opened}
    for done in engine.run(work.scan_slice, slices):
        scanned[done.name][done.number] = done.path
        written += done.written
    tasks = [
        JudgeTask(each, tuple(path for _, path in sorted(scanned[each.found.name].items())))
        for each in opened
    ]
    for files in engine.run(work.judge_large, tasks):
        written += files
    return written


def _first(
    work: AuditTasks, share: int, task: FoundEnvironment | tuple[FoundEnvironment, ...]
) -> Opened | Written:
    """Open and cut a large environment, or audit some small ones."""
    return work.audit_small(task) if isinstance(task, tuple) else work.open_large(task, share)
