"""Steps of an audit that run in executors, and their order.

An engine runs each step's tasks in any process of any machine, perhaps more than once. A task
returns where it has written its results; these are files in a folder that all machines reach.
"""

from __future__ import annotations

import pickle
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from je_tools.audit.judging import EnvironmentRows, judge, unread_environment
from je_tools.audit.plan import FilePart, plan_fleet, slices_of
from je_tools.audit.reasons import why_unread
from je_tools.audit.table_writer import StagedTables, write_txns
from je_tools.audit.tables import TXNS
from je_tools.audit.work import Scanned, scan_part
from je_tools.log.opening import open_environment
from je_tools.verify.judge import RowInspector

if TYPE_CHECKING:
    from je_tools.audit.discover import Fleet, FoundEnvironment
    from je_tools.log.environment import Environment

T = TypeVar("T")
R = TypeVar("R")

Written = list[tuple[str, str]]
"""Finished files: the name of the table, and the path."""


class Engine(Protocol):
    """Runs tasks in parallel."""

    cores: int

    def run(self, work: Callable[[T], R], tasks: Sequence[T]) -> Iterable[R]:
        """Return the result of each task, in any order; `work`, tasks and results must pickle."""
        ...


class Opened(Struct, frozen=True):
    """A large environment that was opened.

    Attributes:
        name: its name in the tables.
        path: file with the `Environment`.
        slices: what is scanned by each task.
    """

    name: str
    path: str
    slices: tuple[tuple[FilePart, ...], ...]


class SliceTask(Struct, frozen=True):
    """A slice of a large environment; `number` is its place among the slices."""

    opened: Opened
    number: int


class SliceResult(Struct, frozen=True):
    """A slice that was scanned: the file with the results, and files with transactions."""

    name: str
    number: int
    path: str
    written: Written


class JudgeTask(Struct, frozen=True):
    """A large environment of which all slices are scanned; `paths` has their results, in order."""

    opened: Opened
    paths: tuple[str, ...]


def run_stages(engine: Engine, fleet: Fleet, staging: Path) -> Written:
    """Scan and judge all environments; return the finished files of all tables.

    Args:
        engine: runs the tasks.
        fleet: what is audited.
        staging: folder for results, the same for all tasks.
    """
    plan = plan_fleet(fleet, engine.cores)
    written = _problems(fleet, staging)
    # Large environments first: their slices wait for them.
    first: list[Any] = [*plan.large, *plan.small]
    opened: list[Opened] = []
    for result in engine.run(partial(first_step, share=plan.share, staging=staging), first):
        if isinstance(result, Opened):
            opened.append(result)
        else:
            written += result
    slices = [SliceTask(each, i) for each in opened for i in range(len(each.slices))]
    scanned: dict[str, dict[int, str]] = {each.name: {} for each in opened}
    for done in engine.run(partial(scan_slice, staging=staging), slices):
        scanned[done.name][done.number] = done.path
        written += done.written
    tasks = [
        JudgeTask(each, tuple(path for _, path in sorted(scanned[each.name].items())))
        for each in opened
    ]
    for files in engine.run(partial(judge_large, staging=staging), tasks):
        written += files
    return written


def first_step(
    task: FoundEnvironment | tuple[FoundEnvironment, ...], share: int, staging: Path
) -> Opened | Written:
    """Open and cut a large environment, or audit some small ones."""
    if isinstance(task, tuple):
        return audit_small(task, staging)
    return open_large(task, share, staging)


def audit_small(task: Iterable[FoundEnvironment], staging: Path) -> Written:
    """Scan and judge environments, one after the other."""
    staged = StagedTables(staging)
    for found in task:
        _stage(staged, _audited(found, staging))
    return staged.close()


def _audited(found: FoundEnvironment, staging: Path) -> EnvironmentRows:
    environment = _opened(found)
    if isinstance(environment, EnvironmentRows):
        return environment
    inspector = RowInspector.of(environment)
    parts = (FilePart(i, (0, 1), file.size) for i, file in enumerate(environment.files))
    scanned = (scan_part(environment, part, found.name, inspector) for part in parts)
    return judge(environment, found.name, scanned, staging)


def _opened(found: FoundEnvironment) -> Environment | EnvironmentRows:
    """Open an environment; return the rows that say why it cannot be opened."""
    try:
        return open_environment(found.paths, keep_going=True)
    except OSError as error:
        return unread_environment(found.name, str(error.strerror))
    except Exception as error:
        return unread_environment(found.name, why_unread(error))


def open_large(found: FoundEnvironment, share: int, staging: Path) -> Opened | Written:
    """Open an environment and cut it into slices."""
    environment = _opened(found)
    if isinstance(environment, EnvironmentRows):
        staged = StagedTables(staging)
        _stage(staged, environment)
        return staged.close()
    slices = tuple(slices_of(environment.files, share))
    return Opened(found.name, _pickled(environment, staging), slices)


def scan_slice(task: SliceTask, staging: Path) -> SliceResult:
    """Scan a slice of a large environment."""
    opened = task.opened
    environment: Environment = _unpickled(opened.path)
    inspector = RowInspector.of(environment)
    staged, results = StagedTables(staging), []
    for part in opened.slices[task.number]:
        scanned = scan_part(environment, part, opened.name, inspector)
        if part.cut[1] > 1:
            # Whether a range counts is known only when the ranges of its file are joined.
            path = write_txns(staging, scanned.txns)
            results.append(replace(scanned, txns=(), txns_path=path))
            continue
        for txns in scanned.txns:
            staged[TXNS.name].write(txns)
        results.append(replace(scanned, txns=()))
    return SliceResult(opened.name, task.number, _pickled(results, staging), staged.close())


def judge_large(task: JudgeTask, staging: Path) -> Written:
    """Judge a large environment; only the results of one slice are held at a time."""
    environment: Environment = _unpickled(task.opened.path)

    def scanned() -> Iterator[Scanned]:
        for path in task.paths:
            yield from _unpickled(path)

    staged = StagedTables(staging)
    found = judge(environment, task.opened.name, scanned(), staging)
    _stage(staged, found)
    return [*staged.close(), *((TXNS.name, path) for path in found.txn_paths)]


def _stage(staged: StagedTables, found: EnvironmentRows) -> None:
    for table, rows in found.rows.items():
        staged[table].extend(rows)
    for txns in found.txns:
        staged[TXNS.name].write(txns)


def _problems(fleet: Fleet, staging: Path) -> Written:
    """Stage rows for everything that could not even be searched."""
    staged = StagedTables(staging)
    for problem in fleet.problems:
        _stage(staged, unread_environment(problem.env, problem.reason))
    return staged.close()


def _pickled(what: Any, staging: Path) -> str:
    """Write an object for another task of this run; return the path."""
    path = staging / f"{secrets.token_hex(8)}.pickle"
    with path.open("xb") as out:
        pickle.dump(what, out, pickle.HIGHEST_PROTOCOL)
    return str(path)


def _unpickled(path: str) -> Any:
    with Path(path).open("rb") as file:
        # Written by a task of this run, into a folder of this run.
        return pickle.load(file)
