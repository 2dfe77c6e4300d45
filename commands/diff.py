"""`je-tools diff`: two environments, or an environment and its backup."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
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
from je_tools.commands._snapshot import (
    database_option,
    internal_option,
    now_option,
    open_home,
    open_results,
    say_findings,
)
from je_tools.errors import EXIT_DAMAGE, EXIT_OK, UsageError

if TYPE_CHECKING:
    from typing import BinaryIO

    from je_tools.diff.environments import Tally
    from je_tools.masking import Masking
    from je_tools.sinks.sections import Section
    from je_tools.snapshot import Snapshot

WHAT = ("databases", "records", "blocks", "files")


class Options(TypedDict):
    """What the command line says."""

    a: Path
    b: Path
    names: tuple[str, ...]
    internal: bool
    what: str
    blocks: int | None
    now: str | None
    format_: str
    data_mode: str
    output: Path | None
    threads: int
    exit_zero: bool


@click.command("diff")
@click.argument("a", metavar="A", type=click.Path(path_type=Path))
@click.argument("b", metavar="B", type=click.Path(path_type=Path))
@click.option(
    "--show",
    "what",
    type=click.Choice(WHAT),
    default="databases",
    show_default=True,
    help="A row for each database; each record that differs; ranges of them; each file.",
)
@click.option(
    "--blocks",
    type=click.IntRange(1),
    metavar="N",
    help="Show blocks: differences with fewer than N equal records in between count as one.",
)
@database_option
@internal_option
@now_option
@format_option("table", "jsonl", "csv", "parquet")
@data_option
@output_option
@threads_option
@exit_zero_option
def command(**options: Unpack[Options]) -> int:
    """Hold two environments against each other: an environment and its backup, two nodes.

    Both are taken as they are after recovery. The exit code is 3 where they differ. --show files
    holds B as a copy of A: whether it is complete, and what has changed since.

    \b
    Examples:
      je-tools diff env backup
      je-tools diff env backup --show files
      je-tools diff node1 node2 --db people --show records --format jsonl
      je-tools diff node1 node2 --blocks 100
    """
    _check(options)
    from je_tools.sinks.output import check_outside

    environments = [open_home(options["a"]), open_home(options["b"])]
    if options["output"] is not None:
        check_outside(options["output"], environments)
    differs = _files(options) if options["what"] == "files" else _records(options)
    return EXIT_DAMAGE if differs and not options["exit_zero"] else EXIT_OK


def _check(options: Options) -> None:
    if options["blocks"] is not None:
        if options["what"] not in ("databases", "blocks"):
            raise UsageError(f"--blocks and --show {options['what']}: give one of them")
        options["what"] = "blocks"
    what, form = options["what"], options["format_"]
    if form == "parquet" and what != "records":
        raise UsageError("--format parquet is for --show records")
    if form == "table" and what == "records":
        raise UsageError("--show records has no table: give --format jsonl, csv or parquet")
    if form == "parquet" and options["output"] is None:
        raise UsageError("--format parquet needs --output")


def _files(options: Options) -> bool:
    """Compare the files."""
    from je_tools.diff.files import WRONG, FileState, compare_files
    from je_tools.sinks.diff_tables import file_section
    from je_tools.sinks.output import open_output

    environment, copy = open_home(options["a"]), open_home(options["b"])
    pairs = list(compare_files(environment, copy))
    with open_output(options["output"], environment) as out:
        _write_section(file_section(pairs), out, options)
    wrong = [pair for pair in pairs if pair.state in WRONG]
    since = [pair for pair in pairs if pair.state in (FileState.NEWER, FileState.SHORTER)]
    if copy.marker is not None:
        say(f"je-tools: {options['b']}: holds a marker file: a restore did not come to its end")
    if wrong:
        first = wrong[0]
        told = f"file {first.file_no:08x}.jdb is {first.state.value}"
        say(f"je-tools: {options['b']} is no whole copy: {told}, {len(wrong)} files in all")
    else:
        say(
            f"je-tools: {options['b']} is a copy of {options['a']}; of {len(since)} files "
            "something was written since"
        )
    return bool(wrong) or copy.marker is not None


def _records(options: Options) -> bool:
    """Compare the records."""
    with _snapshot(options, "a") as a, _snapshot(options, "b") as b:
        return _compare(a, b, options)


def _compare(a: Snapshot, b: Snapshot, options: Options) -> bool:
    from je_tools.diff.environments import Tally, pairs

    chosen = pairs(a, b, options["names"], internal=options["internal"])
    lacking = set(options["names"]) - {pair.name for pair in chosen}
    if lacking:
        raise UsageError(f"--db {min(lacking)}: neither has such a database")
    tallies = [Tally(pair) for pair in chosen]
    # One for all, so that a salted hash of one value is the same throughout.
    masking = chosen_masking(options["data_mode"])
    with (
        progress_bar(0, "diff"),
        open_results(options["output"], a, b) as out,
    ):
        _write_records(a, b, tallies, masking, out, options)
    differing = [tally for tally in tallies if tally.differs]
    for snapshot in (a, b):
        _say_findings(snapshot, masking)
    say(f"je-tools: {len(differing)} of {len(tallies)} databases differ")
    return bool(differing) or bool(a.faults) or bool(b.faults)


def _snapshot(options: Options, side: str) -> AbstractContextManager[Snapshot]:
    from je_tools.scan import Scanner
    from je_tools.snapshot import held_snapshot
    from je_tools.times import parse_time

    now_ms = parse_time(options["now"]) if options["now"] else time.time_ns() // 1_000_000
    scanner = Scanner(threads=options["threads"], wide=True)
    environment = open_home(options["a"] if side == "a" else options["b"])
    return held_snapshot(environment, scanner, now_ms=now_ms)


def _write_records(
    a: Snapshot,
    b: Snapshot,
    tallies: list[Tally],
    masking: Masking,
    out: BinaryIO,
    options: Options,
) -> None:
    from je_tools.diff.environments import differences
    from je_tools.diff.records import Change, Changes, blocks
    from je_tools.sinks.diff_tables import block_section, database_section

    def counted(tally: Tally) -> Iterator[Changes]:
        for batch in differences(a, b, tally.pair):
            tally.add(batch)
            yield batch

    if options["what"] == "records":
        from typing import cast

        from je_tools.export import named
        from je_tools.sinks.record_lines import Marks
        from je_tools.sinks.records import RecordFormat, Source, open_record_sink, write_stream

        labels = tuple(change.label for change in Change)
        marks = Marks("change", labels, lambda records: cast(Changes, records).change)
        form = RecordFormat(options["format_"])
        sink = open_record_sink(form, masking, marks, fast=a.fast or b.fast)
        sources = (Source(named(each.pair.either, a, b), counted(each)) for each in tallies)
        write_stream(sink, sources, out)
    elif options["what"] == "blocks":
        most = options["blocks"] or 1
        found = [(t.pair.name, block) for t in tallies for block in blocks(counted(t), most)]
        _write_section(block_section(found, masking), out, options)
    else:
        for tally in tallies:
            for _ in counted(tally):
                pass
        _write_section(database_section(tallies), out, options)


def _write_section(section: Section, out: BinaryIO, options: Options) -> None:
    from je_tools.sinks.sections import write_csv, write_jsonl, write_table

    if options["format_"] == "jsonl":
        write_jsonl([section], out)
    elif options["format_"] == "csv":
        write_csv([section], out)
    else:
        write_table([section], out, terminal_width(options["output"]))


def _say_findings(snapshot: Snapshot, masking: Masking) -> None:
    from je_tools.recovery.findings import snapshot_findings

    say_findings(snapshot_findings(snapshot, masking), snapshot.environment.name)
