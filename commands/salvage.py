"""`je-tools salvage`: records out of a log that no engine opens."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from je_tools.commands._options import (
    data_option,
    environment_argument,
    exit_zero_option,
    format_option,
    progress_bar,
    say,
    threads_option,
)
from je_tools.errors import EXIT_DAMAGE, EXIT_OK, UsageError
from je_tools.masking import DataMode

if TYPE_CHECKING:
    from je_tools.masking import Masking
    from je_tools.salvage.run import Salvage
    from je_tools.sinks.records import RecordSink


class Options(TypedDict):
    """What the command line says."""

    paths: tuple[Path, ...]
    output: Path
    mode: str
    format_: str
    is_print: bool
    data_mode: str
    internal: bool
    threads: int
    exit_zero: bool


@click.command("salvage")
@environment_argument
@click.option(
    "--output",
    "-o",
    required=True,
    type=click.Path(path_type=Path),
    help="A new directory for the files: one a database, ledger.jsonl, summary.txt.",
)
@click.option(
    "--mode",
    type=click.Choice(["committed", "everything"]),
    default="committed",
    show_default=True,
    help="The newest committed version of each record, or every version there is.",
)
@format_option("dump", "jsonl", "csv", "parquet", default="dump")
@click.option("--print", "is_print", is_flag=True, help="dump: visible characters as they are.")
@data_option
@click.option("--internal", is_flag=True, help="Also the engine's own databases.")
@threads_option
@exit_zero_option
def command(**options: Unpack[Options]) -> int:
    """Write the records that are left of a broken log, and a ledger of what is not.

    Needs no root, no checkpoint and no file in particular: every entry that has a right checksum
    counts, in front of damage and behind it. Slots of B-tree nodes stand in for entries that are
    lost. Prints the summary; the exit code is 3 when something of the log could not be read, or
    when it names records that are not there.

    \b
    Examples:
      je-tools salvage meta/bdb --output rescued
      je-tools salvage env/00000003.jdb env/00000005.jdb --output rescued --format jsonl
      je-tools salvage env --mode everything --output all --format parquet
      java -cp je.jar com.sleepycat.je.util.DbLoad -h new -s users -f rescued/users.dump
    """
    from je_tools.environment import open_environment
    from je_tools.images import unchanged
    from je_tools.salvage.choice import Mode
    from je_tools.salvage.run import salvage
    from je_tools.scan import Scanner
    from je_tools.sinks.output import open_directory

    if options["is_print"] and options["format_"] != "dump":
        raise UsageError("--print is for --format dump")
    environment = open_environment(options["paths"])
    with ExitStack() as stack:
        directory = stack.enter_context(open_directory(options["output"], environment))
        progress = stack.enter_context(progress_bar(environment.size, "salvage"))
        scanner = Scanner(threads=options["threads"], progress=progress, wide=True)
        mode = Mode(options["mode"])
        salvaged = salvage(environment, scanner, mode, internal=options["internal"])
        with unchanged(salvaged.check_files):
            text = _write(salvaged, directory, options)
    click.echo(text, nl=False)
    damage = [hole for hole in salvaged.lost.holes if hole.is_damage]
    if damage:
        say(f"je-tools: {len(damage):,} places could not be read; je-tools verify tells each")
    lost = salvaged.lost_count
    if lost:
        say(
            f"je-tools: {lost:,} records are lost that the rest of the log names; ledger.jsonl has "
            "their keys. Where a node is lost too, nobody knows the keys that only it had."
        )
    return EXIT_DAMAGE if (damage or lost) and not options["exit_zero"] else EXIT_OK


def _write(salvaged: Salvage, directory: Path, options: Options) -> str:
    """Everything that the directory gets; the summary."""
    from je_tools.masking import Masking
    from je_tools.salvage.ledger import LEDGER, SUMMARY, summary_text, write_ledger
    from je_tools.salvage.run import write
    from je_tools.sinks.output import PartPath, open_part

    masking = Masking(DataMode(options["data_mode"]))
    databases = salvaged.databases(internal=options["internal"])
    known = options["output"]
    output = write(salvaged, databases, _sink(salvaged, masking, options), directory, known)
    with open_part(PartPath(directory / LEDGER, known / LEDGER)) as out:
        write_ledger(salvaged, databases, output, masking, out)
    text = summary_text(salvaged, databases, output)
    with open_part(PartPath(directory / SUMMARY, known / SUMMARY)) as out:
        out.write(text.encode())
    return text


def _sink(salvaged: Salvage, masking: Masking, options: Options) -> RecordSink:
    from je_tools.salvage.run import confidence_marks
    from je_tools.sinks.records import RecordFormat, open_record_sink

    return open_record_sink(
        RecordFormat(options["format_"]),
        masking,
        confidence_marks(),
        is_print=options["is_print"],
        fast=salvaged.fast,
        threads=options["threads"],
    )
