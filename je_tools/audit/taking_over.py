"""Environments that are unchanged since an earlier run, found before an engine is started.

If all are unchanged, no engine is started: Spark takes longer to start than this check.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from je_tools.audit.local_engine import LocalEngine
from je_tools.core.shares import TASKS_PER_CORE, share_of, shares_of
from je_tools.formats.files.remote_path import RemotePath

if TYPE_CHECKING:
    from collections.abc import Callable

    from je_tools.audit.discover import Fleet, FoundEnvironment
    from je_tools.audit.task_data import TakenOver, Written
    from je_tools.audit.tasks import AuditTasks

HERE_MAX = 64
"""Largest number of environments that this process compares: more processes take time to start."""

HERE_SIZE = 32 << 30
"""Largest size of their logs, in bytes: what is kept of a log grows with it, and must be read."""


def take_over_unchanged(
    fleet: Fleet, work: AuditTasks, on_progress: Callable[[int, int], None] | None = None
) -> tuple[Written, Fleet]:
    """Take over what is unchanged, in this process or others of this machine.

    Args:
        fleet: what is audited.
        work: tasks of the run.
        on_progress: called with the number of finished tasks and of all.

    Returns:
        Finished files, and the fleet of the environments that are left.
    """
    known = [found for found in fleet.environments if _is_comparable(found, work)]
    if not known:
        return [], fleet
    if len(known) <= HERE_MAX and sum(found.size for found in known) <= HERE_SIZE:
        results = [work.take_over(known)]
    else:
        results = _shared(known, work, on_progress)
    names = {found.name for found in known}.difference(*(result.left for result in results))
    left = tuple(found for found in fleet.environments if found.name not in names)
    written = [each for result in results for each in result.written]
    return written, replace(fleet, environments=left)


def _shared(
    known: list[FoundEnvironment], work: AuditTasks, on_progress: Callable[[int, int], None] | None
) -> list[TakenOver]:
    engine = LocalEngine(on_progress=on_progress)
    share = share_of(len(known), engine.cores * TASKS_PER_CORE)
    tasks = [tuple(group) for group in shares_of(known, lambda _: 1, share)]
    return list(engine.run(work.take_over, tasks))


def _is_comparable(found: FoundEnvironment, work: AuditTasks) -> bool:
    """Return whether an earlier run has kept rows that can be compared quickly."""
    known = work.known
    if not known.is_used or known.is_whole or isinstance(found.paths[0], RemotePath):
        return False
    return known.of(found.paths[0]).rows_path.exists()
