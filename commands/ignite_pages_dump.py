"""`je-tools ignite pages dump`: the pages of a page store, and their items."""

from __future__ import annotations

from typing import Unpack

import click

from je_tools.commands._ignite import (
    StoreOptions,
    node_option,
    open_output_outside,
    output_option,
    partition_option,
    store_argument,
    thread_count,
)
from je_tools.commands._options import (
    check_has_output,
    data_option,
    exit_zero_option,
    format_option,
    threads_count_option,
)
from je_tools.commands._progress import bar_beside
from je_tools.commands._terminal import line_width, say
from je_tools.core.masking import DataMode, Masking
from je_tools.errors import EXIT_DAMAGE, EXIT_OK
from je_tools.output.formats import ROWS


class Options(StoreOptions):
    """Options of the command line."""

    groups: tuple[str, ...]
    partitions: tuple[int, ...]
    pages: tuple[int, ...]
    types: tuple[str, ...]
    keys: tuple[str, ...]
    items: bool
    limit: int | None
    data_mode: str


@click.command("dump")
@store_argument
@node_option
@click.option(
    "--group", "groups", multiple=True, metavar="NAME", help="Cache group, or cache without one."
)
@partition_option("; 65535 for indexes")
@click.option(
    "--page", "pages", type=int, multiple=True, metavar="N", help="Index of a page in its file."
)
@click.option(
    "--type",
    "types",
    multiple=True,
    metavar="TYPE",
    help="Type of pages, or the beginning of its name: data, list, partition meta.",
)
@click.option(
    "--key",
    "keys",
    multiple=True,
    help="Rows with this key, and their pages. Write it as for `ignite wal dump --key`.",
)
@click.option("--items", is_flag=True, help="Also print rows, items of trees and ids in lists.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Stop after this many pages.")
@format_option(*ROWS)
@output_option
@data_option
@threads_count_option
@exit_zero_option
def command(**options: Unpack[Options]) -> int:
    """Print the pages of a node's files: headers, fields and items.

    Pages are printed as they are in the files, in order. Compressed pages are unpacked. Only the
    header of a damaged or encrypted page is printed. A page must match all filters; a filter that
    is repeated matches any of its values. The exit code is 3 if there was damage.

    \b
    Examples:
      je-tools ignite pages dump /var/lib/ignite --group accounts --type "partition meta"
      je-tools ignite pages dump work --partition 3 --page 7 --items --format jsonl
      je-tools ignite pages dump work --format parquet --output pages.parquet
    """
    check_has_output(options["format_"], options["output"])
    from je_tools.ignite.caches import known_groups
    from je_tools.ignite.key_filter import parse_keys
    from je_tools.ignite.page_check.verify import page_bytes
    from je_tools.ignite.pages.dump import PageDump, PageFilters
    from je_tools.ignite.pages.dump_columns import open_page_sink
    from je_tools.ignite.store import open_store
    from je_tools.output.encoders.entry_sinks import EntryFormat

    store = open_store(options["paths"], options["nodes"])
    filters = PageFilters(
        groups=known_groups(options["groups"], store.nodes),
        partitions=options["partitions"],
        pages=options["pages"],
        types=options["types"],
        keys=parse_keys(options["keys"]),
    )
    # Wrong names end the command before anything is written.
    filters.type_nos()
    filters.check_partitions(store)
    masking = Masking(DataMode(options["data_mode"]))
    sink = open_page_sink(EntryFormat(options["format_"]), masking, line_width())
    with (
        open_output_outside(options["output"], store) as out,
        bar_beside(options["output"], page_bytes(store), "ignite pages dump") as progress,
    ):
        threads = thread_count(options["threads"])
        with_items = options["items"] or bool(options["keys"])
        dump = PageDump(filters, sink.encode, threads, with_items, options["limit"], progress)
        sink.write_all(dump.run(store), out)
    if not dump.count:
        say("je-tools: no page matches")
    if dump.encrypted:
        say(f"je-tools: encrypted pages whose rows were not compared: {dump.encrypted:,}")
    if not dump.damaged:
        return EXIT_OK
    say(
        f"je-tools: not everything is shown (damaged pages and files: {dump.damaged:,}); "
        "`je-tools ignite pages verify` reports the places"
    )
    return EXIT_OK if options["exit_zero"] else EXIT_DAMAGE
