"""`je-tools audit run`: audits of whole directories of logs."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from je_tools import __version__
from je_tools.commands._options import (
    A_PATH,
    CONTEXT,
    format_option,
    is_terminal,
    say,
    terminal_width,
)
from je_tools.core.escaping import counted
from je_tools.errors import EXIT_DAMAGE, EXIT_OK, UsageError

if TYPE_CHECKING:
    from je_tools.audit.fleet import FleetSummary
    from je_tools.audit.output_folder import RunFolder

NEVER = "never"
LOCAL = "local"


class Options(TypedDict):
    """Options of the command line."""

    roots: tuple[Path, ...]
    output: Path
    engine: str
    full: bool
    paranoid: bool
    keep: int | None
    master: str | None
    settings: tuple[str, ...]
    format_: str
    fail_on: str


@click.command("run", context_settings=CONTEXT)
@click.argument("roots", metavar="ROOT...", nargs=-1, required=True, type=A_PATH)
@click.option(
    "--output",
    "-o",
    required=True,
    type=click.Path(path_type=Path, readable=False, file_okay=False),
    help="Folder for the tables of all runs, and the report of the last.",
)
@click.option(
    "--engine",
    type=click.Choice(["spark", LOCAL]),
    default="spark",
    show_default=True,
    help="Run on Spark, or in processes of this machine, without Java.",
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
@click.option(
    "--master",
    metavar="URL",
    help="Spark cluster: spark://host:7077 or yarn.  [default: all cores of this machine]",
)
@click.option(
    "--conf",
    "settings",
    metavar="NAME=VALUE",
    multiple=True,
    help="A Spark setting, such as spark.executor.memory=2g. Can be repeated.",
)
@format_option("table", "json", "prometheus")
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "note", NEVER]),
    default="error",
    show_default=True,
    help="Exit with 3 if there is a finding of this severity or worse.",
)
def command(**options: Unpack[Options]) -> int:
    """Find every environment below the roots, verify each, and write tables and a report.

    An environment is any directory with .jdb files, or log files given by name. Spark's executors
    do the work of verify, summary and files. Unreadable input becomes a finding, and does not stop
    the audit. The output folder holds the tables as Parquet, report.html, audit.json and
    metrics.prom.

    \b
    Examples:
      je-tools audit run /backups --output /var/lib/audit
      je-tools audit run node1 node2 node3 -o audit --fail-on warning --format json
      je-tools audit run /nfs/fleet -o /nfs/audit --master spark://head:7077
      spark-submit --master yarn tools.py audit run /nfs/fleet -o /nfs/audit
    """
    from je_tools.audit.fleet import RunInfo
    from je_tools.audit.report import write_reports
    from je_tools.audit.run import Job, Ran, run_audit

    # On an interrupt, Py4J logs at length to the root logger.
    logging.getLogger().addHandler(logging.NullHandler())
    started = time.time()
    job = Job(
        options["roots"],
        options["output"],
        is_local=_is_local(options),
        master=options["master"],
        settings=_settings(options),
        keep=options["keep"],
        is_full=options["full"],
        is_paranoid=options["paranoid"],
    )

    def finish(run: RunFolder, ran: Ran, folder: Path) -> FleetSummary:
        about = RunInfo(
            run=run.run,
            roots=tuple(map(str, job.roots)),
            started_ms=int(started * 1000),
            duration_ms=int((time.time() - started) * 1000),
            version=__version__,
            engine=ran.engine,
            spark_version=ran.spark_version,
            master=ran.master,
            tables=str(job.output),
        )
        return write_reports(run, about, folder)

    summary = run_audit(job, finish, _steps if is_terminal(sys.stderr) else None)
    _write(summary, options)
    return _exit_code(summary, options["fail_on"])


SHOWN = 40
"""Largest number of environments in a table for people; the report has all."""


def _is_local(options: Options) -> bool:
    if options["engine"] != LOCAL:
        return False
    for name, value in (("--master", options["master"]), ("--conf", options["settings"])):
        if value:
            raise UsageError(f"{name}: --engine local runs without Spark")
    return True


def _settings(options: Options) -> dict[str, str]:
    settings = {}
    for text in options["settings"]:
        name, equals, value = text.partition("=")
        if not equals or not name.startswith("spark."):
            raise UsageError(f"--conf {text}: expected spark.NAME=VALUE")
        if name == "spark.master":
            raise UsageError(f"--conf {text}: give the master with --master")
        settings[name] = value
    return settings


@contextmanager
def _steps(name: str) -> Iterator[Callable[[int, int], None]]:
    """Show a line on the terminal during a step, with a bar once its tasks are known."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn

    columns = (name, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(name, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _write(summary: FleetSummary, options: Options) -> None:
    from je_tools.audit.metrics import metrics_text
    from je_tools.audit.summary_json import json_lines
    from je_tools.output.views.fleet_tables import fleet_section
    from je_tools.output.views.sections import write_table

    if options["format_"] == "table":
        rows = summary.environments[:SHOWN]
        write_table([fleet_section(rows)], sys.stdout.buffer, terminal_width(None))
        if len(rows) < len(summary.environments):
            say(f"je-tools: {len(summary.environments) - len(rows):,} more, none of them worse")
    else:
        text = json_lines if options["format_"] == "json" else metrics_text
        for piece in text(summary):
            sys.stdout.buffer.write(piece.encode())
    sys.stdout.buffer.flush()
    _say_verdict(summary, options["output"])


def _say_verdict(summary: FleetSummary, output: Path) -> None:
    totals = summary.totals
    kinds = [f"{count:,} {name}" for name, count in summary.severities.items() if count]
    say(
        f"je-tools: {counted(totals['environment_count'], 'environment')} ({', '.join(kinds)}), "
        f"{counted(totals['file_count'], 'file')}, {counted(totals['size'], 'byte')}, "
        f"{totals['entry_count']:,} good {'entry' if totals['entry_count'] == 1 else 'entries'}"
    )
    say(f"je-tools: tables and report.html are in {output}")


def _exit_code(summary: FleetSummary, fail_on: str) -> int:
    from je_tools.findings import Severity

    if fail_on == NEVER:
        return EXIT_OK
    return EXIT_DAMAGE if summary.reaches(Severity(fail_on)) else EXIT_OK
