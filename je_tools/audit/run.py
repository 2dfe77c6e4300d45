"""Run of an audit: from roots to tables, in one folder that appears when it is complete."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from msgspec import Struct, field

from je_tools.audit import tables as t
from je_tools.audit.attempts import leave_what_counts
from je_tools.audit.discover import Fleet, find_fleet
from je_tools.audit.frames import spark_schema, transactions
from je_tools.audit.judging import SCHEMAS, Staged, fact_row, finding_row, judge_all, unread
from je_tools.audit.plan import plan_tasks
from je_tools.audit.report import METRICS_NAME, PAGE_NAME, SUMMARY_NAME
from je_tools.audit.session import STAGING, Spark, is_of_spark, open_spark, tracked, why_failed
from je_tools.audit.staging import FACTS, PARTS, SEGMENTS
from je_tools.audit.sums import sum_up
from je_tools.audit.work import scan_task
from je_tools.core.escaping import clean_text, printable
from je_tools.errors import InputError, JeToolsError, RefusedError, StoppedError
from je_tools.output.files.outputs import check_outside

MARK, BEGIN = SUMMARY_NAME, b'{"format": '
"""File in the folder of a finished audit, and the bytes with which it begins."""

LOG_NAME = "spark.log"

_FILES = {SUMMARY_NAME, PAGE_NAME, METRICS_NAME, LOG_NAME}
_FOLDERS = {table.name for table in t.TABLES}
_PART = re.compile(r"part-[0-9]{5,}\.parquet")

_BY_EXECUTORS = (t.FILES, t.ENTRY_STATS, t.FINDINGS, t.VLSN_RANGES, t.CHECKPOINTS)

Step = Callable[[str], AbstractContextManager[Callable[[int, int], None] | None]]
"""Called with the name of each step; gives a callback for the tasks done and in all, or None."""


class Job(Struct, frozen=True):
    """Input of an audit.

    Attributes:
        roots: directories below which environments are searched for.
        output: folder for the tables; one of an earlier audit is replaced.
        master: Spark master of a cluster; None for this machine, or what spark-submit chose.
        settings: Spark settings, by name.
    """

    roots: tuple[Path, ...]
    output: Path
    master: str | None = None
    settings: dict[str, str] = field(default_factory=dict)


class Ran(Struct, frozen=True):
    """The Spark that ran, for the report."""

    spark_version: str
    master: str


def run_audit(job: Job, finish: Callable[[Path, Ran], None], step: Step | None = None) -> Fleet:
    """Audit all environments below the roots, and return them.

    Args:
        job: input of the audit.
        finish: makes the reports from the tables, in the folder that it is given.
        step: called with each step.

    Raises:
        InputError: a root does not exist, nothing is below the roots, or Spark does not start.
        RefusedError: the output lies beside a log that is read, is something other than an audit,
            or there is no space for it.
        StoppedError: Spark gave up, or ended; its log is left beside the output.
    """
    step = step or (lambda _: nullcontext())
    with step("looking for environments"):
        fleet = find_fleet(job.roots)
    if not fleet.environments and not fleet.problems:
        roots = ", ".join(map(str, job.roots))
        raise InputError(f"no .jdb files below {roots}")
    check_outside(job.output, fleet.environments)
    _refuse_what_holds_logs(job.output, fleet)
    with replacing(job.output) as folder, ExitStack() as stack:
        log = folder / LOG_NAME
        stack.enter_context(failures_told(job.output, log))
        staging = folder / STAGING
        staging.mkdir()
        with step("starting Spark"):
            spark = stack.enter_context(open_spark(staging, log, job.master, job.settings))
        with step("reading logs") as tell, tracked(spark.context, tell):
            _scan_and_judge(spark.context, fleet, staging, folder)
        with step("joining transactions") as tell, tracked(spark.context, tell):
            _join(spark, staging, folder)
        shutil.rmtree(staging)
        for sums in folder.rglob(".*.crc"):
            sums.unlink()
        with step("writing the report"):
            finish(folder, Ran(spark.context.version, spark.context.master))
    with suppress(OSError):
        # Left by an earlier audit that has failed.
        _log_beside(job.output).unlink()
    return fleet


def _scan_and_judge(context: Any, fleet: Fleet, staging: Path, folder: Path) -> None:
    """Scan every piece and judge every environment, on executors."""
    cores = context.defaultParallelism
    tasks = plan_tasks(fleet, cores)
    written = [_stage_problems(fleet, staging)]
    if tasks:
        scanned = context.parallelize(tasks, len(tasks)).flatMap(partial(scan_task, folder=staging))
        grouped = scanned.groupByKey(min(len(fleet.environments), 2 * cores))
        judged = grouped.mapPartitions(partial(judge_all, names=fleet.names, folder=staging))
        written += judged.collect()
    for table in _BY_EXECUTORS:
        _publish(table, [paths[table.name] for paths in written if table.name in paths], folder)
    for name in _JOINED:
        kept = [Path(paths[name]) for paths in written if name in paths]
        _keep(staging / name, kept, SCHEMAS[name])
    _publish(t.TXNS, leave_what_counts(staging), folder)


_JOINED = ("taken", "facts", t.TXN_STATS.name)
"""Tables that executors stage, and that are read again."""


def _stage_problems(fleet: Fleet, staging: Path) -> dict[str, str]:
    """Stage a finding and a row for everything that could not even be opened."""
    staged = Staged(staging)
    for number, problem in enumerate(fleet.problems, len(fleet.environments)):
        staged["findings"].add(finding_row(unread(problem.env, problem.reason), problem.env))
        staged["facts"].add(fact_row(number, {"env": problem.env, "error_count": 1}))
    return staged.close()


def _publish(table: t.Table, paths: Sequence[str], folder: Path) -> None:
    """Move staged files of a table to their final place; a table without rows is a file too."""
    (folder / table.name).mkdir()
    for number, path in enumerate(paths):
        Path(path).rename(folder / table.name / f"part-{number:05}.parquet")
    if not paths:
        pq.write_table(table.schema.empty_table(), folder / table.name / "part-00000.parquet")


def _keep(folder: Path, paths: Sequence[Path], schema: Any) -> None:
    """Remove all files but these, so that the folder can be read as one table."""
    folder.mkdir(exist_ok=True)
    for path in folder.iterdir():
        if path not in paths:
            path.unlink()
    if not paths:
        pq.write_table(schema.empty_table(), folder / "none.parquet")


def _join(spark: Spark, staging: Path, folder: Path) -> None:
    """Write the tables that need all files of an environment: its transactions, and the sums."""
    parts = sorted((staging / PARTS).glob("*.parquet"))
    rows = sum(pq.read_metadata(path).num_rows for path in parts)
    if rows:
        reader = spark.session().read
        segments, facts = (
            reader.schema(spark_schema(schema)).parquet(str(staging / name))
            for name, schema in ((PARTS, SEGMENTS), ("facts", FACTS))
        )
        joined = transactions(segments, facts, -(-rows // ROWS_PER_TASK))
        joined.write.parquet(str(staging / "joined"))
    own = [str(path) for path in sorted((folder / t.TXNS.name).iterdir())]
    found = sorted((staging / "joined").glob("*.parquet")) if rows else []
    known, ended = (pq.read_table(staging / name) for name in ("facts", t.TXN_STATS.name))
    for table, rows_of in zip(
        (t.ENVIRONMENTS, t.TXN_STATS), sum_up(known, ended, found), strict=True
    ):
        (folder / table.name).mkdir()
        pq.write_table(rows_of, folder / table.name / "part-00000.parquet")
    for number, path in enumerate(found, len(own)):
        path.rename(folder / t.TXNS.name / f"part-{number:05}.parquet")


ROWS_PER_TASK = 250_000
"""Parts of transactions that one task joins."""


@contextmanager
def failures_told(output: Path, log: Path) -> Iterator[None]:
    """Report missing space and failures of Spark; errors of executors are known only by text.

    Args:
        output: folder that the audit was to become.
        log: log of Spark; if Spark has failed it is moved beside `output`.

    Raises:
        RefusedError: there is no space for the output, or for Spark's temporary files.
        StoppedError: Spark gave up, or ended.
    """
    try:
        yield
    except JeToolsError:
        raise
    except Exception as error:
        reasons = [os.strerror(number) for number in (errno.ENOSPC, errno.EDQUOT)]
        found = next((reason for reason in reasons if reason in str(error)), None)
        if found is not None:
            places = f"{output}, or where Spark keeps its own files ({tempfile.gettempdir()})"
            raise RefusedError(f"{places}: {found}") from error
        if not is_of_spark(error):
            raise
        kept = _log_beside(output)
        with suppress(OSError):
            log.replace(kept)
        raise StoppedError(
            f"Spark ended before the audit did: {why_failed(error)}; {kept} has what it said"
        ) from error


def _log_beside(output: Path) -> Path:
    """Return the path where the log of a failed Spark is kept."""
    if output.name in ("", ".."):
        output = Path(os.path.realpath(output))
    return output.with_name(f"{output.name}.{LOG_NAME}")


@contextmanager
def replacing(output: Path) -> Iterator[Path]:
    """Make a new folder that replaces `output` at the end; after a failure nothing of it is left.

    Raises:
        RefusedError: `output` is something that no audit has made, or cannot be made.
    """
    _refuse_what_is_no_audit(output)
    # A link stays a link: its target is replaced.
    output = Path(os.path.realpath(output))
    token = secrets.token_hex(4)
    try:
        new = output.absolute().with_name(f".{output.name}.{token}.new")
        new.mkdir(parents=True)
        held = os.open(new, os.O_RDONLY)
    except OSError as error:
        raise RefusedError(f"{output}: cannot be made: {error.strerror}") from error
    try:
        _lock(held)
        _remove_what_was_killed(output, "new")
        yield new
        # Another audit may have finished meanwhile.
        _refuse_what_is_no_audit(output)
        old = new.with_suffix(".old")
        try:
            with suppress(FileNotFoundError):
                output.rename(old)
            new.rename(output)
        except BaseException:
            with suppress(OSError):
                old.rename(output)
            raise
        shutil.rmtree(old, ignore_errors=True)
        # Only now that there is a new one: that of a killed audit may have been the only one.
        _remove_what_was_killed(output, "old")
    finally:
        os.close(held)
        shutil.rmtree(new, ignore_errors=True)


def _remove_what_was_killed(output: Path, kind: str) -> None:
    """Remove folders that audits into this one could not clean up, as after a power cut.

    Args:
        output: the folder.
        kind: `new`, an audit that was not finished, or `old`, an audit that was replaced.
    """
    name = re.compile(rf"\.{re.escape(output.name)}\.[0-9a-f]{{8}}\.{kind}")
    for left in output.parent.iterdir():
        if name.fullmatch(left.name):
            with suppress(OSError):
                held = os.open(left, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
                try:
                    if _lock(held) and (kind == "new" or _foreign_in(left) is None):
                        shutil.rmtree(left, ignore_errors=True)
                finally:
                    os.close(held)


def _lock(held: int) -> bool:
    """Lock an open folder for this process; return False if another process has the lock."""
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _refuse_what_is_no_audit(output: Path) -> None:
    """Refuse an existing output unless it is empty or an audit, which can be made again."""
    if not os.path.lexists(output) or (output.is_dir() and not any(output.iterdir())):
        return
    try:
        with (output / MARK).open("rb") as file:
            is_audit = file.read(len(BEGIN)) == BEGIN
    except OSError:
        is_audit = False
    tables = [output / table.name for table in (t.ENVIRONMENTS, t.FINDINGS)]
    if not is_audit or not all(table.is_dir() for table in tables):
        raise RefusedError(f"{output}: exists, and no audit has made it; name another folder")
    try:
        foreign = _foreign_in(output)
    except FileNotFoundError:
        # Another audit replaces it at this moment.
        return
    except OSError as error:
        raise RefusedError(f"{output}: cannot be looked through: {error.strerror}") from error
    if foreign is not None:
        raise RefusedError(
            f"{output}: holds {foreign}, and no audit has made it: it would be removed with the "
            "earlier audit; move it, or name another folder"
        )


def _foreign_in(folder: Path) -> str | None:
    """Return the first name below an audit's folder that no audit writes, or None."""
    for path in sorted(folder.iterdir()):
        if path.is_dir() and not path.is_symlink() and path.name in _FOLDERS:
            parts = sorted(path.iterdir())
            foreign = (
                part for part in parts if not (_PART.fullmatch(part.name) and _is_file(part))
            )
            found = next(foreign, None)
        else:
            found = None if path.name in _FILES and _is_file(path) else path
        if found is not None:
            return printable(clean_text(str(found.relative_to(folder))))
    return None


def _is_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _refuse_what_holds_logs(output: Path, fleet: Fleet) -> None:
    """Refuse an output whose replacement would remove logs."""
    place = os.path.realpath(output)
    for environment in fleet.environments:
        first = environment.files[0].path
        if any(
            Path(each).is_relative_to(place)
            for each in map(os.path.realpath, (first, first.parent))
        ):
            raise RefusedError(f"{output}: holds logs that are read; name another folder")
