"""`je-tools ignite wal dump`: the records of a write-ahead log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

import click

from je_tools.commands._ignite import (
    StoreOptions,
    cache_option,
    node_option,
    open_output_outside,
    output_option,
    partition_option,
    segments_argument,
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
from je_tools.core.escaping import counted
from je_tools.core.masking import DataMode, Masking
from je_tools.errors import EXIT_DAMAGE, EXIT_OK
from je_tools.output.formats import ROWS

if TYPE_CHECKING:
    from je_tools.ignite.wal.record_filters import RecordSelection


class Options(StoreOptions):
    """Options of the command line."""

    types: tuple[str, ...]
    caches: tuple[str, ...]
    partitions: tuple[int, ...]
    keys: tuple[str, ...]
    pages: tuple[str, ...]
    transactions: tuple[str, ...]
    from_pointer: str | None
    to_pointer: str | None
    since: str | None
    until: str | None
    limit: int | None
    data_mode: str


@click.command("dump")
@segments_argument
@node_option
@click.option(
    "--type",
    "types",
    multiple=True,
    metavar="TYPE",
    help="Record type by the engine's name, or a group: DATA, TX, PAGE, PHYSICAL, LOGICAL, MIXED.",
)
@cache_option
@partition_option()
@click.option(
    "--key",
    "keys",
    multiple=True,
    help="Key of an entry: text, int:5, long:5, uuid:…, hex:0a1b, hex:0a* (prefix), or JSON.",
)
@click.option(
    "--page",
    "pages",
    multiple=True,
    metavar="GROUP:PAGE",
    help="Changes of a page: mycache:0001000500000002.",
)
@click.option(
    "--transaction",
    "transactions",
    multiple=True,
    metavar="VERSION",
    help="Version of a transaction or entry, as it is shown: 406698471:1:1795218469159.",
)
@click.option("--from", "from_pointer", metavar="POINTER", help="First pointer: SEGMENT:OFFSET.")
@click.option("--to", "to_pointer", metavar="POINTER", help="Last pointer, inclusive.")
@click.option(
    "--since", help="First time, UTC: 2026-11-20T10:00:00, or 1795168800s, 1795168800000ms."
)
@click.option("--until", help="Last time, UTC, inclusive.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Stop after this many rows.")
@format_option(*ROWS)
@output_option
@data_option
@threads_count_option
@exit_zero_option
def command(**options: Unpack[Options]) -> int:
    """Print the records of a write-ahead log, in the order of their pointers.

    A data record has a row for each of its entries, any other record has one row. The command
    reads past damage; if there is any, standard error says so, and the exit code is 3. If a segment
    has several copies, one is read, chosen as by `ignite wal summary`; `file` names it.

    A row must match all filters. A filter that is repeated matches any of its values. Only records
    that have a time match --since and --until. Only entries of caches match --key: changes of pages
    hold parts of rows, and are not searched.

    \b
    Examples:
      je-tools ignite wal dump /var/lib/ignite --type DATA --cache accounts
      je-tools ignite wal dump work --cache accounts --key long:4711
      je-tools ignite wal dump work --transaction 406698471:1:1795218469159
      je-tools ignite wal dump work --page accounts:0001000500000002 --format jsonl
      je-tools ignite wal dump work --from 7:0 --to 7:65535 --data hash
      je-tools ignite wal dump work --format parquet --output records.parquet
    """
    selection = _selection(options)
    check_has_output(options["format_"], options["output"])
    from je_tools.core.memory import avoid_arrow_pool
    from je_tools.ignite.caches import unknown_warnings
    from je_tools.ignite.store import open_store
    from je_tools.ignite.wal.dump import RecordDump
    from je_tools.ignite.wal.dump_sinks import open_record_sink
    from je_tools.output.encoders.entry_sinks import EntryFormat

    # The threads' shares of Arrow's own pool would keep 20 MB.
    avoid_arrow_pool()
    store = open_store(options["paths"], options["nodes"])
    groups = [text.rpartition(":")[0] for text in options["pages"]]
    for warning in unknown_warnings([*options["caches"], *groups], store.nodes):
        say(f"je-tools: {warning}")
    masking = Masking(DataMode(options["data_mode"]))
    sink = open_record_sink(EntryFormat(options["format_"]), masking, line_width())
    with (
        open_output_outside(options["output"], store) as out,
        bar_beside(options["output"], store.size, "ignite wal dump") as progress,
    ):
        threads = thread_count(options["threads"])
        dump = RecordDump(selection, sink.encode, threads, options["limit"], progress)
        sink.write_all(dump.run(store), out)
    if not dump.count:
        numbers = [text for text in options["keys"] if text.removeprefix("-").isdecimal()]
        how = f"; --key {numbers[0]} is a text, int:{numbers[0]} a number" if numbers else ""
        say(f"je-tools: no record matches{how}")
    if dump.encrypted:
        say(f"je-tools: encrypted entries whose keys were not compared: {dump.encrypted:,}")
    if not dump.damaged:
        return EXIT_OK
    say(
        f"je-tools: not everything is shown ({counted(dump.damaged, 'error')}); "
        "`je-tools ignite wal verify` reports the places"
    )
    return EXIT_OK if options["exit_zero"] else EXIT_DAMAGE


def _selection(options: Options) -> RecordSelection:
    from je_tools.ignite.wal.record_filters import RecordFilters

    return RecordFilters(
        types=options["types"],
        caches=options["caches"],
        partitions=options["partitions"],
        keys=options["keys"],
        pages=options["pages"],
        transactions=options["transactions"],
        from_pointer=options["from_pointer"],
        to_pointer=options["to_pointer"],
        since=options["since"],
        until=options["until"],
    ).selection()
