"""`je-tools dump`, also `db-dump`: the entries of a log."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
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
from je_tools.errors import EXIT_DAMAGE, EXIT_OK, UsageError
from je_tools.masking import DataMode

HELP = """Print the entries of a log, in log order.

Reads past damage: what is not listed is said on stderr, and the exit code is then 3.

\b
Examples:
  je-tools dump meta/bdb --limit 20
  je-tools dump meta/bdb --type TXN --since 2026-11-20T10:00 --format jsonl
  je-tools dump meta/bdb --db 5213 --key long:5485
  je-tools dump env --from-lsn 0x3/0x1a2f --to-lsn 0x3/0x2000
  je-tools dump env --grep alice@example.org --data hash
  je-tools dump env --format parquet --output entries.parquet
  je-tools dump 0000001f.jdb --backward --limit 1
"""

OPTIONS = [
    environment_argument,
    format_option("table", "jsonl", "csv", "parquet"),
    output_option,
    click.option(
        "--type",
        "types",
        multiple=True,
        help="Entry types by the engine's names, or the groups LN, IN, TXN, CKPT, REP.",
    ),
    click.option("--db", "-d", "databases", multiple=True, help="Database, by name or id."),
    click.option("--txn", "txns", type=int, multiple=True, help="Transaction id."),
    click.option("--from-lsn", help="First LSN, 0xFILE/0xOFFSET."),
    click.option("--to-lsn", help="Last LSN, inclusive."),
    click.option("--from-vlsn", type=int, help="First VLSN."),
    click.option("--to-vlsn", type=int, help="Last VLSN, inclusive."),
    click.option("--since", help="First time, UTC: 2026-11-20T10:00:00, or ms since 1970."),
    click.option("--until", help="Last time, UTC, inclusive."),
    click.option("--replicated", is_flag=True, help="Only entries of the replication stream."),
    click.option(
        "--key",
        help="Key of an LN: text, hex:0a1b, hex:0a*, long:5485, int:7, str:name (bindings).",
    ),
    click.option("--grep", help="Bytes in a key or value: text, or hex:0a1b."),
    click.option("--backward", is_flag=True, help="From the end of the log to its beginning."),
    click.option("--limit", type=click.IntRange(min=1), help="Stop after so many entries."),
    click.option(
        "--parts",
        is_flag=True,
        help="Parquet: --output is a directory of as many files as threads, written at once.",
    ),
    click.option("--follow", is_flag=True, help="Go on as a running engine appends."),
    click.option("--ignore-checksum", is_flag=True, help="List entries without summing them."),
    click.option(
        "--data",
        "data_mode",
        type=click.Choice([mode.value for mode in DataMode]),
        default=DataMode.SHOW.value,
        show_default=True,
        help="What is shown of keys and values.",
    ),
    threads_option,
    exit_zero_option,
]


def parse_time(text: str | None) -> int | None:
    """A time in UTC as ms since 1970; `None` stays so.

    Raises:
        UsageError: neither ISO 8601 nor a whole number.
    """
    if text is None:
        return None
    if text.isdecimal():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text}: a time is written 2026-11-20T10:00:00, in UTC") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)


def execute(**options: Any) -> int:
    """Run the command; the options are those of OPTIONS."""
    from je_tools.dump import read_names_and_times
    from je_tools.environment import open_environment
    from je_tools.scan import FileState, Scanner
    from je_tools.sinks.entries import EntryFormat

    _check_combination(options)
    environment = open_environment(options["paths"])
    selection = _selection(options)
    scanner = Scanner(check=not options["ignore_checksum"], threads=options["threads"])
    prepared = read_names_and_times(environment, selection, scanner)
    chosen = _with_databases(prepared.selection, options["databases"], prepared.names)
    states: list[FileState] = []
    with (
        _outputs(environment, options, scanner) as outs,
        progress_bar(environment.size, "dump") as progress,
    ):
        form = EntryFormat(options["format_"])
        sink = _sink(form, outs, dict(prepared.names), options, scanner, environment)
        dump = _dump(chosen, sink, scanner, progress, options)
        for encoded in _all(dump, environment, states, options):
            sink.write(encoded.content)
            if options["follow"]:
                outs[0].flush()
        sink.close()
    return _exit_code(environment, states, options["exit_zero"])


@contextmanager
def _outputs(environment: Any, options: dict[str, Any], scanner: Any) -> Iterator[list[Any]]:
    """The file to write, or with --parts the files."""
    from je_tools.sinks.output import open_output, open_parts

    if options["parts"]:
        with open_parts(options["output"], environment, scanner.thread_count()) as outs:
            yield outs
    else:
        with open_output(options["output"], environment) as out:
            yield [out]


def _check_combination(options: dict[str, Any]) -> None:
    if options["follow"] and (options["backward"] or options["output"]):
        raise UsageError("--follow writes to standard output, forward only")
    if options["format_"] == "parquet" and options["output"] is None:
        raise UsageError("--format parquet needs --output FILE")
    if options["parts"] and options["format_"] != "parquet":
        raise UsageError("--parts is for --format parquet")
    if options["follow"] and options["format_"] == "parquet":
        raise UsageError("--follow has no end, so it cannot write Parquet")


def _selection(options: dict[str, Any]) -> Any:
    from je_tools import selection as s

    def optional(parse: Any, value: Any) -> Any:
        return None if value is None else parse(value)

    return s.Selection(
        types=s.parse_types(options["types"]) if options["types"] else None,
        from_lsn=optional(s.parse_lsn, options["from_lsn"]),
        to_lsn=optional(s.parse_lsn, options["to_lsn"]),
        from_vlsn=options["from_vlsn"],
        to_vlsn=options["to_vlsn"],
        replicated=options["replicated"],
        txn_ids=frozenset(options["txns"]) if options["txns"] else None,
        key=optional(s.parse_key, options["key"]),
        grep=optional(s.parse_bytes, options["grep"]),
        since_ms=parse_time(options["since"]),
        until_ms=parse_time(options["until"]),
    )


def _with_databases(selection: Any, wanted: tuple[str, ...], names: Any) -> Any:
    from dataclasses import replace

    from je_tools.selection import resolve_databases

    if not wanted:
        return selection
    return replace(selection, db_ids=resolve_databases(wanted, names))


def _sink(
    form: Any,
    outs: list[Any],
    names: dict[int, str],
    options: dict[str, Any],
    scanner: Any,
    environment: Any,
) -> Any:
    import pyarrow

    from je_tools.masking import Masking
    from je_tools.sinks.entries import open_sink

    # Arrow's own pool keeps what it once had; the system's gives it back.
    pyarrow.set_memory_pool(pyarrow.system_memory_pool())
    width = shutil.get_terminal_size((120, 24)).columns
    masking = Masking(DataMode(options["data_mode"]))
    options["names"] = names
    return open_sink(
        form,
        outs,
        names,
        masking,
        fast=scanner.is_fast(environment.size),
        width=width,
        versions=frozenset(file.version for file in environment.files),
    )


def _dump(selection: Any, sink: Any, scanner: Any, progress: Any, options: dict[str, Any]) -> Any:
    from dataclasses import replace

    from je_tools.dump import Dump
    from je_tools.names import collect_names, resolve

    def notice(rows: Any) -> None:
        # Databases that are created while we follow.
        options["names"].update(resolve([collect_names(rows)]))

    return Dump(
        selection=selection,
        encode=sink.encode,
        scanner=replace(scanner, progress=progress),
        backward=options["backward"],
        limit=options["limit"],
        notice=notice if options["follow"] else None,
    )


def _all(dump: Any, environment: Any, states: list[Any], options: dict[str, Any]) -> Iterator[Any]:
    from je_tools.dump import follow

    count = 0
    for encoded in dump.run(environment, states.append):
        count += encoded.count
        yield encoded
    if options["follow"]:
        left = None if dump.limit is None else dump.limit - count
        if left != 0:
            yield from follow(dump, options["paths"], environment, states)


def _exit_code(environment: Any, states: list[Any], exit_zero: bool) -> int:
    """Say what was not listed; 3 where that is damage."""
    from je_tools.findings import Severity
    from je_tools.verify import file_findings

    findings = [f for state in states for f in file_findings(environment, state)]
    for finding in findings:
        if finding.severity is not Severity.NOTE:
            click.echo(f"je-tools: {finding.text()}", err=True)
    damaged = any(finding.severity is Severity.ERROR for finding in findings)
    return EXIT_DAMAGE if damaged and not exit_zero else EXIT_OK


def _make(name: str, text: str) -> click.Command:
    parameters: list[click.Parameter] = []

    def callback(**options: Any) -> int:
        return execute(**options)

    for decorate in OPTIONS:
        decorate(callback)
    parameters = list(reversed(callback.__click_params__))  # type: ignore[attr-defined]
    context = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
    return click.Command(
        name, callback=callback, params=parameters, help=text, context_settings=context
    )


command = _make("dump", HELP)

db_dump_command = _make(
    "db-dump",
    "Looking for records, as db_dump of other Berkeley DBs gives them? That is `export`, "
    "which this version does not have yet: db-dump prints the entries of the log.\n\n" + HELP,
)
