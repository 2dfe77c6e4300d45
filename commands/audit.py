"""`je-tools audit`: whole directories of logs, on Spark."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from je_tools.commands._options import CONTEXT, format_option, is_terminal, say, terminal_width
from je_tools.errors import EXIT_DAMAGE, EXIT_OK, UsageError

if TYPE_CHECKING:
    from je_tools.audit.report import FleetSummary

NEVER = "never"


class Options(TypedDict):
    """What the command line says."""

    roots: tuple[Path, ...]
    output: Path
    master: str | None
    settings: tuple[str, ...]
    format_: str
    fail_on: str


@click.group("audit", context_settings=CONTEXT)
def command() -> None:
    """Audit every environment below some directories, on Spark.

    \b
    Examples:
      je-tools audit run /backups --output /var/lib/audit
    """


@command.command("run")
@click.argument("roots", metavar="ROOT...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--output",
    "-o",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of the tables and the report; an earlier audit in it is replaced at the end.",
)
@click.option(
    "--master",
    metavar="URL",
    help="Of a Spark cluster, spark://host:7077 or yarn.  [default: all cores of this machine]",
)
@click.option(
    "--conf",
    "settings",
    metavar="NAME=VALUE",
    multiple=True,
    help="A setting of Spark, spark.executor.memory=2g. Can be repeated.",
)
@format_option("table", "json", "prometheus")
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "note", NEVER]),
    default="error",
    show_default=True,
    help="Exit 3 when there is a finding of that severity or a worse one.",
)
def run(**options: Unpack[Options]) -> int:
    """Find every environment below the roots, read and judge each, and write tables and a report.

    An environment is any directory with .jdb files, and log files that are named themselves. The
    executors do what verify, summary and files do; what cannot be read costs a finding and never
    the audit. The folder holds the tables as Parquet, report.html, audit.json and metrics.prom.

    \b
    Examples:
      je-tools audit run /backups --output /var/lib/audit
      je-tools audit run node1 node2 node3 -o audit --fail-on warning --format json
      je-tools audit run /nfs/fleet -o /nfs/audit --master spark://head:7077
      spark-submit --master yarn $(which je-tools) audit run /nfs/fleet -o /nfs/audit
    """
    from datetime import UTC, datetime

    from je_tools.audit.report import RunInfo, write_reports
    from je_tools.audit.run import Job, Ran, run_audit

    started = datetime.now(UTC)
    job = Job(options["roots"], options["output"], options["master"], _settings(options))
    summaries: list[FleetSummary] = []

    def finish(folder: Path, ran: Ran) -> None:
        about = RunInfo.of(job.roots, started, ran.spark_version, ran.master, job.output)
        summaries.append(write_reports(folder, about))

    run_audit(job, finish, _step)
    _write(summaries[0], options)
    is_failed = options["fail_on"] != NEVER and summaries[0].has(options["fail_on"])
    return EXIT_DAMAGE if is_failed else EXIT_OK
