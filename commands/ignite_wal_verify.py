"""`je-tools ignite wal verify`: the damage in a write-ahead log."""

from __future__ import annotations

from typing import Unpack

import click

from je_tools.commands._ignite import (
    StoreOptions,
    node_option,
    open_output_outside,
    output_option,
    segments_argument,
    thread_count,
)
from je_tools.commands._options import (
    check_has_output,
    exit_zero_option,
    format_option,
    threads_count_option,
)
from je_tools.commands._progress import progress_bar
from je_tools.commands._terminal import say, terminal_width
from je_tools.errors import EXIT_DAMAGE, EXIT_OK
from je_tools.output.formats import ROWS


class Options(StoreOptions):
    """Options of the command line."""

    everything: bool


@click.command("verify")
@segments_argument
@node_option
@click.option("--all", "everything", is_flag=True, help="Also show where each segment ends.")
@format_option(*ROWS)
@output_option
@threads_count_option
@exit_zero_option
def command(**options: Unpack[Options]) -> int:
    """Report every damaged byte range of a write-ahead log, and missing segments.

    The command checks the pointer and the checksum of every record, in every copy of a segment: in
    the archive, in the work ring, and compacted. After damage, it continues with the next record of
    the segment. An unfinished record at the end of the last segment is a note, not damage: the node
    died while it wrote. The exit code is 3 if there are errors.

    \b
    Examples:
      je-tools ignite wal verify /var/lib/ignite
      je-tools ignite wal verify work --node node1 --format jsonl
      je-tools ignite wal verify 0000000000000007.wal --all
    """
    from je_tools.ignite.store import open_store
    from je_tools.ignite.wal.verify import WalTotals, verify_wal
    from je_tools.output.views.ignite_tables import finding_sections
    from je_tools.output.views.section_formats import write_sections

    check_has_output(options["format_"], options["output"])
    store = open_store(options["paths"], options["nodes"])
    totals = WalTotals()
    with (
        open_output_outside(options["output"], store) as out,
        progress_bar(store.size, "ignite wal verify") as progress,
    ):
        threads = thread_count(options["threads"])
        findings = verify_wal(
            store, totals, threads, everything=options["everything"], progress=progress
        )
        sections = finding_sections(findings, options["format_"])
        write_sections(options["format_"], sections, out, terminal_width(options["output"]))
    say(f"je-tools: {totals.verdict(store.name)}")
    return EXIT_DAMAGE if totals.errors and not options["exit_zero"] else EXIT_OK
