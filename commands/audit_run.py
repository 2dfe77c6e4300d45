"""`je-tools audit run`: audits of whole directories of logs."""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from je_tools import __version__
from je_tools.commands._audit_engines import (
    EngineOptions,
    chosen_engine,
    engine_options,
    shown_step,
    silence_py4j,
)
from je_tools.commands._options import A_FILE, A_FOLDER, A_LOG, CONTEXT, format_option
from je_tools.commands._terminal import is_terminal, say, terminal_width
from je_tools.core.escaping import counted
from je_tools.errors import EXIT_DAMAGE, EXIT_OK

if TYPE_CHECKING:
    from je_tools.audit.allowed import FailureRules
    from je_tools.audit.engines import EngineInfo
    from je_tools.audit.fleet import FleetSummary
    from je_tools.audit.output_folder import RunFolder

NEVER = "never"


class Options(EngineOptions):
    """Options of the command line."""

    roots: tuple[Path, ...]
    output: Path
    tree: bool
    full: bool
    paranoid: bool
    keep: int | None
    format_: str
    fail_on: tuple[str, ...]
    allow: Path | None


@click.command("run", context_settings=CONTEXT)
@click.argument("roots", metavar="ROOT...", nargs=-1, required=True, type=A_LOG)
@click.option(
    "--output",
    "-o",
    required=True,
    type=A_FOLDER,
    help="Folder for the tables of all runs, and the report of the last run.",
)
@engine_options
@click.option(
    "--tree",
    is_flag=True,
    help="Also check the B-trees, and count the keys that are lost.",
)
@click.option(
    "--full",
    is_flag=True,
    help="Read every file, also those that have not changed since the last run.",
)
@click.option(
    "--paranoid",
    is_flag=True,
    help="Compare a checksum of all bytes of a file to tell whether it has changed.",
)
@click.option(
    "--keep",
    metavar="N",
    type=click.IntRange(min=1),
    help="Remove all but the last N runs from the folder.",
)
@format_option("table", "json", "prometheus", "junit")
@click.option(
    "--fail-on",
    metavar="SEVERITY|CODE",
    multiple=True,
    default=("error",),
    show_default=True,
    help="Exit with 3 if there is a finding of this severity or worse (error, warning, note), or "
    "of this code. With only `never`, exit with 0. Can be repeated.",
)
@click.option(
    "--allow",
    type=A_FILE,
    metavar="FILE",
    help="File of known findings, which do not make the audit fail before a given day.",
)
def command(**options: Unpack[Options]) -> int:
    """Find every environment below the roots, verify each, and write tables and a report.

    An environment is any directory with .jdb files, or log files given by name. A root may be a
    URI, such as s3://backups/fleet. Spark's executors do the work of verify, summary and files.
    Unreadable input becomes a finding, and does not stop the audit. The output folder holds the
    tables as Parquet, report.html, audit.json and metrics.prom.

    \b
    Examples:
      je-tools audit run /backups --output /var/lib/audit
      je-tools audit run node1 node2 node3 -o audit --fail-on warning --format json
      je-tools audit run /nfs/fleet -o /nfs/audit --master spark://head:7077
      spark-submit --master yarn tools.py audit run /nfs/fleet -o /nfs/audit
    """
    from je_tools.core.memory import coordinate_in_little_memory

    coordinate_in_little_memory()

    from je_tools.audit.fleet import RunInfo
    from je_tools.audit.report import write_reports
    from je_tools.audit.run import AuditJob, run_audit
    from je_tools.audit.stake_finder import StakeFinder
    from je_tools.audit.tasks import AuditTasks
    from je_tools.core.escaping import clean_text

    silence_py4j()
    started = time.time()
    job = AuditJob(
        options["roots"],
        options["output"],
        engine=chosen_engine(options),
        keep=options["keep"],
        is_full=options["full"],
        is_paranoid=options["paranoid"],
    )

    def finish(run: RunFolder, ran: EngineInfo, folder: Path) -> FleetSummary:
        about = RunInfo(
            run=run.run,
            roots=tuple(clean_text(str(root)) for root in job.roots),
            started_ms=int(started * 1000),
            duration_ms=int((time.time() - started) * 1000),
            version=__version__,
            engine=ran.engine,
            spark_version=ran.spark_version,
            master=ran.master,
            tables=str(job.output),
        )
        return write_reports(run, about, folder)

    rules = _failure_rules(options)
    make = partial(AuditTasks, stakes_of=StakeFinder(options["tree"]))
    step = shown_step if is_terminal(sys.stderr) else None
    summary = run_audit(job, make, finish, step)
    _write(summary, rules, options)
    fails = any(rules.failing(row) for row in summary.environments)
    return EXIT_DAMAGE if fails else EXIT_OK


def _failure_rules(options: Options) -> FailureRules:
    """Return the findings and severities that decide the exit code.

    Raises:
        UsageError: `--fail-on` names no severity and no code, or `never` beside others, or the
            file of `--allow` has a wrong form.
        InputError: the file cannot be read.
    """
    from je_tools.audit.allowed import FailureRules, check_code, read_allowed
    from je_tools.errors import UsageError
    from je_tools.findings import Severity

    fail_on = options["fail_on"]
    if NEVER in fail_on:
        if others := [each for each in fail_on if each != NEVER]:
            raise UsageError(f"--fail-on never excludes --fail-on {others[0]}: give one of them")
        fail_on = ()
    for each in fail_on:
        if each not in list(Severity):
            check_code(each, "--fail-on")
    allowed = () if options["allow"] is None else read_allowed(options["allow"])
    return FailureRules(fail_on, allowed, datetime.now(UTC).date())


UNREAD_SHOWN = 10
"""Largest number of unreadable places for which the reasons are shown."""

SHOWN = 40
"""Largest number of environments in a table for people; the report has all."""


def _write(summary: FleetSummary, rules: FailureRules, options: Options) -> None:
    from je_tools.audit.junit import junit_text
    from je_tools.audit.metrics import metrics_text
    from je_tools.audit.summary_json import json_lines
    from je_tools.output.views.fleet_tables import fleet_section
    from je_tools.output.views.section_tables import write_table

    if options["format_"] == "table":
        rows = summary.environments[:SHOWN]
        write_table([fleet_section(rows)], sys.stdout.buffer, terminal_width(None))
        if len(rows) < len(summary.environments):
            say(f"je-tools: {len(summary.environments) - len(rows):,} more, none of them worse")
    else:
        pieces = {
            "json": lambda: json_lines(summary),
            "prometheus": lambda: metrics_text(summary),
            "junit": lambda: junit_text(summary, rules),
        }
        for piece in pieces[options["format_"]]():
            sys.stdout.buffer.write(piece.encode())
    sys.stdout.buffer.flush()
    _say_unread(summary, options["output"])
    _say_verdict(summary, options["output"])
    _say_allowed(summary, rules)


def _say_unread(summary: FleetSummary, output: Path) -> None:
    """Say why something could not be read: the table has only counts of findings."""
    from je_tools.audit.fleet import read_unread
    from je_tools.audit.output_folder import RunFolder

    count = sum(found.count for found in summary.findings if found.code == "unread")
    for env, reason in read_unread(
        RunFolder(output, summary.run.run), UNREAD_SHOWN if count else 0
    ):
        say(f"je-tools: not read: {env}: {reason}")
    if count > UNREAD_SHOWN:
        say(f"je-tools: not read: {count - UNREAD_SHOWN:,} more, in the table findings")


def _say_allowed(summary: FleetSummary, rules: FailureRules) -> None:
    count = rules.allowed_count(summary.environments)
    if count:
        say(f"je-tools: {counted(count, 'finding')} allowed by --allow")
    for each in rules.expired:
        say(f"je-tools: --allow: {each.code} of {each.env} was allowed until {each.until}")


def _say_verdict(summary: FleetSummary, output: Path) -> None:
    totals = summary.totals
    kinds = [f"{count:,} {name}" for name, count in summary.counts.severities.items() if count]
    say(
        f"je-tools: {counted(totals['environment_count'], 'environment')} ({', '.join(kinds)}), "
        f"{counted(totals['file_count'], 'file')}, {counted(totals['size'], 'byte')}, "
        f"{totals['entry_count']:,} good {'entry' if totals['entry_count'] == 1 else 'entries'}"
    )
    say(f"je-tools: tables and report.html are in {output}")
