"""`je-tools databases`: the databases and their properties."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

import click

from je_tools.commands._options import format_option, output_option
from je_tools.commands._snapshot import (
    SnapshotOptions,
    internal_option,
    open_results,
    open_snapshot,
    report,
    snapshot_options,
    write_section,
)


class Options(SnapshotOptions):
    """Options of the command line."""

    internal: bool
    format_: str
    output: Path | None


@click.command("databases")
@snapshot_options
@internal_option
@format_option("table", "jsonl", "csv")
@output_option
def command(**options: Unpack[Options]) -> int:
    """List the databases, as they are after recovery.

    Of each its name, id and flags, its records, the depth and nodes of its tree, the bytes of the
    log that nodes and records take, comparators by the name of their class, where its descriptor
    and its root lie, and the log version in which it was made. Descriptors that no name leads to
    (of removals that are not finished) and names without a descriptor are listed at the end. The
    exit code is 3 where a file is missing that the log accounts for as in use.

    \b
    Examples:
      je-tools databases meta/bdb
      je-tools databases meta/bdb --internal --format jsonl
      je-tools databases meta/bdb --to-lsn 0x3/0x1a2f
    """
    from je_tools.output.views.database_tables import database_section
    from je_tools.records.databases import list_databases
    from je_tools.recovery.findings import missing_findings

    with (
        open_snapshot(options, "databases") as snapshot,
        open_results(options["output"], snapshot) as out,
    ):
        rows = list_databases(snapshot, internal=options["internal"])
        write_section(database_section(rows), out, options["format_"], options["output"])
    return report(snapshot, options, *missing_findings(snapshot))
