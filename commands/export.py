"""`je-tools export`: the records, as the engine would return them."""

from __future__ import annotations

import importlib
import threading
from typing import TYPE_CHECKING, Unpack

import click

from je_tools.commands._findings import check_outputs
from je_tools.commands._options import (
    A_PATH,
    check_has_output,
    chosen_file_mode,
    chosen_masking,
    file_mode_option,
    format_option,
    unless_dash,
)
from je_tools.commands._snapshot import (
    SnapshotOptions,
    database_option,
    internal_option,
    open_results,
    open_snapshot,
    remote_snapshot_options,
    report_on_snapshot,
    show_expired_option,
)
from je_tools.errors import UsageError
from je_tools.output.formats import RECORDS
from je_tools.recovery.choices import choose_databases

if TYPE_CHECKING:
    from je_tools.output.encoders.record_sources import RecordSink
    from je_tools.records.export import Export
    from je_tools.recovery.database import Database


class Options(SnapshotOptions):
    """Options of the command line."""

    names: tuple[str, ...]
    all_: bool
    internal: bool
    show_expired: bool
    is_print: bool
    key_range: str | None


@click.command("export")
@remote_snapshot_options
@database_option
@click.option("--all", "all_", is_flag=True, help="Export all databases of applications.")
@internal_option
@click.option(
    "--key-range",
    metavar="FROM..TO",
    help="Export only the keys from FROM to TO, both inclusive, written as for dump --key. Either "
    "may be omitted.",
)
@show_expired_option
@format_option(*RECORDS, default="dump")
@click.option(
    "--print",
    "is_print",
    is_flag=True,
    help="For --format dump: write printable characters as they are.",
)
@click.option(
    "--output",
    "-o",
    type=A_PATH,
    callback=unless_dash,
    help="A new file for one --db. For --all or several, a new directory with one file per "
    "database.",
)
@file_mode_option
def command(**options: Unpack[Options]) -> int:
    """Write the records of databases, as the engine would return them after recovery.

    --format dump writes the text format of the engine's DbDump, which its DbLoad reads. The command
    omits records whose data is not readable, and reports them on standard error, and in the file of
    --findings. The exit code is then 3.

    \b
    Examples:
      je-tools export meta/bdb --db epochDB
      je-tools export env --all --output records
      je-tools export env --db people --format jsonl --data hash
      je-tools export env --db 5213 --key-range long:5485..long:5499 --format csv
      je-tools export env --all --format parquet --output tables
    """
    inside = None
    if options["key_range"] is not None:
        from je_tools.btree.key_ranges import parse_key_range

        inside = parse_key_range("--key-range", options["key_range"])
    _check(options)
    from je_tools.core.memory import keep_freed_memory_in_one_arena
    from je_tools.records.export import Export
    from je_tools.recovery.findings import snapshot_findings

    keep_freed_memory_in_one_arena()
    _load_ahead(options["format_"])
    with open_snapshot(options, "export") as snapshot:
        both = {"output": options["output"], "findings": options["findings_path"]}
        check_outputs(both, snapshot.environment)
        chosen = choose_databases(snapshot, options["names"], internal=options["internal"])
        export = Export(snapshot, inside, options["show_expired"])
        _write(export, _sink(export, options), chosen, options)
        found = snapshot_findings(snapshot, chosen_masking(options["data_mode"]))
    return report_on_snapshot(found, snapshot, options)


def _load_ahead(form: str) -> None:
    """Start to import slow modules while the end of the log is read."""
    if form == "parquet":
        name = "je_tools.output.encoders.record_parquet"
        threading.Thread(target=importlib.import_module, args=(name,)).start()


def _check(options: Options) -> None:
    if not options["names"] and not options["all_"]:
        raise UsageError("no database is selected: name databases with --db, or give --all")
    if options["names"] and options["all_"]:
        raise UsageError("--db and --all: give one of them")
    if options["internal"] and not options["all_"]:
        raise UsageError("--internal needs --all: add it")
    if options["is_print"] and options["format_"] != "dump":
        raise UsageError("--print needs --format dump")
    check_has_output(options["format_"], options["output"])


def _sink(export: Export, options: Options) -> RecordSink:
    from je_tools.output.encoders.record_sinks import RecordFormat, open_record_sink

    return open_record_sink(
        RecordFormat(options["format_"]),
        chosen_masking(options["data_mode"]),
        is_print=options["is_print"],
        threads=export.snapshot.threads,
    )


def _write(export: Export, sink: RecordSink, chosen: list[Database], options: Options) -> None:
    from je_tools.output.encoders.record_files import stems_of, write_files, write_stream
    from je_tools.output.files.outputs import open_directory
    from je_tools.records.export import named

    environment, output = export.snapshot.environment, options["output"]
    sources = export.sources(chosen)
    if output is None or (len(chosen) == 1 and not options["all_"]):
        if sink.is_single and len(chosen) > 1:
            raise UsageError(
                f"--format {options['format_']} holds one database per file: name one with --db, "
                "or name a new directory with --output"
            )
        with open_results(output, export.snapshot) as out:
            write_stream(sink, sources, out)
        return
    with open_directory(output, environment, chosen_file_mode()) as directory:
        stems = stems_of(sink, map(named, chosen))
        write_files(sink, sources, stems, directory, output)
        export.snapshot.check_files()
