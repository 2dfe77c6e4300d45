"""Run of an audit: from roots to tables and reports."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.audit.discover import EnvironmentKind, find_fleet
from je_tools.audit.engines import EngineChoice, EngineInfo, Step, open_engine
from je_tools.audit.failures import log_beside, reporting_failures
from je_tools.audit.fleet import FleetSummary
from je_tools.audit.group_tables import add_groups
from je_tools.audit.known_files import KnownFiles
from je_tools.audit.output_folder import (
    KNOWN_NAME,
    LOG_NAME,
    STAGING_NAME,
    RunFolder,
    open_output,
    prune,
    refuse_what_holds_logs,
)
from je_tools.audit.part_merging import merge_parts
from je_tools.audit.report import publish_reports
from je_tools.audit.stages import run_stages
from je_tools.audit.taking_over import take_over_unchanged
from je_tools.output.files.outputs import check_outside

if TYPE_CHECKING:
    from je_tools.audit.discover import Fleet
    from je_tools.audit.task_data import Written
    from je_tools.audit.tasks import AuditTasks


class AuditJob(Struct, frozen=True):
    """Input of an audit.

    Attributes:
        roots: directories below which environments are searched for.
        output: folder for the tables of all runs.
        engine: the engine that is wanted.
        keep: number of runs that stay, this one included; None for all.
        is_full: True to read every file, also those that have not changed since the last run.
        is_paranoid: True to compare all bytes of a file to tell whether it has changed.
    """

    roots: tuple[Path, ...]
    output: Path
    engine: EngineChoice = EngineChoice(is_local=True)
    keep: int | None = None
    is_full: bool = False
    is_paranoid: bool = False


MakeWork = Callable[[Path, KnownFiles], "AuditTasks"]
"""Makes the tasks from the folder for their results, and what earlier runs know."""
Finish = Callable[[RunFolder, EngineInfo, Path], FleetSummary]
"""Makes the reports of the tables of a run in a folder."""


def run_audit(
    job: AuditJob, make: MakeWork, finish: Finish, step: Step | None = None
) -> FleetSummary:
    """Audit all environments below the roots, and return what `finish` does.

    Args:
        job: input of the audit.
        make: makes the tasks from the folder for their results, and what earlier runs know.
        finish: makes the reports.
        step: called with each step.

    Raises:
        InputError: a root does not exist, nothing is below the roots, or Spark does not start.
        RefusedError: the output lies beside a log that is read, is something other than a folder
            of audits, another audit writes into it, or there is no space for it.
        StoppedError: the engine gave up, or ended; the log of Spark is left beside the output.
    """
    step = step or (lambda _: nullcontext())
    with step("looking for environments"):
        fleet = find_fleet(job.roots, tuple(EnvironmentKind))
    check_outside(job.output, (place for each in fleet.environments for place in each.local_places))
    refuse_what_holds_logs(job.output, fleet)
    with open_output(job.output) as run:
        staging = run.path / STAGING_NAME
        log = run.path / LOG_NAME
        with reporting_failures(job.output, log):
            known = KnownFiles(run.path / KNOWN_NAME, not job.is_full, job.is_paranoid)
            written, ran = _tables(job.engine, fleet, make(staging, known), log, step)
            run.publish(merge_parts(add_groups(written, staging), staging))
            known.remove_others(each.paths[0] for each in fleet.environments)
            # The report needs the memory of the fleet.
            del fleet
            with step("writing the report"):
                summary = finish(run, ran, staging)
                run.complete(summary.row)
                publish_reports(staging, run.path)
        if job.keep is not None:
            prune(run.path, job.keep)
    with suppress(OSError):
        # Left by an earlier audit that has failed.
        log_beside(job.output).unlink()
    return summary


def _tables(
    choice: EngineChoice, fleet: Fleet, work: AuditTasks, log: Path, step: Step
) -> tuple[Written, EngineInfo]:
    """Return the finished files of all tables, and the engine that made them.

    Args:
        choice: the engine that is wanted. On this machine it is started only if something is left
            for it to read.
        fleet: what is audited.
        work: tasks of the run.
        log: file for all output of Spark.
        step: called with each step.
    """
    written: Written = []
    left = fleet
    if choice.is_here:
        with step("looking for changes") as on_progress:
            written, left = take_over_unchanged(fleet, work, on_progress)
        if not left.environments:
            return written + work.stage_problems(left.problems), EngineInfo("local")
    with open_engine(choice, work.staging, log, step) as (engine, ran):
        return written + run_stages(engine, left, work), ran
