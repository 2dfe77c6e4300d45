"""`je-tools get`: the records of a key, or its history."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Unpack

import click

from je_tools.commands._completion import complete_databases
from je_tools.commands._options import (
    check_has_output,
    chosen_masking,
    format_option,
    output_option,
    tmp_option,
)
from je_tools.commands._snapshot import (
    SnapshotOptions,
    open_results,
    open_snapshot,
    report_on_snapshot,
    show_expired_option,
    snapshot_options,
)
from je_tools.commands._terminal import say, terminal_width
from je_tools.core.escaping import counted
from je_tools.errors import EXIT_DAMAGE, EXIT_INPUT, EXIT_OK, UsageError
from je_tools.output.formats import ROWS
from je_tools.recovery.choices import choose_databases

if TYPE_CHECKING:
    from je_tools.core.masking import Masking
    from je_tools.log.parsing import KeyPattern
    from je_tools.output.views.sections import Section
    from je_tools.recovery.database import Database
    from je_tools.recovery.snapshot import Snapshot


KEY_KINDS = ("long", "int", "str", "hex")
"""Kinds of key that a user may have meant by a text."""


class Options(SnapshotOptions):
    """Options of the command line."""

    name: str
    key: str
    history: bool
    show_expired: bool
    tmp: Path | None


@click.command("get")
@snapshot_options
@click.argument("key", metavar="KEY")
@click.option(
    "--db",
    "-d",
    "name",
    required=True,
    metavar="NAME",
    shell_complete=complete_databases,
    help="Database, by name or id (id:7).",
)
@click.option("--history", is_flag=True, help="Show every version that is still in the log.")
@show_expired_option
@format_option(*ROWS)
@output_option
@tmp_option
def command(**options: Unpack[Options]) -> int:
    """Show the records of a key, as the engine would return them after recovery.

    KEY is text, hex:0a1b, hex:0a* (all keys that begin with it), long:5485, int:7 or str:name. The
    command searches the tree. With --history, it reads the whole log once, and shows every version
    of the key, with its transaction and how that ended. The exit code is 4 if the log has no record
    of the key.

    \b
    Examples:
      je-tools get meta/bdb --db epochDB hex:00
      je-tools get env --db people user00000001 --history
      je-tools get meta/bdb --db 5213 long:5485 --format jsonl
      je-tools get env --db id:7 str:name --data length
    """
    from je_tools.log.parsing import parse_key
    from je_tools.recovery.findings import snapshot_findings

    if options["history"] and options["show_expired"]:
        raise UsageError("--history also shows expired records: omit --show-expired")
    check_has_output(options["format_"], options["output"])
    pattern = parse_key(options["key"], "KEY")
    masking = chosen_masking(options["data_mode"])
    show = _show_history if options["history"] else _show_records
    with open_snapshot(options, "get") as snapshot:
        (database,) = choose_databases(snapshot, (options["name"],))
        with open_results(options["output"], snapshot) as out:
            count, damaged = show(snapshot, database, pattern, masking, options, out)
            found = snapshot_findings(snapshot, masking)
        hint = "" if count else _hint(snapshot, database, pattern, options)
    code = report_on_snapshot(found, snapshot, options)
    if damaged:
        places = counted(damaged, "place")
        say(
            f"je-tools: {places} of the log could not be read and may hold more versions; "
            "`je-tools verify` reports them"
        )
        code = EXIT_OK if options["exit_zero"] else EXIT_DAMAGE
    if count:
        return code
    what = "no version" if options["history"] else "no record"
    say(f"je-tools: {what} of this key in {options['name']}{hint}")
    return EXIT_INPUT if code == EXIT_OK else code


def _hint(snapshot: Snapshot, database: Database, pattern: KeyPattern, options: Options) -> str:
    """Return a hint about a record that was not found: expired, or under another kind of key."""
    from je_tools.log.parsing import parse_key
    from je_tools.records.history import records_of_key

    def count(chosen: KeyPattern) -> int:
        return sum(map(len, records_of_key(snapshot, database, chosen, show_expired=True)))

    if not options["history"] and count(pattern):
        return "; --show-expired shows an expired one"
    for kind in KEY_KINDS:
        with suppress(UsageError):
            text = f"{kind}:{options['key']}"
            if count(parse_key(text, "KEY")):
                return f"; the database has {text}"
    return ""


def _show_records(
    snapshot: Snapshot,
    database: Database,
    pattern: KeyPattern,
    masking: Masking,
    options: Options,
    out: BinaryIO,
) -> tuple[int, int]:
    from je_tools.output.encoders.record_sinks import RecordFormat, open_record_sink
    from je_tools.output.encoders.record_sources import DatabaseSource
    from je_tools.output.views.key_tables import record_section
    from je_tools.output.views.section_tables import write_long_table
    from je_tools.records.export import named
    from je_tools.records.history import records_of_key

    shows = options["show_expired"]
    if options["format_"] == "table":
        count = 0

        def sections() -> Iterator[Section]:
            nonlocal count
            count = 0
            for records in records_of_key(snapshot, database, pattern, show_expired=shows):
                count += len(records)
                yield record_section(records, masking)

        write_long_table(sections, out, terminal_width(options["output"]))
        return count, 0
    found = records_of_key(snapshot, database, pattern, show_expired=shows)
    sink = open_record_sink(RecordFormat(options["format_"]), masking, threads=1)
    sources = [DatabaseSource(named(database, snapshot), found)]
    return sum(done.records for done in sink.write(sources, out)), 0


def _show_history(
    snapshot: Snapshot,
    database: Database,
    pattern: KeyPattern,
    masking: Masking,
    options: Options,
    out: BinaryIO,
) -> tuple[int, int]:
    from je_tools.output.files.outputs import scratch_directory
    from je_tools.output.views.version_tables import write_history
    from je_tools.records.history import history_of_key

    temporary = scratch_directory(options["tmp"], snapshot.environment)
    history = history_of_key(snapshot, database, pattern, temporary)
    width = terminal_width(options["output"])
    write_history(history, masking, options["format_"], out, width)
    return len(history), history.damaged_count
