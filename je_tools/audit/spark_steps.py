"""Steps of an audit that run in Spark: scan and judge, then join transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
from msgspec import Struct

from je_tools.audit import tables as t
from je_tools.audit.attempts import leave_what_counts
from je_tools.audit.frames import spark_schema, transactions
from je_tools.audit.plan import plan_tasks
from je_tools.audit.rows import fact_row, finding_row, unread
from je_tools.audit.staged_tables import SCHEMAS, StagedTables
from je_tools.audit.staging import FACTS, PARTS, SEGMENTS
from je_tools.audit.sums import sum_up

if TYPE_CHECKING:
    from je_tools.audit.discover import Fleet
    from je_tools.audit.session import Spark

_BY_EXECUTORS = (t.FILES, t.ENTRY_STATS, t.FINDINGS, t.VLSN_RANGES, t.CHECKPOINTS)


class ExecutorSteps(Struct, frozen=True):
    """Functions that executors run; see `work.scan_task` and `judging.judge_all`."""

    scan: Callable[..., Iterator[tuple[int, Any]]]
    judge: Callable[..., Iterator[dict[str, str]]]


def scan_and_judge(
    context: Any, fleet: Fleet, steps: ExecutorSteps, staging: Path, folder: Path
) -> None:
    """Scan every piece and judge every environment, on executors.

    Args:
        context: Spark's context.
        fleet: environments to audit.
        steps: functions that executors run.
        staging: folder for tables that are read again.
        folder: folder of the finished tables.
    """
    cores = context.defaultParallelism
    tasks = plan_tasks(fleet, cores)
    written = [_stage_problems(fleet, staging)]
    if tasks:
        scanned = context.parallelize(tasks, len(tasks)).flatMap(
            partial(steps.scan, folder=staging)
        )
        grouped = scanned.groupByKey(min(len(fleet.environments), 2 * cores))
        judged = grouped.mapPartitions(partial(steps.judge, names=fleet.names, folder=staging))
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
    staged = StagedTables(staging)
    for number, problem in enumerate(fleet.problems, len(fleet.environments)):
        staged["findings"].add(finding_row(unread(problem.env, problem.reason), problem.env))
        staged["facts"].add(fact_row(number, {"env": problem.env, "error_count": 1}))
    return staged.close()


def _publish(table: t.AuditTable, paths: Sequence[str], folder: Path) -> None:
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


def join_transactions(spark: Spark, staging: Path, folder: Path) -> None:
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
