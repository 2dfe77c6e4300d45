"""`je-tools salvage`: records of a log that no engine opens."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from je_tools.commands._opening import open_log
from je_tools.commands._options import (
    A_PATH,
    chosen_file_mode,
    data_option,
    exit_zero_option,
    file_mode_option,
    format_option,
    local_environment_argument,
    threads_option,
    tmp_option,
)
from je_tools.commands._progress import progress_bar
from je_tools.commands._scanning import chosen_scanner
from je_tools.commands._terminal import say
from je_tools.core.escaping import counted
from je_tools.core.masking import DataMode
from je_tools.errors import EXIT_DAMAGE, EXIT_OK, UsageError
from je_tools.output.formats import RECORDS
from je_tools.recovery.choices import chosen_now

if TYPE_CHECKING:
    from je_tools.core.masking import Masking
    from je_tools.log.environment import Environment
    from je_tools.output.encoders.record_sources import RecordSink
    from je_tools.salvage.gaps import LogGap
    from je_tools.salvage.report import Losses
    from je_tools.salvage.salvaged import Salvage


class Options(TypedDict):
    """Options of the command line."""

    paths: tuple[Path, ...]
    output: Path
    mode: str
    format_: str
    is_print: bool
    data_mode: str
    internal: bool
    now: str | None
    tmp: Path | None
    threads: int
    max_rate: int | None
    exit_zero: bool


@click.command("salvage")
@local_environment_argument
@click.option(
    "--output",
    "-o",
    required=True,
    type=A_PATH,
    help="A new directory for the output: one file per database, report.jsonl and summary.txt.",
)
@file_mode_option
@click.option(
    "--mode",
    type=click.Choice(["committed", "everything"]),
    default="committed",
    show_default=True,
    help="Write the newest committed version of each record, or every version in the log.",
)
@format_option(*RECORDS, default="dump")
@click.option(
    "--print",
    "is_print",
    is_flag=True,
    help="For --format dump: write printable characters as they are.",
)
@data_option
@click.option("--internal", is_flag=True, help="Also write the engine's internal databases.")
@click.option(
    "--now",
    metavar="TIME",
    help="Omit records that have expired by this time. Without it, expired records are written "
    "too.",
)
@tmp_option
@threads_option
@exit_zero_option
def command(**options: Unpack[Options]) -> int:
    """Write the records that survive in a broken log, and a salvage report of the losses.

    The command needs no root, no checkpoint and no file in particular: every entry with a correct
    checksum counts, before and after damage. Slots of B-tree nodes replace lost entries. The
    salvage report is report.jsonl. The command prints the summary. The exit code is 3 if a part of
    the log is not readable, or records are lost. The files are ordered by the numbers in their
    headers, if the headers are readable.

    \b
    Examples:
      je-tools salvage meta/bdb --output rescued
      je-tools salvage env/00000003.jdb env/00000005.jdb --output rescued --format jsonl
      je-tools salvage env --mode everything --output all --format parquet
      java -cp je.jar com.sleepycat.je.util.DbLoad -h new -s users -f rescued/users.dump
    """
    from je_tools.core.memory import keep_freed_memory_in_one_arena
    from je_tools.log.environment import numbered_by_headers
    from je_tools.log.images import unchanged
    from je_tools.output.files.outputs import open_directory, scratch_directory
    from je_tools.salvage.choice import Mode
    from je_tools.salvage.run import salvage

    keep_freed_memory_in_one_arena()
    if options["output"] == Path("-"):
        raise UsageError(
            "--output -: salvage writes several files: name a new directory, and write one of its "
            "files to standard output afterwards, or pack them with tar"
        )
    if options["is_print"] and options["format_"] != "dump":
        raise UsageError("--print needs --format dump")
    named = open_log(options["paths"])
    environment = numbered_by_headers(named)
    temporary = scratch_directory(options["tmp"], environment)
    with ExitStack() as stack:
        directory = stack.enter_context(
            open_directory(options["output"], environment, chosen_file_mode())
        )
        progress = stack.enter_context(progress_bar(environment.size, "salvage"))
        scanner = chosen_scanner(options, progress)
        salvaged = salvage(
            environment,
            scanner,
            Mode(options["mode"]),
            internal=options["internal"],
            now_ms=chosen_now(options["now"]) if options["now"] else None,
            directory=temporary,
        )
        with unchanged(salvaged.check_files):
            text, losses = _write(salvaged, directory, options)
    click.echo(text, nl=False)
    damage = [gap for gap in salvaged.gaps if gap.is_damage]
    _say_files(named)
    _say_damage(damage)
    _say_losses(losses)
    is_whole = not damage and not environment.misnamed and not any(losses)
    return EXIT_OK if is_whole or options["exit_zero"] else EXIT_DAMAGE


def _say_files(environment: Environment) -> None:
    """Report misnamed and unreadable files on standard error."""
    from je_tools.log.file_findings import misnamed_finding, unreadable_findings

    findings = [*unreadable_findings(environment)]
    findings += [
        misnamed_finding(environment, file.name_no, file.header_no) for file in environment.misnamed
    ]
    for finding in findings:
        say(f"je-tools: {finding.text()}")


def _say_damage(damage: list[LogGap]) -> None:
    """Report what could not be read on standard error."""
    places = sum(gap.file_count == 0 for gap in damage)
    files = sum(gap.file_count for gap in damage)
    if places:
        say(
            f"je-tools: {counted(places, 'place')} could not be read; `je-tools verify` reports "
            "each"
        )
    if files:
        are = "is" if files == 1 else "are"
        say(
            f"je-tools: {counted(files, 'file')} {are} missing or cannot be opened; "
            "`je-tools missing` lists what is lost"
        )


def _say_losses(losses: Losses) -> None:
    """Report known losses on standard error."""
    if losses.records:
        say(f"je-tools: {counted(losses.records, 'record')} lost; the salvage report has the keys")
    if losses.names:
        say(
            f"je-tools: {counted(losses.names, 'name')} without a database; the salvage report "
            "lists them"
        )
    if losses.undecodable:
        entries = counted(losses.undecodable, "record")
        say(f"je-tools: {entries} with a correct checksum but an unknown layout, omitted")


def _write(salvaged: Salvage, directory: Path, options: Options) -> tuple[str, Losses]:
    """Write all files of the directory, and return the summary and the losses."""
    from je_tools.core.masking import Masking
    from je_tools.output.files.outputs import PartPath, open_part
    from je_tools.salvage.output import REPORT, SUMMARY, write
    from je_tools.salvage.report import losses_of, summary_text, write_report

    masking = Masking(DataMode(options["data_mode"]))
    databases = salvaged.databases(internal=options["internal"])
    final = options["output"]
    output = write(salvaged, databases, _sink(salvaged, masking, options), directory, final)
    with open_part(PartPath(directory / REPORT, final / REPORT)) as out:
        write_report(salvaged, databases, output, masking, out)
    text = summary_text(salvaged, databases, output)
    with open_part(PartPath(directory / SUMMARY, final / SUMMARY)) as out:
        out.write(text.encode())
    return text, losses_of(salvaged)


def _sink(salvaged: Salvage, masking: Masking, options: Options) -> RecordSink:
    from je_tools.output.encoders.record_sinks import RecordFormat, open_record_sink
    from je_tools.salvage.output import confidence_marks

    return open_record_sink(
        RecordFormat(options["format_"]),
        masking,
        confidence_marks(),
        is_print=options["is_print"],
        threads=options["threads"],
    )
