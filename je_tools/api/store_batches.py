"""Records and pages of stores of Ignite as Arrow record batches."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from je_tools.api.arguments import named_arguments
from je_tools.core.escaping import counted
from je_tools.ignite.caches import check_names, check_partitions, known_groups, known_ids
from je_tools.ignite.pages.dump import PageDump, PageFilters
from je_tools.ignite.pages.dump_columns import open_page_sink
from je_tools.ignite.records.export import CacheExport
from je_tools.ignite.records.node_records import CacheFilter
from je_tools.ignite.records.problems import merged
from je_tools.ignite.records.sinks import open_cache_sink
from je_tools.ignite.wal.dump import RecordDump
from je_tools.ignite.wal.dump_sinks import open_record_sink
from je_tools.output.encoders.column_sinks import ColumnParquetSink
from je_tools.output.encoders.entry_sinks import EntryFormat

if TYPE_CHECKING:
    from je_tools.core.masking import Masking
    from je_tools.ignite.store import Store
    from je_tools.ignite.wal.record_filters import RecordFilters


class StoreCall(Struct, frozen=True):
    """Input of a call on a store.

    Attributes:
        store: the store as it is when the call begins.
        threads: number of threads.
        masking: masking of keys and values.
        report: called with what could not be read, in words.
    """

    store: Store
    threads: int
    masking: Masking
    report: Callable[[str], None]


def read_log_records(
    call: StoreCall, filters: RecordFilters, limit: int | None
) -> Generator[Any, None, None]:
    """Yield the schema when everything is ready, then the records of the log.

    The columns are those of `ignite wal dump --format parquet`.

    Raises:
        UsageError: a filter cannot be parsed, or no node has a cache of a name; before the schema.
        InputError: a file cannot be read.
        StoppedError: a file shrank, vanished or was replaced meanwhile.
    """
    with named_arguments():
        selection = filters.selection()
        check_names(filters.caches, call.store.nodes)
        sink = open_record_sink(EntryFormat.PARQUET, call.masking, 0)
        assert isinstance(sink, ColumnParquetSink)
        dump = RecordDump(selection, sink.encode, call.threads, limit)
        yield sink.schema
        yield from dump.run(call.store)
    if dump.encrypted:
        call.report(f"encrypted entries whose keys were not compared: {dump.encrypted:,}")
    if dump.damaged:
        errors = counted(dump.damaged, "error")
        call.report(f"not all records of the log could be read: {errors}; `doctor` has the places")


def read_cache_records(
    call: StoreCall, caches: tuple[str, ...], partitions: tuple[int, ...]
) -> Generator[Any, None, None]:
    """Yield the schema when everything is ready, then the records of caches after recovery.

    The columns are those of `ignite export --format parquet`.

    Raises:
        UsageError: there is no such cache, before the schema; or no such partition.
        InputError: a file cannot be read, or the markers do not show where recovery begins.
        StoppedError: a file shrank, vanished or was replaced meanwhile.
    """
    with named_arguments():
        wanted = CacheFilter(known_ids(caches, call.store.nodes), frozenset(partitions))
        sink = open_cache_sink(EntryFormat.PARQUET, call.masking)
        assert isinstance(sink, ColumnParquetSink)
        export = CacheExport(wanted, sink.encode, call.threads)
        yield sink.schema
        yield from export.run(call.store)
        # Some partitions are only in the log, so not all are known before its end.
        check_partitions(partitions, export.known)
    for node, group, partition, state in export.not_owned:
        call.report(f"{node} {group} partition {partition}: state {state}, not OWNING")
    for problem in merged(export.problems):
        call.report(problem.text())


def read_pages(
    call: StoreCall, groups: tuple[str, ...], filters: PageFilters, items: bool
) -> Generator[Any, None, None]:
    """Yield the schema when everything is ready, then pages and their items.

    The columns are those of `ignite pages dump --format parquet`.

    Raises:
        UsageError: there is no such group, partition or type; before the schema.
        InputError: a file cannot be read.
        StoppedError: a file shrank, vanished or was replaced meanwhile.
    """
    with named_arguments():
        chosen = replace(filters, groups=known_groups(groups, call.store.nodes))
        chosen.type_nos()
        chosen.check_partitions(call.store)
        sink = open_page_sink(EntryFormat.PARQUET, call.masking, 0)
        assert isinstance(sink, ColumnParquetSink)
        has_items = items or bool(filters.keys)
        dump = PageDump(chosen, sink.encode, call.threads, has_items, None)
        yield sink.schema
        yield from dump.run(call.store)
    if dump.encrypted:
        call.report(f"encrypted pages whose rows were not compared: {dump.encrypted:,}")
    if dump.damaged:
        call.report(f"damaged pages and files: {dump.damaged:,}; `doctor` has the places")
