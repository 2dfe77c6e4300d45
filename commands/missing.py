"""`je-tools missing`: what is lost with files that are not there?"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from je_tools.commands._options import (
    chosen_masking,
    data_option,
    exit_zero_option,
    format_option,
    output_option,
    progress_bar,
    say,
    terminal_width,
    threads_option,
)
from je_tools.commands._snapshot import home_argument, now_option, open_home
from je_tools.errors import EXIT_DAMAGE, EXIT_OK, UsageError

if TYPE_CHECKING:
    from je_tools.environment import Environment
    from je_tools.missing import Report


class Options(TypedDict):
    """What the command line says."""

    path: Path
    without: tuple[str, ...]
    now: str | None
    data_mode: str
    format_: str
    output: Path | None
    threads: int
    exit_zero: bool


@click.command("missing")
@home_argument
@click.option(
    "--without",
    multiple=True,
    metavar="FILE",
    help="Take this file as missing, by number (0x3) or name; several times for several.",
)
@now_option
@data_option
@format_option("table", "jsonl")
@output_option
@threads_option
@exit_zero_option
def command(**options: Unpack[Options]) -> int:
    """Tell what is lost with log files that are missing, and what is left of it.

    The B-trees name every record and node that is in use. Those that lie in a file which is not
    there are listed: databases whose descriptor is lost, ranges of keys whose node is lost, and
    keys whose record is lost alone; and for how many keys the other files have a record, which
    `je-tools salvage` gets out. With --without the same of files that are there: what would be
    lost with them. The exit code is 3 where something is lost.

    \b
    Examples:
      je-tools missing meta/bdb
      je-tools missing meta/bdb --without 00000003.jdb
      je-tools missing meta/bdb --format jsonl --output lost.jsonl
    """
    from je_tools.missing import report_missing
    from je_tools.scan import Scanner
    from je_tools.sinks.missing_tables import LISTED, missing_sections
    from je_tools.sinks.output import check_output, open_output
    from je_tools.sinks.sections import write_jsonl, write_table
    from je_tools.times import parse_time

    environment = open_home(options["path"])
    without = _numbers(environment, options["without"])
    now_ms = parse_time(options["now"]) if options["now"] else time.time_ns() // 1_000_000
    if options["output"] is not None:
        check_output(options["output"], environment)
    with progress_bar(environment.size, "missing") as progress:
        scanner = Scanner(threads=options["threads"], progress=progress, wide=True)
        report = report_missing(environment, scanner, without, now_ms)
    masking = chosen_masking(options["data_mode"])
    with open_output(options["output"], environment) as out:
        if options["format_"] == "jsonl":
            write_jsonl(missing_sections(report, masking, listed=None), out)
        else:
            sections = list(missing_sections(report, masking, listed=LISTED))
            if sections:
                write_table(sections, out, terminal_width(options["output"]))
    _say(environment, report)
    return EXIT_DAMAGE if _has_loss(report) and not options["exit_zero"] else EXIT_OK


def _numbers(environment: Environment, named: tuple[str, ...]) -> list[int]:
    """Numbers of files by their names or numbers.

    Raises:
        UsageError: there is no such file.
    """
    there = {file.file_no for file in environment.files}
    numbers = []
    for text in named:
        stem = Path(text).name.removesuffix(".jdb")
        try:
            number = int(stem, 0 if stem.lower().startswith("0x") else 16)
        except ValueError:
            number = -1
        if number not in there:
            raise UsageError(f"--without {text}: no such file; name one as 00000003.jdb or 0x3")
        numbers.append(number)
    return numbers


def _has_loss(report: Report) -> bool:
    return bool(report.losses) or report.refused is not None


def _say(environment: Environment, report: Report) -> None:
    """The verdict, on standard error."""
    for finding in report.findings:
        say(f"je-tools: {finding.text()}")
    if report.refused is not None:
        say(f"je-tools: {report.refused}")
    elif not report.losses:
        say(f"je-tools: {environment.name}: nothing that is in use is missing")
    else:
        ranges = sum(len(loss.ranges) for loss in report.losses)
        keys = sum(len(loss.keys) for loss in report.losses)
        say(
            f"je-tools: {environment.name}: lost in {len(report.losses)} databases: "
            f"{ranges:,} ranges of keys, {keys:,} keys alone. `je-tools salvage` gets out what the "
            "other files have."
        )
