"""Plan of an audit: tasks of about the same number of bytes.

Small environments share a task, which reads and judges them. A large one takes three steps: a task
opens it and cuts it into slices, each slice is scanned by a task of its own, and one task judges
the results.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.audit.discover import EnvironmentKind
from je_tools.core.shares import share_of, shares_of, task_count

if TYPE_CHECKING:
    from je_tools.audit.discover import Fleet, FoundEnvironment
    from je_tools.log.log_files import LogFile

ENVIRONMENT_COST = 2 << 20
"""Bytes of log that can be read in the time that an environment takes by itself."""


class FilePart(Struct, frozen=True):
    """A file, or a range of a file that is cut.

    Attributes:
        index: index of the file in `Environment.files`.
        cut: index of the range and number of ranges; (0, 1) for a whole file.
        size: approximate number of bytes.
    """

    index: int
    cut: tuple[int, int]
    size: int


class AuditPlan(Struct, frozen=True):
    """Tasks of the first step.

    Attributes:
        share: approximate bytes of a task; large environments are cut into slices of this size.
        small: environments that are read and judged together, by task.
        large: environments that are cut.
    """

    share: int
    small: tuple[tuple[FoundEnvironment, ...], ...]
    large: tuple[FoundEnvironment, ...]


def plan_fleet(
    fleet: Fleet, cores: int, cut: Collection[EnvironmentKind] = (EnvironmentKind.JE,)
) -> AuditPlan:
    """Divide the environments into tasks by bytes, in the order of the fleet.

    Args:
        fleet: all environments.
        cores: number of tasks that run at once, 1 or more.
        cut: kinds that can be cut; one of another kind is read by one task, however large.
    """
    found = fleet.environments
    size = sum(_cost(each) for each in found)
    share = share_of(size, task_count(size, cores))
    large = tuple(each for each in found if each.kind in cut and _cost(each) > share)
    small = [each for each in found if each.kind not in cut or _cost(each) <= share]
    return AuditPlan(share, tuple(map(tuple, shares_of(small, _cost, share))), large)


def slices_of(
    files: Sequence[LogFile], share: int, is_whole: Callable[[LogFile], bool]
) -> list[tuple[FilePart, ...]]:
    """Cut the files of a large environment into slices of about `share` bytes, in log order.

    Args:
        files: all files of the environment.
        share: bytes of a slice.
        is_whole: called with each file that is larger; returns True if it must not be cut.
    """
    parts: list[FilePart] = []
    for index, file in enumerate(files):
        count = max(-(-file.size // share), 1)
        if count > 1 and is_whole(file):
            count = 1
        parts += (FilePart(index, (cut, count), file.size // count) for cut in range(count))
    return [tuple(group) for group in shares_of(parts, lambda part: part.size, share)]


def _cost(found: FoundEnvironment) -> int:
    return found.size + ENVIRONMENT_COST
