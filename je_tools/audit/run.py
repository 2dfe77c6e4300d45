"""Run of an audit: from roots to tables, in one folder that appears when it is complete."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from pathlib import Path

from msgspec import Struct, field

from je_tools.audit.discover import Fleet, find_fleet
from je_tools.audit.failures import failures_reported, log_beside
from je_tools.audit.judging import judge_all
from je_tools.audit.output_folder import LOG_NAME, refuse_what_holds_logs, replacing
from je_tools.audit.session import STAGING, open_spark, tracked
from je_tools.audit.spark_steps import ExecutorSteps, join_transactions, scan_and_judge
from je_tools.audit.work import scan_task
from je_tools.errors import InputError
from je_tools.output.files.outputs import check_outside

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
        raise InputError(f"there are no .jdb files below {roots}")
    check_outside(job.output, fleet.environments)
    refuse_what_holds_logs(job.output, fleet)
    with replacing(job.output) as folder, ExitStack() as stack:
        log = folder / LOG_NAME
        stack.enter_context(failures_reported(job.output, log))
        staging = folder / STAGING
        steps = ExecutorSteps(scan_task, judge_all)
        staging.mkdir()
        with step("starting Spark"):
            spark = stack.enter_context(open_spark(staging, log, job.master, job.settings))
        with step("reading logs") as on_progress, tracked(spark.context, on_progress):
            scan_and_judge(spark.context, fleet, steps, staging, folder)
        with step("joining transactions") as on_progress, tracked(spark.context, on_progress):
            join_transactions(spark, staging, folder)
        shutil.rmtree(staging)
        for sums in folder.rglob(".*.crc"):
            sums.unlink()
        with step("writing the report"):
            finish(folder, Ran(spark.context.version, spark.context.master))
    with suppress(OSError):
        # Left by an earlier audit that has failed.
        log_beside(job.output).unlink()
    return fleet
