"""`je-tools count`: the number of records in each database."""

from __future__ import annotations

from typing import Unpack

import click

from je_tools.commands._options import check_has_output, format_option, output_option
from je_tools.commands._snapshot import (
    SnapshotOptions,
    database_option,
    findings_of,
    internal_option,
    open_results,
    open_snapshot,
    remote_snapshot_options,
    report_on_snapshot,
    show_expired_option,
    write_section,
)
from je_tools.output.formats import ROWS
from je_tools.recovery.choices import choose_databases


class Options(SnapshotOptions):
    """Options of the command line."""

    names: tuple[str, ...]
    internal: bool
    show_expired: bool


@click.command("count")
@remote_snapshot_options
@database_option
@internal_option
@show_expired_option
@format_option(*ROWS)
@output_option
def command(**options: Unpack[Options]) -> int:
    """Count the records of each database, as the engine would after recovery.

    Without --db, it counts all databases of applications. Expired records (see --now) do not count.
    The command reads no data, so it counts a record even if only its key is readable. The exit code
    is 3 if a file is missing that the log counts as in use, or if a node cannot be read.

    \b
    Examples:
      je-tools count meta/bdb
      je-tools count meta/bdb --db epochDB --format jsonl
      je-tools count meta/bdb --internal
      je-tools count meta/bdb --to-time 2026-11-20T10:00:00
    """
    from je_tools.core.memory import keep_freed_memory
    from je_tools.output.views.database_tables import count_section
    from je_tools.recovery.findings import missing_findings

    check_has_output(options["format_"], options["output"])
    keep_freed_memory()
    with open_snapshot(options, "count") as snapshot:
        chosen = choose_databases(snapshot, options["names"], internal=options["internal"])
        with open_results(options["output"], snapshot) as out:
            counts = [
                (each, snapshot.count(each, show_expired=options["show_expired"]))
                for each in chosen
            ]
            write_section(count_section(counts), out, options["format_"], options["output"])
            found = findings_of(snapshot, options, out, *missing_findings(snapshot))
    return report_on_snapshot(found, snapshot, options)
