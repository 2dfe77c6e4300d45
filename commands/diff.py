"""`je-tools diff`: comparison of two environments, or of an environment and its backup."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from je_tools.commands._findings import (
    add_findings,
    check_outputs,
    exit_code_of,
    findings_option,
    save_findings,
    say_findings,
)
from je_tools.commands._options import (
    A_PATH,
    check_has_output,
    chosen_file_mode,
    chosen_masking,
    data_option,
    exit_zero_option,
    format_option,
    output_option,
    threads_option,
)
from je_tools.commands._progress import staged_bar
from je_tools.commands._scanning import chosen_scanner
from je_tools.commands._snapshot import (
    EndOptions,
    database_option,
    end_lsn,
    end_of,
    end_options,
    internal_option,
    now_option,
    open_home,
    open_results,
    write_section,
)
from je_tools.commands._terminal import say
from je_tools.core.escaping import counted
from je_tools.errors import EXIT_DAMAGE, EXIT_OK, UsageError
from je_tools.output.formats import ROWS
from je_tools.recovery.choices import chosen_now

if TYPE_CHECKING:
    from typing import BinaryIO

    from je_tools.core.masking import Masking
    from je_tools.diff.environments import DatabaseDifferences, Pair
    from je_tools.diff.files import FilePair
    from je_tools.diff.records import ChangedRecords
    from je_tools.output.views.sections import Section
    from je_tools.recovery.snapshot import Snapshot

WHAT = ("databases", "records", "blocks", "files")


class Options(EndOptions):
    """Options of the command line."""

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
    max_rate: int | None
    exit_zero: bool
    findings_path: Path | None


@click.command("diff")
@click.argument("a", metavar="A", type=A_PATH)
@click.argument("b", metavar="B", type=A_PATH)
@click.option(
    "--show",
    "what",
    type=click.Choice(WHAT),
    default="databases",
    show_default=True,
    help="Show a row for each database, each record that differs, each block of these, or each "
    "file.",
)
@click.option(
    "--blocks",
    type=click.IntRange(1),
    metavar="N",
    help="Show blocks: differences with fewer than N equal records between them are one block.",
)
@database_option
@internal_option
@now_option
@end_options
@format_option(*ROWS)
@data_option
@output_option
@findings_option
@threads_option
@exit_zero_option
def command(**options: Unpack[Options]) -> int:
    """Compare two environments: an environment and its backup, or two nodes.

    The command compares both as they are after recovery. The exit code is 3 if they differ. --show
    files checks B as a copy of A: whether it is complete, and what has changed since. --to-lsn,
    --to-vlsn and --to-time use A as it was earlier. With the same directory twice, they show the
    changes since then.

    \b
    Examples:
      je-tools diff env backup
      je-tools diff env backup --show files
      je-tools diff node1 node2 --db people --show records --format jsonl
      je-tools diff node1 node2 --blocks 100
      je-tools diff env env --to-time 2026-11-20T10:00:00
    """
    options["what"] = _shown(options)
    _check(options)
    environments = [open_home(options["a"]), open_home(options["b"])]
    paths = {"output": options["output"], "findings": options["findings_path"]}
    check_outputs(paths, *environments)
    differs = _compare_files(options) if options["what"] == "files" else _compare_records(options)
    return EXIT_DAMAGE if differs and not options["exit_zero"] else EXIT_OK


def _shown(options: Options) -> str:
    """Return what `--show` names, or `--blocks` implies.

    Raises:
        UsageError: they exclude each other.
    """
    if options["blocks"] is None:
        return options["what"]
    if options["what"] not in ("databases", "blocks"):
        raise UsageError(f"--blocks and --show {options['what']}: give one of them")
    return "blocks"


def _check(options: Options) -> None:
    """Refuse options that exclude each other, and Parquet without an output."""
    what, form = options["what"], options["format_"]
    ends = end_of(options).named()
    if what == "files" and ends:
        raise UsageError(f"--show files compares whole files: omit {ends[0]}")
    check_has_output(form, options["output"])


def _compare_files(options: Options) -> bool:
    """Compare the files, and return True if any are not as in a complete copy."""
    from je_tools.diff.files import WRONG, compare_files
    from je_tools.log.file_findings import unreadable_findings
    from je_tools.output.files.outputs import open_output
    from je_tools.output.views.diff_tables import file_section

    environment, copy = open_home(options["a"]), open_home(options["b"])
    with staged_bar(0, "diff"):
        pairs = list(compare_files(environment, copy))
    findings = [*unreadable_findings(environment), *unreadable_findings(copy)]
    with open_output(options["output"], environment, chosen_file_mode()) as out:
        _write_section(file_section(pairs), out, options)
        add_findings(findings, out, options["format_"], options["findings_path"])
    save_findings(findings, options["findings_path"], environment)
    wrong = [pair for pair in pairs if pair.state in WRONG]
    if copy.marker is not None:
        say(f"je-tools: {options['b']}: the directory has a marker file: a restore did not finish")
    say(f"je-tools: {options['b']} {_verdict(options['a'], pairs, wrong)}")
    return bool(wrong) or copy.marker is not None


def _verdict(a: Path, pairs: list[FilePair], wrong: list[FilePair]) -> str:
    """Return the verdict on a copy of `a` as text."""
    from je_tools.diff.files import CopyState

    if wrong:
        first = f"first {wrong[0].file_no:08x}.jdb ({wrong[0].state.value})"
        are = "is" if len(wrong) == 1 else "are"
        return (
            f"is not a complete copy of {a}: {len(wrong):,} of {counted(len(pairs), 'file')} "
            f"{are} wrong, {first}"
        )
    since = sum(pair.state in (CopyState.NEWER, CopyState.SHORTER) for pair in pairs)
    text = f"{counted(since, 'file')} changed since"
    return f"is a copy of {a}; {text if since else 'nothing has changed since'}"


def _compare_records(options: Options) -> bool:
    """Compare the records, and return True if any differ or may be hidden by damage."""
    with ExitStack() as stack:
        with staged_bar(0, "diff"):
            a = stack.enter_context(_snapshot(options, "a"))
            b = stack.enter_context(_snapshot(options, "b"))
        return _compare_snapshots(a, b, options)


def _compare_snapshots(a: Snapshot, b: Snapshot, options: Options) -> bool:
    from je_tools.diff.environments import DatabaseDifferences, pairs
    from je_tools.output.views.diff_tables import replication_section
    from je_tools.output.views.sections import write_jsonl
    from je_tools.recovery.findings import snapshot_findings
    from je_tools.vlsn.last_vlsns import ends_apart

    chosen = pairs(a, b, options["names"], internal=options["internal"])
    for name in options["names"]:
        if not any(pair.is_called(name) for pair in chosen):
            raise UsageError(f"--db {name}: neither environment has such a database")
    tallies = [DatabaseDifferences(pair) for pair in chosen]
    # One masking for both, so that a value has the same salted hash throughout.
    masking = chosen_masking(options["data_mode"])
    with (
        staged_bar(0, "diff"),
        open_results(options["output"], a, b) as out,
    ):
        _write_records(a, b, tallies, masking, out, options)
        ends = None if end_of(options).named() else ends_apart(a, b)
        # All rows of records are records; see `export`.
        has_others = options["format_"] == "jsonl" and options["what"] != "records"
        if ends is not None and has_others:
            write_jsonl([replication_section(*ends)], out)
        findings = [(each.environment, snapshot_findings(each, masking)) for each in (a, b)]
        every = [found for _, some in findings for found in some]
        if has_others:
            add_findings(every, out, "jsonl", options["findings_path"])
    save_findings(every, options["findings_path"], a.environment)
    differing = [tally for tally in tallies if tally.differs]
    for environment, found in findings:
        say_findings(found, environment.name)
    say(f"je-tools: {len(differing)} of {len(tallies)} databases differ")
    if ends is not None:
        _say_apart(ends, options)
    is_damaged = exit_code_of(every, exit_zero=False) == EXIT_DAMAGE
    return bool(differing) or is_damaged or ends is not None


def _say_apart(ends: tuple[int, int], options: Options) -> None:
    """Report that the nodes are at different places of the replication stream."""
    say(
        f"je-tools: {options['a']} ends at VLSN {ends[0]}, {options['b']} at VLSN {ends[1]}: the "
        "nodes are at different places of the replication stream. The entries that only one "
        "of them has may be uncommitted, or be rolled back; `je-tools dump --from-vlsn` "
        "shows them"
    )


def _snapshot(options: Options, side: str) -> AbstractContextManager[Snapshot]:
    from je_tools.recovery.opening import held_snapshot

    now_ms = chosen_now(options["now"])
    scanner = chosen_scanner(options)
    environment = open_home(options["a"] if side == "a" else options["b"])
    to_lsn = end_lsn(environment, scanner, options) if side == "a" else None
    return held_snapshot(environment, scanner, now_ms=now_ms, to_lsn=to_lsn)


def _write_records(
    a: Snapshot,
    b: Snapshot,
    tallies: list[DatabaseDifferences],
    masking: Masking,
    out: BinaryIO,
    options: Options,
) -> None:
    from je_tools.diff.environments import differences
    from je_tools.diff.records import blocks
    from je_tools.output.views.diff_tables import block_section, database_section, record_section

    is_table = options["format_"] == "table"

    def tallied(tally: DatabaseDifferences) -> Iterator[ChangedRecords]:
        for batch in differences(a, b, tally.pair):
            tally.add(batch)
            yield batch

    if options["what"] == "records" and is_table:
        changes = ((each.pair.label, batch) for each in tallies for batch in tallied(each))
        section, more = record_section(changes, masking)
        if section.rows:
            _write_section(section, out, options)
        if more:
            rows = counted(more, "more row")
            say(f"je-tools: {rows}; --format jsonl, csv or parquet has all")
    elif options["what"] == "records":
        sources = ((each.pair, tallied(each)) for each in tallies)
        _stream_records(a, b, sources, masking, out, options)
    elif options["what"] == "blocks":
        most = options["blocks"] or 1
        found = [(t.pair.label, block) for t in tallies for block in blocks(tallied(t), most)]
        _write_section(block_section(found, masking, for_people=is_table), out, options)
    else:
        for tally in tallies:
            for _ in tallied(tally):
                pass
        _write_section(database_section(tallies), out, options)


def _stream_records(
    a: Snapshot,
    b: Snapshot,
    found: Iterator[tuple[Pair, Iterator[ChangedRecords]]],
    masking: Masking,
    out: BinaryIO,
    options: Options,
) -> None:
    """Write the records that differ, in a format without a limit on their number."""
    from typing import cast

    from je_tools.diff.records import ChangedRecords, RecordChange
    from je_tools.output.encoders.record_files import write_stream
    from je_tools.output.encoders.record_lines import MarkColumn
    from je_tools.output.encoders.record_sinks import RecordFormat, open_record_sink
    from je_tools.output.encoders.record_sources import DatabaseSource
    from je_tools.records.export import named

    labels = tuple(change.label for change in RecordChange)
    marks = MarkColumn("change", labels, lambda records: cast(ChangedRecords, records).change)
    form = RecordFormat(options["format_"])
    sink = open_record_sink(form, masking, marks)
    sources = (DatabaseSource(named(pair.either, a, b), changes) for pair, changes in found)
    write_stream(sink, sources, out)


def _write_section(section: Section, out: BinaryIO, options: Options) -> None:
    write_section(section, out, options["format_"], options["output"])
