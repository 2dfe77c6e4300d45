"""`je-tools databases`: the databases and their properties."""

from __future__ import annotations

from typing import Unpack

import click

from je_tools.commands._options import check_has_output, format_option, output_option
from je_tools.commands._snapshot import (
    SnapshotOptions,
    findings_of,
    internal_option,
    open_results,
    open_snapshot,
    report_on_snapshot,
    snapshot_options,
    write_section,
)
from je_tools.output.formats import ROWS


class Options(SnapshotOptions):
    """Options of the command line."""

    internal: bool


@click.command("databases")
@snapshot_options
@internal_option
@format_option(*ROWS)
@output_option
def command(**options: Unpack[Options]) -> int:
    """List the databases, as they are after recovery.

    Each row has the name, id and flags of the database, its records, the depth and nodes of its
    tree, the bytes of its nodes and records in the log, the class names of its comparators, the
    LSNs of its descriptor and its root, and the log version in which it was created. Descriptors
    without a name (from unfinished removals) and names without a descriptor come last. The exit
    code is 3 if a file is missing that the log counts as in use.

    \b
    Examples:
      je-tools databases meta/bdb
      je-tools databases meta/bdb --internal --format jsonl
      je-tools databases meta/bdb --to-lsn 0x3/0x1a2f
    """
    from je_tools.output.views.database_tables import database_section
    from je_tools.records.databases import list_databases
    from je_tools.recovery.findings import missing_findings

    check_has_output(options["format_"], options["output"])
    with (
        open_snapshot(options, "databases") as snapshot,
        open_results(options["output"], snapshot) as out,
    ):
        rows = list_databases(snapshot, internal=options["internal"])
        write_section(database_section(rows), out, options["format_"], options["output"])
        found = findings_of(snapshot, options, out, *missing_findings(snapshot))
    return report_on_snapshot(found, snapshot, options)
