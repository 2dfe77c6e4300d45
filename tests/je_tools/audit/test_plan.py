"""Tasks: every byte of every file in exactly one piece, pieces in order, tasks of similar size."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from je_tools.audit import plan
from je_tools.audit.discover import Fleet
from je_tools.audit.plan import ScanPiece, Task, plan_tasks
from je_tools.log.environment import Environment
from je_tools.log.log_files import FileHeader, LogFile

MB = 1 << 20


def fleet_of(*sizes: list[int]) -> Fleet:
    """Return a fleet of environments whose files have these sizes."""
    made = []
    for number, files in enumerate(sizes):
        header = FileHeader(good=True, version=17)
        listed = (
            LogFile(Path(f"/fleet/{number}/{no:08x}.jdb"), no, size, header, 17)
            for no, size in enumerate(files)
        )
        made.append(Environment(f"/fleet/{number}", tuple(listed), None, is_directory=True))
    return Fleet(tuple(made), tuple(each.name for each in made), ())


def pieces_of(fleet: Fleet) -> list[tuple[int, int, tuple[int, int]]]:
    """Return every expected piece, in order."""
    return [
        (env_no, index, (cut, max(-(-file.size // plan.CUT_SIZE), 1)))
        for env_no, environment in enumerate(fleet.environments)
        for index, file in enumerate(environment.files)
        for cut in range(max(-(-file.size // plan.CUT_SIZE), 1))
    ]


def check(fleet: Fleet, tasks: list[Task]) -> None:
    pieces = [piece for task in tasks for piece in task]
    assert [(each.env_no, each.index, each.cut) for each in pieces] == pieces_of(fleet)
    for piece in pieces:
        assert piece.file is fleet.environments[piece.env_no].files[piece.index]
    assert all(tasks)


def size_of(task: Task) -> int:
    return sum(piece.size for piece in task)


def test_nothing_is_lost() -> None:
    for seed in range(200):
        rng = random.Random(seed)
        sizes = [0, 1, 38, 5000, 10 * MB, 255 * MB, 256 * MB, 256 * MB + 1, 1 << 32]
        fleet = fleet_of(*(rng.choices(sizes, k=rng.randrange(1, 9)) for _ in range(seed % 20)))
        check(fleet, plan_tasks(fleet, rng.choice([1, 2, 4, 64])))


def test_no_environments() -> None:
    assert plan_tasks(fleet_of(), 4) == []


def test_files_are_cut_from_a_size_on() -> None:
    (task,) = plan_tasks(fleet_of([256 * MB]), 4)
    assert [piece.cut for piece in task] == [(0, 1)]
    tasks = plan_tasks(fleet_of([256 * MB + 1]), 4)
    assert [piece.cut for task in tasks for piece in task] == [(0, 2), (1, 2)]
    tasks = plan_tasks(fleet_of([4096 * MB - 1]), 4)
    pieces: list[ScanPiece] = [piece for task in tasks for piece in task]
    assert len(pieces) == 16
    assert all(piece.size <= 256 * MB for piece in pieces)


def test_small_files_share_a_task_and_large_logs_fill_all_cores() -> None:
    few = fleet_of(*([100_000] for _ in range(500)))
    tasks = plan_tasks(few, 4)
    assert len(tasks) == 5
    assert all(8 * MB <= size_of(task) <= 11 * MB for task in tasks)
    many = fleet_of(*([10 * MB] * 100 for _ in range(3)))
    tasks = plan_tasks(many, 4)
    assert len(tasks) == 4 * 4
    assert max(map(size_of, tasks)) <= 190 * MB
    assert len(plan_tasks(many, 64)) > 200


@pytest.mark.parametrize("cores", [1, 3, 1000])
def test_a_task_is_never_too_large(cores: int) -> None:
    fleet = fleet_of(*([250 * MB, 7 * MB, 300 * MB] for _ in range(40)))
    for task in plan_tasks(fleet, cores):
        assert size_of(task) <= 2 * 256 * MB


@pytest.mark.parametrize("cores", [1, 2, 4, 7, 64])
def test_no_core_takes_one_task_more_than_the_others(cores: int) -> None:
    """One task more than a multiple of the cores costs a round in which all but one core wait."""
    tasks = plan_tasks(fleet_of([10 * MB] * 300), cores)
    assert len(tasks) % cores == 0
    assert min(map(size_of, tasks)) >= max(map(size_of, tasks)) - 10 * MB
