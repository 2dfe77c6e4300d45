"""Plans: each environment and each byte of a large one in one task, tasks of similar size."""

from __future__ import annotations

import pickle
import random
from functools import partial
from pathlib import Path

import pytest

from je_tools.audit.discover import Fleet, FoundEnvironment, find_fleet
from je_tools.audit.known_files import KnownFiles
from je_tools.audit.plan import ENVIRONMENT_COST, AuditPlan, FilePart, plan_fleet, slices_of
from je_tools.audit.task_data import Opened, SliceTask
from je_tools.audit.tasks import AuditTasks
from je_tools.core.shares import share_of, task_count
from je_tools.log.log_files import FileHeader, LogFile
from tests.builders.logs import write_log
from tests.damage.planted_findings import log

MB = 1 << 20


def fleet_of(*sizes: list[int]) -> Fleet:
    """Return a fleet of environments whose files have these sizes."""
    made = []
    for number, files in enumerate(sizes):
        home = Path(f"/fleet/{number}")
        made.append(FoundEnvironment(str(home), (home,), sum(files), (home,)))
    return Fleet(tuple(made), ())


def files_of(sizes: list[int]) -> list[LogFile]:
    header = FileHeader(good=True, version=17)
    return [
        LogFile(Path(f"/fleet/{no:08x}.jdb"), no, size, header, 17) for no, size in enumerate(sizes)
    ]


def is_in(numbers: set[int], file: LogFile) -> bool:
    return file.file_no in numbers


def never(_: LogFile) -> bool:
    return False


def cost_of(task: tuple[FoundEnvironment, ...]) -> int:
    return sum(each.size + ENVIRONMENT_COST for each in task)


def slices_in(plan: AuditPlan, sizes: list[list[int]]) -> list[tuple[FilePart, ...]]:
    """Return the slices of all large environments of a fleet of such files."""
    return [
        part
        for each in plan.large
        for part in slices_of(files_of(sizes[int(each.name.rpartition("/")[2])]), plan.share, never)
    ]


def size_of(part: tuple[FilePart, ...]) -> int:
    return sum(each.size for each in part)


def test_no_environment_is_lost() -> None:
    for seed in range(200):
        rng = random.Random(seed)
        sizes = [0, 1, 38, 5000, 10 * MB, 255 * MB, 256 * MB, 256 * MB + 1, 1 << 32]
        fleet = fleet_of(*(rng.choices(sizes, k=rng.randrange(1, 9)) for _ in range(seed % 20)))
        made = plan_fleet(fleet, rng.choice([1, 2, 4, 64]))
        small = [each for task in made.small for each in task]
        assert all(made.small)
        # Each once, and in the order of the fleet.
        assert sorted([*small, *made.large], key=fleet.environments.index) == [*fleet.environments]
        for some in (small, list(made.large)):
            assert some == sorted(some, key=fleet.environments.index)
        assert all(cost_of((each,)) > made.share for each in made.large)
        assert all(cost_of((each,)) <= made.share for each in small)


def test_no_byte_of_a_large_environment_is_lost() -> None:
    for seed in range(200):
        rng = random.Random(seed)
        sizes = rng.choices([0, 1, 38, 5000, 10 * MB, 256 * MB + 1, 1 << 32], k=seed % 20 + 1)
        share = rng.choice([1000, MB, 100 * MB])
        files = files_of([min(size, 300 * share) for size in sizes])
        kept = {file.file_no for file in files if rng.random() < 0.3}
        slices = slices_of(files, share, partial(is_in, kept))
        expected = []
        for index, file in enumerate(files):
            count = 1 if file.file_no in kept else max(-(-file.size // share), 1)
            expected += [(index, (cut, count)) for cut in range(count)]
        assert [(part.index, part.cut) for each in slices for part in each] == expected
        assert all(slices)


def test_no_environments() -> None:
    made = plan_fleet(fleet_of(), 4)
    assert (made.small, made.large) == ((), ())


def test_files_are_cut_from_a_size_on() -> None:
    def cuts(size: int, share: int = 256 * MB) -> list[tuple[int, int]]:
        slices = slices_of(files_of([size]), share, never)
        return [part.cut for each in slices for part in each]

    assert cuts(256 * MB) == [(0, 1)]
    assert cuts(256 * MB + 1) == [(0, 2), (1, 2)]
    slices = slices_of(files_of([4096 * MB - 1]), 256 * MB, never)
    assert len(slices) == 16
    assert all(size_of(each) <= 256 * MB for each in slices)


def test_a_file_that_an_earlier_run_knows_is_not_cut() -> None:
    """Only its end is read, if anything."""
    asked = []

    def is_known(file: LogFile) -> bool:
        asked.append(file.file_no)
        return file.file_no == 1

    slices = slices_of(files_of([10, 500, 500, 100]), 100, is_known)
    parts = [part for each in slices for part in each]
    assert [part.cut for part in parts if part.index == 1] == [(0, 1)]
    assert [part.cut for part in parts if part.index == 2] == [(n, 5) for n in range(5)]
    # The others are not cut anyhow; asking reads the results of an earlier run.
    assert asked == [1, 2]


def test_small_environments_share_a_task_and_large_logs_fill_all_cores() -> None:
    few = [[100_000] for _ in range(500)]
    made = plan_fleet(fleet_of(*few), 4)
    assert (len(made.small), made.large) == (16, ())
    assert max(map(cost_of, made.small)) <= 1.1 * min(map(cost_of, made.small))
    tiny = plan_fleet(fleet_of([100_000], [100_000]), 64)
    assert len(tiny.small) == 1
    many = [[10 * MB] * 100 for _ in range(3)]
    made = plan_fleet(fleet_of(*many), 4)
    slices = slices_in(made, many)
    assert (made.small, len(made.large)) == ((), 3)
    assert 4 * 4 <= len(slices) <= 4 * 4 + 3
    assert max(map(size_of, slices)) <= 200 * MB
    assert len(slices_in(plan_fleet(fleet_of(*many), 64), many)) > 200


@pytest.mark.parametrize("cores", [1, 3, 1000])
def test_a_task_is_never_too_large(cores: int) -> None:
    sizes = [[250 * MB, 7 * MB, 300 * MB] for _ in range(40)]
    made = plan_fleet(fleet_of(*sizes), cores)
    for part in slices_in(made, sizes):
        assert size_of(part) <= 2 * 256 * MB
    for task in plan_fleet(fleet_of(*([20 * MB] for _ in range(4000))), cores).small:
        assert cost_of(task) <= 2 * 256 * MB


@pytest.mark.parametrize("cores", [1, 40, 1000])
def test_terabytes_make_larger_tasks_rather_than_ever_more(cores: int) -> None:
    """Each task costs something by itself, and a larger task needs more memory."""
    terabyte = 1 << 40
    assert share_of(terabyte, task_count(terabyte, cores)) <= 256 * MB
    count = task_count(10 * terabyte, cores)
    assert 10_000 <= count < 11_000 + cores
    assert count % cores == 0
    assert share_of(10 * terabyte, count) <= 1024 * MB
    assert 900 * MB < share_of(100 * terabyte, task_count(100 * terabyte, cores)) <= 1024 * MB


@pytest.mark.parametrize("cores", [1, 2, 4, 7, 64])
def test_no_core_takes_one_task_more_than_the_others(cores: int) -> None:
    """One task more than a multiple of the cores costs a round in which all but one core wait."""
    sizes = [[10 * MB] * 300]
    slices = slices_in(plan_fleet(fleet_of(*sizes), cores), sizes)
    assert len(slices) % cores == 0
    assert min(map(size_of, slices)) >= max(map(size_of, slices)) - 10 * MB
    made = plan_fleet(fleet_of(*([8 * MB] for _ in range(1280))), cores)
    assert len(made.small) % cores == 0
    assert min(map(cost_of, made.small)) >= max(map(cost_of, made.small)) - 10 * MB


def test_tasks_of_a_large_environment_do_not_grow_with_its_files(tmp_path: Path) -> None:
    """The driver sends each task, so tasks that name all files would take tasks times files."""
    sizes = []
    for count in (20, 200):
        files = [log()]
        for _ in range(count - 1):
            files.append(files[-1].follower())
        home = write_log(tmp_path / str(count), files)
        (found,) = find_fleet([home]).environments
        opened = AuditTasks(tmp_path, KnownFiles(tmp_path)).open_large(found, 300)
        assert isinstance(opened, Opened)
        assert opened.slice_count >= count // 8
        sizes.append(len(pickle.dumps(SliceTask(opened, 0))))
    assert sizes[1] <= sizes[0] + 10
