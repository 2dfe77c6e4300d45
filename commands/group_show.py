"""`je-tools group show`: the group and its nodes."""

from __future__ import annotations

from typing import Unpack

import click

from je_tools.commands._options import CONTEXT, check_has_output, format_option, output_option
from je_tools.commands._snapshot import (
    SnapshotOptions,
    findings_of,
    node_home,
    open_results,
    open_snapshot,
    report_on_snapshot,
    snapshot_options,
)
from je_tools.commands._terminal import terminal_width
from je_tools.output.formats import REPORT_WITH_ROWS


@click.command("show", context_settings=CONTEXT)
@snapshot_options
@format_option(*REPORT_WITH_ROWS)
@output_option
def command(**options: Unpack[SnapshotOptions]) -> int:
    """Show the replication group and its nodes, as a node's log has them after recovery.

    The command prints what the engine's DbDumpGroup prints: the name and id of the group, and for
    each node its name, id, type, address, whether a quorum has acknowledged it, and the change
    version. The nodes of a group normally have the same records; those of a node that was away may
    be older. The exit code is 4 if the environment is not a node of a group, and 3 if a record of
    the group is damaged.

    \b
    Examples:
      je-tools group show meta/bdb
      je-tools group show meta/bdb --format jsonl
      je-tools group show meta/bdb --to-lsn 0x3/0x1a2f
    """
    from je_tools.group.members import group_findings, read_group
    from je_tools.output.views.group_tables import group_report, group_sections
    from je_tools.output.views.section_formats import write_sections

    form = options["format_"]
    check_has_output(form, options["output"])
    options["path"] = node_home(options["path"])
    with open_snapshot(options, "group") as snapshot:
        records = read_group(snapshot)
        with open_results(options["output"], snapshot) as out:
            if form != "json":
                sections = group_sections(records, as_facts=form == "table")
                write_sections(form, sections, out, terminal_width(options["output"]))
            found = findings_of(snapshot, options, out, *group_findings(snapshot, records))
            if form == "json":
                group_report(records, found).write(form, out)
    return report_on_snapshot(found, snapshot, options)
