"""`je-tools ignite export`: the records of caches, as recovery would leave them."""

from __future__ import annotations

from typing import Unpack

import click

from je_tools.commands._ignite import (
    StoreOptions,
    cache_option,
    node_option,
    open_output_outside,
    output_option,
    partition_option,
    say_first,
    say_problems,
    store_argument,
    thread_count,
)
from je_tools.commands._options import (
    check_has_output,
    chosen_masking,
    data_option,
    exit_zero_option,
    format_option,
    threads_count_option,
)
from je_tools.commands._progress import progress_bar
from je_tools.commands._terminal import say
from je_tools.core.escaping import counted
from je_tools.errors import EXIT_DAMAGE, EXIT_OK


class Options(StoreOptions):
    """Options of the command line."""

    caches: tuple[str, ...]
    partitions: tuple[int, ...]
    data_mode: str


@click.command("export")
@store_argument
@node_option
@cache_option
@partition_option()
@format_option("jsonl", "csv", "parquet", default="jsonl")
@output_option
@data_option
@threads_count_option
@exit_zero_option
def command(**options: Unpack[Options]) -> int:
    """Write the records of caches, as a node would have them after recovery.

    The command reads the pages, and replays the log over those of an unfinished checkpoint. Then it
    applies the entries since the newest checkpoint, without those of transactions that did not
    commit. Nothing is written to the store. If something could not be read, standard error says
    what, and the exit code is 3. It also says what was not checked.

    \b
    Examples:
      je-tools ignite export /var/lib/ignite --cache accounts
      je-tools ignite export work --node node1 --format parquet --output records.parquet
      je-tools ignite export work --cache accounts --partition 7 --data hash --format csv
    """
    check_has_output(options["format_"], options["output"])
    from je_tools.ignite.caches import check_partitions, known_ids
    from je_tools.ignite.records.export import CacheExport
    from je_tools.ignite.records.node_records import CacheFilter
    from je_tools.ignite.records.problems import NOT_CHECKED
    from je_tools.ignite.records.sinks import open_cache_sink
    from je_tools.ignite.store import open_store
    from je_tools.output.encoders.entry_sinks import EntryFormat

    store = open_store(options["paths"], options["nodes"])
    ids = known_ids(options["caches"], store.nodes)
    wanted = CacheFilter(ids, frozenset(options["partitions"]))
    sink = open_cache_sink(EntryFormat(options["format_"]), chosen_masking(options["data_mode"]))
    with (
        open_output_outside(options["output"], store) as out,
        progress_bar(store.size, "ignite export") as progress,
    ):
        export = CacheExport(wanted, sink.encode, thread_count(options["threads"]), progress)
        sink.write_all(export.run(store), out)
        # Some partitions are only in the log, so all of them are known only now.
        check_partitions(options["partitions"], export.known)
    say(f"je-tools: {counted(export.count, 'record')}")
    say_first(
        [
            f"{node} {group} partition {partition}: state {state}, not OWNING"
            for node, group, partition, state in export.not_owned
        ],
        "partitions that are not OWNING",
    )
    say_problems(export.problems)
    for text in NOT_CHECKED:
        say(f"je-tools: not checked: {text}")
    return EXIT_DAMAGE if export.problems and not options["exit_zero"] else EXIT_OK
