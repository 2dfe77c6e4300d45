"""`je-tools dump`, also `db-dump`: the entries of a log."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Unpack, cast, get_args

import click
from msgspec.structs import replace

from je_tools.commands._dump_options import OPTIONS, Options, check_combination, chosen_filters
from je_tools.commands._findings import check_outputs, save_findings
from je_tools.commands._opening import open_log
from je_tools.commands._options import CONTEXT, chosen_file_mode
from je_tools.commands._progress import bar_beside, progress_bar
from je_tools.commands._scanning import chosen_pace
from je_tools.commands._terminal import line_width, say
from je_tools.core.masking import DataMode
from je_tools.errors import EXIT_DAMAGE, EXIT_OK

if TYPE_CHECKING:
    from je_tools.dump.entries import Dump, Encoded
    from je_tools.dump.preparation import Preparation
    from je_tools.dump.tail import FollowedLog
    from je_tools.findings import Finding
    from je_tools.log.environment import Environment
    from je_tools.log.scan import Scanner
    from je_tools.log.selection import Selection
    from je_tools.output.encoders.entry_sinks import EntrySink
    from je_tools.verify.totals import Totals


HELP = """Print the entries of a log, in log order.

The command reads past damage. Standard error reports what could not be listed, and the exit code
is then 3.

--type, --db, --txn, --key and --grep can be repeated: an entry must match one of the values.

\b
Examples:
  je-tools dump meta/bdb --limit 20
  je-tools dump meta/bdb --type TXN --since 2026-11-20T10:00 --format jsonl
  je-tools dump meta/bdb --db 5213 --key long:5485 --key long:5486
  je-tools dump env --from-lsn 0x3/0x1a2f --to-lsn 0x3/0x2000
  je-tools dump env --grep alice@example.org --data hash
  je-tools dump env --format parquet --output entries.parquet
  je-tools dump 0000001f.jdb --backward --limit 1
"""

_SHIPPED = ("table", "csv", "parquet")
"""Formats whose sinks have `ships`, here so that their modules need not be imported to know it."""

_Filter = Literal[
    "types", "databases", "txns", "keys", "greps", "from_vlsn", "to_vlsn", "since", "until"
]
_FILTERS: tuple[_Filter, ...] = get_args(_Filter)
"""Options that, like `replicated`, select among the entries of a range."""


def execute(options: Options) -> int:
    """Run the command, and return its exit code."""
    check_combination(options)
    if options["parts"]:
        _prepare_workers(0, options)
    selection = chosen_filters(options).selection()

    environment = open_log(options["paths"])
    side_file = options["findings_path"]
    check_outputs({"output": options["output"], "findings": side_file}, environment)
    _prepare_workers(environment.size, options)
    from je_tools.dump.tail import FollowedLog
    from je_tools.log.scan import Scanner

    check, pace = not options["ignore_checksum"], chosen_pace(options["max_rate"])
    scanner = Scanner(check=check, threads=options["threads"], pace=pace)
    reading = FollowedLog(options["paths"], environment)
    prepared = _prepare(selection, reading, scanner, options)
    sink = _sink(prepared.names, options, scanner, environment)
    dump = _dump(prepared, sink, scanner, options, reading)
    try:
        if options["output"] is not None and options["parts"]:
            _write_parts(dump, sink, reading, options["output"], options)
        else:
            _write(dump, sink, reading, prepared.names, options)
    except KeyboardInterrupt:
        if options["follow"]:
            _report(reading, reading.totals())
        raise
    totals = reading.totals()
    save_findings(totals.listed or (), side_file, environment)
    _report(reading, totals)
    return EXIT_DAMAGE if totals.errors and not options["exit_zero"] else EXIT_OK


def _prepare(
    selection: Selection, reading: FollowedLog, scanner: Scanner, options: Options
) -> Preparation:
    """Read what must be known in advance, and give `reading` the judge of the log."""
    from je_tools.dump.preparation import prepare
    from je_tools.verify.totals import Totals

    environment = reading.environment
    prepared = prepare(
        environment,
        selection,
        scanner,
        Totals(environment.name, listed=None if options["findings_path"] is None else []),
        databases=options["databases"],
        is_partial=options["backward"] or options["limit"] is not None,
        follow=options["follow"],
        bar=lambda: progress_bar(environment.size, "prepare"),
    )
    reading.judge, reading.judged = prepared.judge, prepared.judged
    return prepared


def _prepare_workers(size: int, options: Options) -> None:
    """Start to load worker processes in the background, if the dump will use some."""
    from je_tools.core.worker_processes import prepare_workers

    if options["parts"] or _suits_workers(size, options):
        prepare_workers()


def _suits_workers(size: int, options: Options) -> bool:
    from je_tools.core.worker_processes import PROCESSES_FROM

    ships = options["format_"] in _SHIPPED and not (options["limit"] or options["backward"])
    # 0 is a valid VLSN.
    is_filtered = any(options[name] not in (None, ()) for name in _FILTERS)
    if options["format_"] == "parquet" and (is_filtered or options["replicated"]):
        # Little may be left of each range, but each row group has about 50 kB of metadata.
        return False
    return ships and size >= PROCESSES_FROM and options["threads"] != 1


def _write(
    dump: Dump[object],
    sink: EntrySink,
    reading: FollowedLog,
    names: dict[int, str],
    options: Options,
) -> None:
    """Write one output, in log order."""
    from je_tools.dump.entries import contents
    from je_tools.output.files.outputs import open_output

    environment = reading.environment
    with (
        open_output(options["output"], environment, chosen_file_mode()) as out,
        _joined(dump, sink, environment, options) as (dump, sink),
        bar_beside(options["output"], environment.size, "dump") as progress,
    ):
        shown = replace(dump, scanner=replace(dump.scanner, progress=progress))
        # Even on an error, workers end before the files that they write to are removed.
        with closing(_all_entries(shown, reading, names, options)) as pieces:
            sink.write_all(contents(pieces), out)


@contextmanager
def _joined(
    dump: Dump[object], sink: EntrySink, environment: Environment, options: Options
) -> Iterator[tuple[Dump[object], EntrySink]]:
    """Yield dump and sink, changed to use processes for one Parquet file of a long log."""
    from je_tools.output.encoders.entry_sinks import JOINED_FILE_SIZE, ParquetSink, joined
    from je_tools.output.files.outputs import PartPath, is_stream, open_scratch

    output, wanted = options["output"], dump.wanted_files(environment)
    suits = isinstance(sink, ParquetSink) and _suits_workers(wanted.size, options)
    # A file is at least one range, and so at least one row group.
    suits = suits and wanted.size >= len(wanted.files) * JOINED_FILE_SIZE
    if output is None or is_stream(output) or not suits:
        yield dump, sink
        return
    with open_scratch(output) as folder:
        by_processes = joined(cast("ParquetSink", sink), PartPath(folder, output))
        yield replace(dump, pack=by_processes.pack), by_processes


def _write_parts(
    dump: Dump[object], sink: EntrySink, reading: FollowedLog, output: Path, options: Options
) -> None:
    """Write a directory of files in parallel."""
    from je_tools.dump.part_files import PartDump, write_parts
    from je_tools.output.files.outputs import open_directory

    threads = replace(dump.scanner, processes=True).thread_count()
    pace = dump.scanner.pace
    shared = pace.shared_by(threads) if pace is not None else None
    alone = replace(dump, scanner=replace(dump.scanner, threads=1, pace=shared))
    environment = reading.environment
    with (
        open_directory(output, environment, chosen_file_mode()) as directory,
        bar_beside(output, environment.size, "dump") as progress,
    ):
        part_dump = PartDump(alone, sink, ".parquet")
        for report in write_parts(part_dump, environment, directory, output, threads, progress):
            for part, seen in report.ranges:
                reading.merge(part, seen)
            for state in report.states:
                reading.on_file_end(state)


def _sink(
    names: dict[int, str], options: Options, scanner: Scanner, environment: Environment
) -> EntrySink:
    from je_tools.core.masking import Masking
    from je_tools.core.memory import avoid_arrow_pool
    from je_tools.output.encoders.entry_sinks import EntryFormat, open_sink

    masking = Masking(DataMode(options["data_mode"]))
    sink = open_sink(
        EntryFormat(options["format_"]),
        names,
        masking,
        width=line_width(),
        versions=frozenset(file.version for file in environment.files),
    )
    avoid_arrow_pool()
    return sink


def _dump(
    prepared: Preparation, sink: EntrySink, scanner: Scanner, options: Options, reading: FollowedLog
) -> Dump[object]:
    from je_tools.dump.entries import Dump

    return Dump(
        selection=prepared.selection,
        encode=sink.encode,
        scanner=scanner,
        backward=options["backward"],
        limit=options["limit"],
        ships=sink.ships,
        look_up=prepared.look_up,
        inspector=reading.judge.inspector if reading.judge is not None else None,
    )


def _all_entries(
    dump: Dump[object], reading: FollowedLog, names: dict[int, str], options: Options
) -> Generator[Encoded[object], None, None]:
    """Yield the entries of the log, and with `--follow` those that are appended."""
    from je_tools.dump.tail import FollowedDatabases, follow

    left, count = dump.limit, 0
    for encoded in dump.run(reading.environment, reading.on_file_end, reading.merge):
        left = None if left is None else left - encoded.count
        count += encoded.count
        yield encoded
    if options["follow"] and left != 0:
        # One thread, since the names of the shown entries are found in these very entries.
        scanner = replace(dump.scanner, threads=1, progress=None)
        databases = FollowedDatabases(names, options["databases"])
        yield from follow(replace(dump, scanner=scanner), reading, left, databases, _say_errors)
    elif not count:
        say("je-tools: no entry matches")


def _report(reading: FollowedLog, totals: Totals) -> None:
    """Report errors that have not been reported yet."""
    # The first findings of a followed log have been reported already.
    left = totals.errors - reading.reported
    _say_errors(totals.first[reading.reported :], left, is_end=bool(totals.errors))


def _say_errors(errors: list[Finding], count: int | None = None, *, is_end: bool = False) -> None:
    """Report the first of `count` errors, and the command that reports the others."""
    from je_tools.verify.totals import FIRST

    for finding in errors[:FIRST]:
        say(f"je-tools: {replace(finding, hint='').text()}")
    left = (len(errors) if count is None else count) - len(errors[:FIRST])
    if left or is_end:
        more = f"{left:,} more; " if left else ""
        say(f"je-tools: {more}`je-tools verify` reports all damage, and what to do")


class _GroupedCommand(click.Command):
    """A command with its options under headings."""

    headings: Mapping[str, str]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options of each heading, then the others."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                heading = self.headings.get(parameter.name or "", "Other")
                sections.setdefault(heading, []).append(record)
        for heading, records in sections.items():
            with formatter.section(heading):
                formatter.write_dl(records, col_max=24)


def _make(name: str, text: str) -> click.Command:
    def callback(**options: Unpack[Options]) -> int:
        return execute(options)

    headings = {}
    parameters: list[click.Parameter] = []
    for heading, options in OPTIONS.items():
        for decorate in options:
            decorate(callback)
            parameters.append(callback.__click_params__[-1])  # type: ignore[attr-defined]
            headings[parameters[-1].name or ""] = heading
    made = _GroupedCommand(
        name, callback=callback, params=parameters, help=text, context_settings=CONTEXT
    )
    made.headings = headings
    return made


command = _make("dump", HELP)

db_dump_command = _make(
    "db-dump",
    "db-dump prints the entries of the log. To print records, as db_dump of other Berkeley DBs "
    "does, use `db-dump -h HOME -s DB` or `je-tools export`.\n\n"
    + HELP.replace("je-tools dump", "db-dump"),
)
