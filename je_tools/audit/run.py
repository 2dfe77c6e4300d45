"""The audit: from roots to tables, in one folder that appears when it is whole."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from je_tools.audit import tables as t
from je_tools.audit.discover import Fleet, find_fleet
from je_tools.audit.frames import environments, transactions
from je_tools.audit.judging import SCHEMAS, Staged, finding_row, judge_all, unread
from je_tools.audit.plan import plan_tasks
from je_tools.audit.session import open_session, tracked
from je_tools.audit.staging import SEGMENTS
from je_tools.audit.work import scan_task
from je_tools.errors import InputError, RefusedError
from je_tools.sinks.output import check_outside

MARK = "audit.json"
"""What a finished audit's folder holds."""

_BY_EXECUTORS = (t.FILES, t.ENTRY_STATS, t.FINDINGS, t.VLSN_RANGES, t.CHECKPOINTS)

Step = Callable[[str], AbstractContextManager[Callable[[int, int], None] | None]]
"""Told of each step by its name; gives what is told of its tasks, done and in all."""


@dataclass(frozen=True)
class Job:
    """What an audit is asked for.

    Attributes:
        roots: below which environments are looked for.
        output: the folder that will hold the tables; one of an earlier audit is replaced.
        master: of a Spark cluster; None for this machine, or what spark-submit chose.
        settings: of Spark, by name.
    """

    roots: tuple[Path, ...]
    output: Path
    master: str | None = None
    settings: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ran:
    """What Spark was, for the report."""

    spark_version: str
    master: str


def run_audit(job: Job, finish: Callable[[Path, Ran], None], step: Step | None = None) -> Fleet:
    """Audit all environments below the roots.

    Args:
        job: what is asked for.
        finish: makes the reports from the tables, in the folder that it is given.
        step: told of the steps.

    Raises:
        InputError: a root is not there, there is nothing below the roots, Spark does not start.
        RefusedError: the output lies beside a log that is read, or is something else.
    """
    step = step or (lambda _: nullcontext())
    with step("looking for environments"):
        fleet = find_fleet(job.roots)
    if not fleet.environments and not fleet.problems:
        roots = ", ".join(map(str, job.roots))
        raise InputError(f"no .jdb files below {roots}")
    check_outside(job.output, fleet.environments)
    with _replacing(job.output) as folder, ExitStack() as stack:
        staging = folder / ".staging"
        staging.mkdir()
        with step("starting Spark"):
            log = folder / "spark.log"
            opened = open_session(staging, log, job.master, job.settings)
            session = stack.enter_context(opened)
        with step("reading logs") as tell, tracked(session, tell):
            _scan_and_judge(session, fleet, staging, folder)
        with step("joining transactions") as tell, tracked(session, tell):
            _join(session, staging, folder)
        shutil.rmtree(staging)
        for sums in folder.rglob(".*.crc"):
            sums.unlink()
        with step("writing the report"):
            finish(folder, Ran(session.version, session.sparkContext.master))
    return fleet


def _scan_and_judge(session: Any, fleet: Fleet, staging: Path, folder: Path) -> None:
    """What executors do: every piece is scanned, every environment judged."""
    context = session.sparkContext
    cores = context.defaultParallelism
    tasks = plan_tasks(fleet, cores)
    written = [_stage_problems(fleet, staging)]
    if tasks:
        scanned = context.parallelize(tasks, len(tasks)).flatMap(partial(scan_task, folder=staging))
        opened = context.parallelize(list(enumerate(fleet.environments)), cores)
        grouped = opened.union(scanned).groupByKey(min(len(fleet.environments), 2 * cores))
        judged = grouped.mapPartitions(partial(judge_all, names=fleet.names, folder=staging))
        written += judged.collect()
    for table in _BY_EXECUTORS:
        _publish(table, [paths[table.name] for paths in written if table.name in paths], folder)
    for name in ("taken", "rollbacks", "facts"):
        kept = [Path(paths[name]) for paths in written if name in paths]
        _keep(staging / name, kept, SCHEMAS[name])
    segments = staging / "segments"
    segments.mkdir(exist_ok=True)
    _keep(segments, sorted(segments.glob("*.parquet")), SEGMENTS)
    _publish(t.TXNS, list(_whole_txns(staging)), folder)


def _whole_txns(staging: Path) -> Iterator[str]:
    """The files with whole transactions, without the rows of pieces that do not count."""
    taken = pq.read_table(staging / "taken")
    expected = dict(zip(taken["whole"].to_pylist(), taken["whole_count"].to_pylist(), strict=True))
    pieces: dict[str, list[tuple[str, int]]] = {}
    for whole, *piece in zip(*(taken[name].to_pylist() for name in _OF_WHOLE), strict=True):
        pieces.setdefault(whole, []).append((piece[0], piece[1]))
    for whole, counting in sorted(pieces.items()):
        path = staging / "whole" / whole
        if path.exists():
            if len(counting) < expected[whole]:
                _leave_only(path, counting)
            yield str(path)


_OF_WHOLE = ("whole", "env", "file_no")


def _leave_only(path: Path, pieces: Sequence[tuple[str, int]]) -> None:
    """Leave only the transactions of some files: an attempt of which not all counts."""
    table = pq.read_table(path)
    file_nos = pc.shift_right(table["begin_lsn"], 32)
    keep = [
        piece in pieces
        for piece in zip(table["env"].to_pylist(), file_nos.to_pylist(), strict=True)
    ]
    pq.write_table(table.filter(pa.array(keep, pa.bool_())), path)


def _stage_problems(fleet: Fleet, staging: Path) -> dict[str, str]:
    """What could not even be opened has a finding, and a row."""
    staged = Staged(staging)
    for number, problem in enumerate(fleet.problems, len(fleet.environments)):
        staged["findings"].add(finding_row(unread(problem.env, problem.reason), problem.env))
        staged["facts"].add((number, problem.env, 0, None))
    return staged.close()


def _publish(table: t.Table, paths: Sequence[str], folder: Path) -> None:
    """Move staged files of a table to where they stay; a table without rows is a file too."""
    (folder / table.name).mkdir()
    for number, path in enumerate(paths):
        Path(path).rename(folder / table.name / f"part-{number:05}.parquet")
    if not paths:
        pq.write_table(table.schema.empty_table(), folder / table.name / "part-00000.parquet")


def _keep(folder: Path, paths: Sequence[Path], schema: Any) -> None:
    """Leave only these files, so that the folder can be read as one table."""
    folder.mkdir(exist_ok=True)
    for path in folder.iterdir():
        if path not in paths:
            path.unlink()
    if not paths:
        pq.write_table(schema.empty_table(), folder / "none.parquet")


def _join(session: Any, staging: Path, folder: Path) -> None:
    """What takes all files of an environment: Spark's joins and windows."""

    def staged(name: str) -> Any:
        schema = {"segments": SEGMENTS, **SCHEMAS}[name]
        return session.read.schema(t.ddl_of(schema)).parquet(str(staging / name))

    def table(one: t.Table) -> Any:
        return session.read.schema(t.ddl_of(one.schema)).parquet(str(folder / one.name))

    facts = staged("facts")
    joined = transactions(staged("segments"), staged("taken"), staged("rollbacks"), facts)
    joined.coalesce(1).write.mode("append").parquet(str(folder / t.TXNS.name))
    tables = {one.name: table(one) for one in (*_BY_EXECUTORS, t.TXNS)}
    whole = environments(facts, tables)
    whole.coalesce(1).write.parquet(str(folder / t.ENVIRONMENTS.name))


@contextmanager
def _replacing(output: Path) -> Iterator[Path]:
    """A new folder that takes the place of `output` in the end; else nothing is left of it.

    Raises:
        RefusedError: there is something that no audit has made.
    """
    is_there = output.exists() or output.is_symlink()
    if is_there and not (output / MARK).is_file() and not _is_empty(output):
        raise RefusedError(f"{output}: exists, and no audit has made it; name another folder")
    # A link stays a link: what it leads to is replaced.
    output = Path(os.path.realpath(output))
    token = secrets.token_hex(4)
    try:
        new = output.absolute().with_name(f".{output.name}.{token}.new")
        new.mkdir(parents=True)
    except OSError as error:
        raise RefusedError(f"{output}: cannot be made: {error.strerror}") from error
    try:
        yield new
        old = new.with_suffix(".old")
        if is_there:
            output.rename(old)
        new.rename(output)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _is_empty(folder: Path) -> bool:
    return folder.is_dir() and not any(folder.iterdir())
