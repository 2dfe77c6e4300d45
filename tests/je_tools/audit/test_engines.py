"""Every engine gives the same tables; a process that is killed costs an attempt."""

from __future__ import annotations

import operator
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from je_tools.audit import taking_over
from je_tools.audit.engines import EngineChoice
from je_tools.audit.local_engine import TRIES, LocalEngine
from je_tools.audit.run import AuditJob, run_audit
from je_tools.audit.spark_engine import SparkEngine
from je_tools.audit.tasks import AuditTasks
from je_tools.errors import StoppedError
from tests.corpus import FIXTURES, Environment
from tests.je_tools.audit.auditing import (
    WHOLE,
    Tables,
    age,
    audit_here,
    cut,
    summarized,
    tables_in,
    without_sources,
)

NAMES = ("v17-dups", "v17-crash-txn", "v26-rep-committed", "v8-cleaned", "v6-halt", "v15-ttl")
ROOTS = tuple(FIXTURES / name for name in NAMES)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """Audit some fixtures in this process."""
    return without_sources(audit_here(ROOTS, tmp_path_factory.mktemp("here")))


@pytest.mark.parametrize("size", [WHOLE, 200_000])
def test_local_processes_give_the_same_tables(
    size: Any, expected: Tables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut(monkeypatch, size)
    done: list[tuple[int, int]] = []

    @contextmanager
    def step(_: str) -> Iterator[Any]:
        yield lambda *both: done.append(both)

    job = AuditJob(ROOTS, tmp_path / "out")
    summary = run_audit(job, AuditTasks, summarized, step)
    assert without_sources(tables_in(tmp_path / "out")) == expected
    about = summary.run
    assert (about.engine, about.spark_version, about.master) == ("local", None, None)
    # Each step of the run ends with all of its tasks done.
    assert done[-1][0] == done[-1][1]


@pytest.mark.exhaustive
def test_every_log_in_local_processes(
    environment: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = without_sources(audit_here([environment.home], tmp_path / "here"))
    for size in (WHOLE, 100_000):
        cut(monkeypatch, size)
        out = tmp_path / f"out-{size}"
        run_audit(AuditJob((environment.home,), out), AuditTasks, summarized)
        assert without_sources(tables_in(out)) == expected


@pytest.mark.spark
@pytest.mark.exhaustive
def test_every_log_on_spark(audit_session: Any, environment: Environment, tmp_path: Path) -> None:
    assert audit_session
    run_audit(
        AuditJob((environment.home,), tmp_path / "out", EngineChoice()), AuditTasks, summarized
    )
    expected = audit_here([environment.home], tmp_path / "here")
    assert without_sources(tables_in(tmp_path / "out")) == without_sources(expected)


# Unchanged since an earlier run


@pytest.mark.parametrize(
    ("size", "limit", "most"), [(WHOLE, "HERE_MAX", 3), (200_000, "HERE_SIZE", 1)]
)
def test_no_engine_is_started_for_what_is_unchanged(
    size: Any,
    limit: str,
    most: int,
    expected: Tables,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cut(monkeypatch, size)
    monkeypatch.setattr(taking_over, limit, most)
    root, out = tmp_path / "root", tmp_path / "out"
    for name in NAMES:
        shutil.copytree(FIXTURES / name, root / name)
    for folder in {path.parent for path in root.rglob("*.jdb")}:
        age(folder, 600)
    run_audit(AuditJob((root,), out), AuditTasks, summarized)
    first = tables_in(out)
    compared: list[int] = []
    shared = taking_over._shared

    def noted(known: Any, *more: Any) -> Any:
        compared.append(len(known))
        return shared(known, *more)

    with monkeypatch.context() as patched:
        patched.setattr("je_tools.audit.session.open_spark", None)
        patched.setattr(taking_over, "_shared", noted)
        summary = run_audit(AuditJob((root,), out, EngineChoice()), AuditTasks, summarized)
    assert len(compared) == 1
    assert (summary.run.engine, summary.log_file_read_count) == ("local", 0)
    assert without_sources(tables_in(out)) == without_sources(first)
    # The audit reads only changed environments.
    changed = root / NAMES[0] / "env" / "00000000.jdb"
    os.utime(changed, (1_700_000_000, 1_700_000_000))
    read: list[str] = []

    class Noted(LocalEngine):
        def run(self, work: Any, tasks: Any) -> Any:
            read.extend(repr(task) for task in tasks)
            return super().run(work, tasks)

    monkeypatch.setattr("je_tools.audit.local_engine.LocalEngine", Noted)
    run_audit(AuditJob((root,), out), AuditTasks, summarized)
    assert without_sources(tables_in(out)) == without_sources(first)
    assert NAMES[0] in "".join(read)
    assert not any(name in "".join(read) for name in NAMES[1:])


@pytest.mark.parametrize(
    ("choice", "is_here"),
    [
        (EngineChoice(is_local=True), True),
        (EngineChoice(), True),
        (EngineChoice(master="local[2]"), True),
        (EngineChoice(master="spark://head:7077"), False),
        (EngineChoice(master="yarn"), False),
    ],
)
def test_a_cluster_compares_by_itself(
    choice: EngineChoice, is_here: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert choice.is_here is is_here
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert choice.is_here is choice.is_local


# Processes that are killed


def doubled(number: int) -> int:
    return 2 * number


def killed_once(folder: Path, number: int) -> int:
    """Return a doubled number; the first try of every fifth is killed."""
    mark = folder / str(number)
    if number % 5 == 2 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return 2 * number


def killed_always(folder: Path, number: int) -> int:
    """Return a doubled number, or never return for 3."""
    if number == 3:
        with (folder / "tries").open("a") as tries:
            tries.write("x")
        os.kill(os.getpid(), signal.SIGKILL)
    return 2 * number


def failing(number: int) -> int:
    if number == 3:
        raise ZeroDivisionError(number)
    return number


def test_results_of_all_tasks_come_once() -> None:
    told: list[tuple[int, int]] = []
    engine = LocalEngine(2, lambda *both: told.append(both))
    assert sorted(engine.run(doubled, range(30))) == list(range(0, 60, 2))
    assert told == [(number, 30) for number in range(1, 31)]
    assert list(engine.run(doubled, [])) == []


def test_a_killed_process_costs_an_attempt(tmp_path: Path) -> None:
    found = list(LocalEngine(2).run(partial(killed_once, tmp_path), range(10)))
    assert sorted(found) == list(range(0, 20, 2))
    assert {path.name for path in tmp_path.iterdir()} == {"2", "7"}


def test_a_task_whose_process_is_always_killed_stops_the_audit(tmp_path: Path) -> None:
    with pytest.raises(StoppedError, match="was killed, perhaps for lack of memory"):
        list(LocalEngine(2).run(partial(killed_always, tmp_path), range(6)))
    assert (tmp_path / "tries").read_text() == "x" * TRIES


def test_an_error_of_a_task_is_that_of_the_audit() -> None:
    with pytest.raises(ZeroDivisionError):
        list(LocalEngine(2).run(failing, range(6)))


@pytest.mark.spark
def test_spark_is_an_engine_like_the_others(audit_session: Any) -> None:
    engine = SparkEngine(audit_session)
    assert engine.cores == 2
    # Executors do not have the tests.
    twice = partial(operator.mul, 2)
    assert sorted(engine.run(twice, range(9))) == list(range(0, 18, 2))
    assert list(engine.run(twice, [])) == []


def test_tables_are_the_same_though_workers_are_killed(
    expected: Tables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task that is run twice leaves rows of one attempt only."""
    cut(monkeypatch, 200_000)
    tried = LocalEngine._tried
    kills = []

    def killing(self: LocalEngine, work: Any, left: dict[int, Any], count: int) -> Any:
        once = partial(killed_after, work, tmp_path / f"killed-{len(kills)}")
        kills.append(once)
        return tried(self, once, left, count)

    monkeypatch.setattr(LocalEngine, "_tried", killing)
    run_audit(AuditJob(ROOTS, tmp_path / "out"), AuditTasks, summarized)
    assert len([path for path in tmp_path.iterdir() if path.name.startswith("killed-")]) == 3
    assert len(kills) == 6
    assert without_sources(tables_in(tmp_path / "out")) == expected


def killed_after(work: Any, mark: Path, task: Any) -> Any:
    """Do the work; the process of the first is then killed, in every other try of all tasks."""
    result = work(task)
    if int(mark.name.rpartition("-")[2]) % 2 == 0 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return result
