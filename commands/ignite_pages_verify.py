"""`je-tools ignite pages verify`: the damage in a page store."""

from __future__ import annotations

from typing import Unpack

import click

from je_tools.commands._ignite import (
    StoreOptions,
    node_option,
    open_output_outside,
    output_option,
    store_argument,
    thread_count,
    write_store_report,
)
from je_tools.commands._options import exit_zero_option, format_option, threads_count_option
from je_tools.commands._progress import progress_bar
from je_tools.commands._terminal import say
from je_tools.errors import EXIT_DAMAGE, EXIT_OK
from je_tools.output.formats import REPORT


class Options(StoreOptions):
    """Options of the command line."""

    everything: bool
    no_trees: bool


@click.command("verify")
@store_argument
@node_option
@click.option("--all", "everything", is_flag=True, help="Also show good files, and page types.")
@click.option("--no-trees", is_flag=True, help="Check pages one by one only, which is faster.")
@format_option(*REPORT)
@output_option
@threads_count_option
@exit_zero_option
def command(**options: Unpack[Options]) -> int:
    """Check every page of a node's files, and give advice for each file.

    The command checks the header of each file, and the checksum, place, type and version of each
    page. If the newest checkpoint did not end, it looks for damaged pages in the log that recovery
    replays; a page that is there is only a note. Then it walks from the first page of each file
    through trees, rows and lists of free pages, and compares them with each other and with the
    counts of rows. Notes say what was not checked. The exit code is 3 if there are errors or
    warnings.

    \b
    Examples:
      je-tools ignite pages verify /var/lib/ignite
      je-tools ignite pages verify work --node node1 --all --format json
    """
    from je_tools.ignite.page_check.verify import page_bytes, verify_pages
    from je_tools.ignite.recovery.rebuilding import rebuilt_files
    from je_tools.ignite.store import open_store
    from je_tools.output.views.ignite_page_tables import report_sections

    form = options["format_"]
    store = open_store(options["paths"], options["nodes"])
    with open_output_outside(options["output"], store) as out:
        with progress_bar(page_bytes(store), "ignite pages verify") as progress:
            threads = thread_count(options["threads"])
            trees = not options["no_trees"]
            report = verify_pages(store, threads, progress, trees=trees, rebuilt=rebuilt_files)
        sections = report_sections(report, everything=options["everything"] or form != "table")
        counts = {"nodes": len(store.nodes), "findings_count": len(report.findings)}
        write_store_report(form, store, sections, out, options["output"], facts=counts)
    say(f"je-tools: {report.verdict(store.name)}")
    return EXIT_DAMAGE if report.wrong and not options["exit_zero"] else EXIT_OK
