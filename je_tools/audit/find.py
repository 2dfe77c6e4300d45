"""A person's data in all logs of a fleet: which environments have traces, and of what kind.

Every byte of every file is searched in executors, as `erase prove` does. Environments of JE with
hits are then judged as `erase subject` does. Needles appear in no result.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import Struct, field

from je_tools.audit.discover import EnvironmentKind
from je_tools.audit.find_data import EnvironmentHits, FindTask, PartHits
from je_tools.audit.plan import plan_fleet
from je_tools.core.shares import shares_of
from je_tools.erase.proof.file_tree import list_tree
from je_tools.errors import JeToolsError

if TYPE_CHECKING:
    from je_tools.audit.discover import Fleet, FoundEnvironment
    from je_tools.audit.find_tasks import FindWork
    from je_tools.audit.stages import Engine


class FleetHits(Struct):
    """Answer of a search.

    Attributes:
        environments: those with hits or with gaps, by name.
        searched_count: number of environments that were searched.
        size: bytes that were searched.
        gaps: directories that could not be searched, with reasons.
    """

    environments: list[EnvironmentHits]
    searched_count: int
    size: int
    gaps: list[tuple[str, str]] = field(default_factory=list)

    @property
    def hit_count(self) -> int:
        """Number of all hits."""
        return sum(each.hit_count for each in self.environments)

    @property
    def is_whole(self) -> bool:
        """True if everything was read."""
        return not self.gaps and not any(each.gaps for each in self.environments)


def find_everywhere(engine: Engine, fleet: Fleet, work: FindWork) -> FleetHits:
    """Search all environments for needles.

    Args:
        engine: runs the tasks.
        fleet: what is searched.
        work: the search.
    """
    plan = plan_fleet(fleet, engine.cores, tuple(EnvironmentKind))
    tasks = [tuple(FindTask(each) for each in group) for group in plan.small]
    parts: dict[str, list[PartHits]] = {}
    for found in plan.large:
        tasks += [(task,) for task in _slices(found, plan.share)]
    for results in engine.run(work.search, tasks):
        for part in results:
            parts.setdefault(part.env, []).append(part)
    by_name = {each.name: each for each in fleet.environments}
    counts = {name: sum(part.hit_count for part in own) for name, own in parts.items()}
    hit = [by_name[name] for name, count in counts.items() if count]
    judged = {each.env: each for each in engine.run(work.judge, hit)}
    for each in judged.values():
        if each.gaps and not each.hit_count:
            # Hits of the first search count, even if their files have gone since.
            each.hit_count = counts[each.env]
    found_in = [
        judged.get(name) or EnvironmentHits(name, work.shown(name), gaps=gaps)
        for name, own in sorted(parts.items())
        if name in judged or (gaps := [gap for part in own for gap in part.gaps])
    ]
    size = sum(part.size for own in parts.values() for part in own)
    problems = [(work.shown(each.env), each.reason) for each in fleet.problems]
    return FleetHits(found_in, len(parts), size, problems)


def _slices(found: FoundEnvironment, share: int) -> Iterable[FindTask]:
    """Cut a large environment into tasks of some files."""
    try:
        files = list_tree(found.paths[0]).files
    except JeToolsError:
        # The task says why.
        return [FindTask(found)]
    return [
        FindTask(found, tuple(group), number)
        for number, group in enumerate(shares_of(files, lambda file: file.size, share))
    ]
