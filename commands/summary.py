"""`je-tools summary`: counts of the contents of a log."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypedDict, Unpack

import click

from je_tools.commands._findings import (
    add_findings,
    check_outputs,
    findings_option,
    save_findings,
)
from je_tools.commands._opening import open_log
from je_tools.commands._options import (
    check_has_output,
    chosen_file_mode,
    environment_argument,
    exit_zero_option,
    format_option,
    output_option,
    threads_option,
)
from je_tools.commands._progress import progress_bar
from je_tools.commands._scanning import chosen_scanner
from je_tools.commands._terminal import say, terminal_width
from je_tools.errors import EXIT_DAMAGE, EXIT_OK, UsageError
from je_tools.output.formats import ROWS

if TYPE_CHECKING:
    from je_tools.output.views.sections import Section
    from je_tools.summary.run import Summary

DEFAULT_LARGEST = 10


class Options(TypedDict):
    """Options of the command line."""

    paths: tuple[Path, ...]
    by_file: bool
    by_db: bool
    vlsns: bool
    checkpoints: bool
    txns: bool
    largest: int | None
    format_: str
    output: Path | None
    findings_path: Path | None
    threads: int
    max_rate: int | None
    exit_zero: bool


@click.command("summary")
@environment_argument
@click.option("--by-file", is_flag=True, help="Also show entries and bytes of each file.")
@click.option("--by-db", is_flag=True, help="Also show entries and bytes of each database.")
@click.option(
    "--vlsn",
    "vlsns",
    is_flag=True,
    help="Also show replicated entries of each file, first and last VLSN, as DbPrintLog -vd does.",
)
@click.option(
    "--checkpoints",
    is_flag=True,
    help="Also show checkpoint intervals as DbPrintLog -S does, with LSNs, duration and invoker.",
)
@click.option(
    "--txns", is_flag=True, help="Also show transactions without an end, and the largest ones."
)
@click.option(
    "--largest",
    type=click.IntRange(min=1),
    help=f"With --txns: the number of largest transactions.  [default: {DEFAULT_LARGEST}]",
)
@format_option(*ROWS)
@output_option
@findings_option
@threads_option
@exit_zero_option
def command(**options: Unpack[Options]) -> int:
    """Count entries and bytes by type, as DbPrintLog -S does.

    Each option adds a table. CSV and Parquet hold only the tables of one option; without an option,
    those of types, groups, sizes and the total. Damaged entries are not counted. If verify would
    find errors, standard error reports their number, and the exit code is 3.

    \b
    Examples:
      je-tools summary meta/bdb
      je-tools summary meta/bdb --by-db
      je-tools summary meta/bdb --txns --largest 3
      je-tools summary env --checkpoints --format csv
      je-tools summary env --by-file --vlsn --format jsonl --output summary.jsonl
    """
    from je_tools.output.files.outputs import open_output
    from je_tools.summary.run import SummaryOptions, summarize

    _check_combination(options)
    environment = open_log(options["paths"])
    check_outputs({"output": options["output"], "findings": options["findings_path"]}, environment)
    wanted = SummaryOptions(
        databases=options["by_db"],
        vlsns=options["vlsns"],
        checkpoints=options["checkpoints"],
        largest=(options["largest"] or DEFAULT_LARGEST) if options["txns"] else None,
    )
    with (
        open_output(options["output"], environment, chosen_file_mode()) as out,
        progress_bar(environment.size, "summary") as progress,
    ):
        summary = summarize(environment, chosen_scanner(options, progress), wanted)
        _write(summary, out, options)
        add_findings(summary.findings, out, options["format_"], options["findings_path"])
    save_findings(summary.findings, options["findings_path"], environment)
    return _exit_code(summary, options["exit_zero"])


def _check_combination(options: Options) -> None:
    tables = (
        options["by_file"],
        options["by_db"],
        options["vlsns"],
        options["checkpoints"],
        options["txns"],
    )
    form = options["format_"]
    check_has_output(form, options["output"])
    if form in ("csv", "parquet") and sum(tables) > 1:
        raise UsageError(f"--format {form} holds one table: choose one of them, or --format jsonl")
    if options["largest"] and not options["txns"]:
        raise UsageError("--largest needs --txns: add it")


def _write(summary: Summary, out: BinaryIO, options: Options) -> None:
    from je_tools.output.views import summary_tables as tables
    from je_tools.output.views.section_formats import write_sections

    chosen: list[Section] = []
    if options["by_file"]:
        chosen.append(tables.file_section(summary))
    if options["by_db"]:
        chosen.append(tables.database_section(summary))
    if options["vlsns"]:
        chosen.append(tables.vlsn_section(summary))
    if options["checkpoints"]:
        chosen.append(tables.checkpoint_section(summary))
    if summary.transactions is not None:
        chosen += tables.transaction_sections(summary.transactions, summary.names)
    form = options["format_"]
    if form in ("csv", "parquet"):
        # The last two sections on transactions have the same columns; the first has others.
        chosen = chosen[-2:] or tables.type_sections(summary)
    else:
        chosen = [*tables.type_sections(summary), *chosen]
    write_sections(form, chosen, out, terminal_width(options["output"]))


def _exit_code(summary: Summary, exit_zero: bool) -> int:
    """Report what was not counted, and return the exit code."""
    if summary.undecoded:
        say(
            f"je-tools: {summary.undecoded:,} records end inside a field: their keys and values "
            "are not counted"
        )
    if not summary.damage:
        return EXIT_OK
    say(f"je-tools: {summary.damage.text()}; `je-tools verify` reports the places")
    return EXIT_OK if exit_zero else EXIT_DAMAGE
