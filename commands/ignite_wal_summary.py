"""`je-tools ignite wal summary`: counts of the records of a write-ahead log."""

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
from je_tools.core.escaping import counted
from je_tools.errors import EXIT_DAMAGE, EXIT_OK, UsageError
from je_tools.output.formats import ROWS


class Options(StoreOptions):
    """Options of the command line."""

    by_segment: bool
    by_cache: bool


@click.command("summary")
@segments_argument
@node_option
@click.option("--by-segment", is_flag=True, help="Also show records and bytes of each segment.")
@click.option("--by-cache", is_flag=True, help="Also show the entries of each cache, by operation.")
@format_option(*ROWS)
@output_option
@threads_count_option
@exit_zero_option
def command(**options: Unpack[Options]) -> int:
    """Count records and bytes of a write-ahead log by type.

    If a segment has several copies, one is counted: the one in the archive, otherwise the one in
    the work ring, otherwise the compacted one. Each option adds a table. CSV and Parquet have only
    one table: that of the option, or without an option that of types. Damaged records are not
    counted. If there are any, or if segments are missing, standard error says so, and the exit code
    is 3.

    \b
    Examples:
      je-tools ignite wal summary /var/lib/ignite
      je-tools ignite wal summary work --by-segment --by-cache
      je-tools ignite wal summary work --by-cache --format csv
    """
    from je_tools.ignite.store import open_store
    from je_tools.ignite.wal.summary import summarize_wal
    from je_tools.output.views import ignite_tables as tables
    from je_tools.output.views.section_formats import write_sections

    form, options_count = options["format_"], options["by_segment"] + options["by_cache"]
    check_has_output(form, options["output"])
    if form in ("csv", "parquet") and options_count > 1:
        raise UsageError(f"--format {form} holds one table: choose one of them, or --format jsonl")
    store = open_store(options["paths"], options["nodes"])
    with open_output_outside(options["output"], store) as out:
        threads = thread_count(options["threads"])
        with progress_bar(store.size, "ignite wal summary") as progress:
            summary = summarize_wal(store, threads, caches=options["by_cache"], progress=progress)
        sections = [tables.type_section(summary)]
        more = [tables.segment_section(summary)] if options["by_segment"] else []
        more += [tables.cache_section(summary)] if options["by_cache"] else []
        chosen = more or sections if form in ("csv", "parquet") else sections + more
        write_sections(form, chosen, out, terminal_width(options["output"]))
    if not summary.damaged:
        return EXIT_OK
    say(
        f"je-tools: not everything is counted ({counted(summary.damaged, 'error')}); "
        "`je-tools ignite wal verify` reports the places"
    )
    return EXIT_OK if options["exit_zero"] else EXIT_DAMAGE
