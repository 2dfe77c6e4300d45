"""`je-tools verify`: is this log intact, and where is it not?"""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from je_tools.commands._options import (
    environment_argument,
    exit_zero_option,
    format_option,
    output_option,
    progress_bar,
    threads_option,
)
from je_tools.errors import EXIT_DAMAGE, EXIT_OK


@click.command("verify")
@environment_argument
@click.option("--all", "everything", is_flag=True, help="Also say which files end as they should.")
@click.option(
    "--stats",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write totals as JSON to this file instead of in words to standard error.",
)
@click.option(
    "--manifest",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write what was examined to this file: inputs with SHA-256, version, command, times.",
)
@format_option("table", "jsonl")
@output_option
@threads_option
@exit_zero_option
def command(**options: Any) -> int:
    """Report every damaged byte range of a log, and what is wrong between its files.

    Every entry is summed, whole files are compared with what the next ones say of them, and the
    VLSNs of replicated entries must ascend. What a writer that died leaves at the end of the last
    file is a note and no damage. Nothing is printed for an intact log; the verdict goes to
    standard error. The exit code is 3 when there are errors.

    \b
    Examples:
      je-tools verify meta/bdb
      je-tools verify meta/bdb --format jsonl --output findings.jsonl --stats totals.json
      je-tools verify 00000003.jdb --all
      je-tools verify evidence/env --manifest manifest.json
      je-tools verify /var/lib/app/env --exit-zero
    """
    from je_tools.environment import open_environment
    from je_tools.scan import Scanner
    from je_tools.sinks.output import check_output, open_output
    from je_tools.verify import Totals, verify

    started = datetime.now(UTC)
    environment = open_environment(options["paths"])
    for path in (options["stats"], options["manifest"]):
        if path is not None:
            check_output(path, environment)
    totals = Totals(environment.name)
    with ExitStack() as stack:
        out = stack.enter_context(open_output(options["output"], environment))
        progress = stack.enter_context(progress_bar(environment.size, "verify"))
        scanner = Scanner(threads=options["threads"], progress=progress)
        findings = verify(environment, scanner, totals, everything=options["everything"])
        _write(findings, out, options)
    _report(environment, totals, scanner, started, options)
    return EXIT_DAMAGE if totals.errors and not options["exit_zero"] else EXIT_OK


def _write(findings: Any, out: Any, options: dict[str, Any]) -> None:
    from je_tools.sinks.findings import write_jsonl, write_table

    if options["format_"] == "jsonl":
        write_jsonl(findings, out)
    else:
        write_table(findings, out, _width(options["output"]))


def _report(
    environment: Any, totals: Any, scanner: Any, started: datetime, options: dict[str, Any]
) -> None:
    """Totals and manifest, when all has been read."""
    from je_tools.sinks.output import open_output

    if options["stats"] is None:
        click.echo(f"je-tools: {totals.verdict()}", err=True)
    else:
        import json

        with open_output(options["stats"], environment) as out:
            out.write(json.dumps(totals.row(), indent=2).encode() + b"\n")
    if options["manifest"] is not None:
        from je_tools.manifest import write_manifest

        with open_output(options["manifest"], environment) as out:
            write_manifest(out, environment, sys.argv, started, threads=scanner.thread_count())


def _width(output: Path | None) -> int | None:
    """Columns of the terminal that is written to; None where it is none."""
    if "COLUMNS" not in os.environ and (output is not None or not sys.stdout.isatty()):
        return None
    return shutil.get_terminal_size((80, 24)).columns
