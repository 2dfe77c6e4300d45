"""The format `ignitewal`: records of write-ahead logs of Ignite, as `ignite wal dump` has them."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from je_tools.audit.discover import UnreadPath
from je_tools.core.masking import Masking
from je_tools.core.shares import shares_of
from je_tools.findings import Severity
from je_tools.ignite.caches import check_names
from je_tools.ignite.wal.dump import RecordDump, RecordPlace
from je_tools.ignite.wal.dump_columns import RECORD_SCHEMA, record_columns
from je_tools.ignite.wal.record_filters import RecordFilters, RecordSelection
from je_tools.ignite.wal.segment_judge import judge_of
from je_tools.ignite.wal.segment_reading import copies_of, has_records
from je_tools.spark.columns import ENV, chosen, spark_batch, spark_schema
from je_tools.spark.ignite_stores import STORE_PLACES, NodePlace, check_readable, nodes_of
from je_tools.spark.query import (
    COLUMNS,
    MASKS,
    TASKS,
    UNREADABLE,
    CommonOptions,
    Relation,
    Task,
    parse_common,
)

if TYPE_CHECKING:
    from je_tools.formats.ignite.record_table import RecordTable
    from je_tools.ignite.segment_files import SegmentFile
    from je_tools.ignite.store import Store
    from je_tools.spark.option_texts import OptionTexts

OPTIONS: Mapping[str, str] = {
    **STORE_PLACES,
    **COLUMNS,
    "type": "Record types by the engine's names, or groups of them, as a list.",
    "cache": "Caches and groups by name or id, as a list.",
    "partition": "Partitions, as a list.",
    "key": "Keys of entries, as `--key` takes them, as a list.",
    "page": "Pages `GROUP:PAGE`, the page in hexadecimal, as a list.",
    "transaction": "Transactions `TOPOLOGY:NODE:ORDER`, as a list.",
    "from_pointer": "First record, `SEGMENT:OFFSET`.",
    "to_pointer": "Last record, inclusive.",
    "since": "First time, UTC, of records that have one.",
    "until": "Last time, UTC, inclusive.",
    **MASKS,
    **TASKS,
    **UNREADABLE,
}
"""Every option, and its description."""


class WalTask(Struct, frozen=True):
    """Input of one task; it pickles.

    Attributes:
        stores: what to read, with the name of each; their nodes have only wanted segments.
        columns: names of the columns, in order.
        selection: filters.
        masking: masking of keys and values, the same in every task.
    """

    stores: tuple[tuple[str, Store], ...]
    columns: tuple[str, ...]
    selection: RecordSelection
    masking: Masking

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield the records of each segment in the order of their pointers.

        Raises:
            StoppedError: a file shrank, vanished or was replaced since the task was planned.
            InputError: a file cannot be read.
        """
        schema = chosen(WAL_RECORDS.schema(), self.columns)
        # A batch has rows only if it has columns.
        own = [name for name in self.columns if name != ENV] or ["segment"]

        def encode(table: RecordTable, place: RecordPlace) -> pa.RecordBatch:
            columns = record_columns(table, place, self.masking, wanted=own)
            return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))

        for env, store in self.stores:
            for batch in RecordDump(self.selection, encode, threads=1).run(store):
                yield spark_batch(batch, env, schema)


class WalQuery(Struct, frozen=True):
    """Parsed options of a read of records.

    Attributes:
        common: options that all sources have.
        nodes: names and patterns of nodes; empty for all.
        caches: names and ids of the caches and groups of the selection.
        selection: records to read.
        masking: masking of keys and values.
    """

    common: CommonOptions
    nodes: tuple[str, ...]
    caches: tuple[str, ...]
    selection: RecordSelection
    masking: Masking

    def tasks(self, columns: tuple[str, ...], cores: int) -> list[Task]:
        """Return tasks of segments that together yield every selected record once.

        Raises:
            UsageError: no store, no node or no cache has one of the names that were asked for.
            InputError: there is no store, or something cannot be read.
        """
        places = self.common.places
        nodes = nodes_of(places, self.nodes)
        check_names(self.caches, [each.node for each in nodes], "option cache:")
        check_readable(places, (problem for node in nodes for problem in _unreadable(node)))
        wanted = [
            (node, copies.chosen)
            for node in nodes
            for copies in copies_of(node.node)
            if self.selection.wants_segment(copies.index)
        ]
        share = self.common.share(sum(segment.size for _, segment in wanted), cores)
        return [
            WalTask(tuple(_stores_of(list(group))), columns, self.selection, self.masking)
            for group in shares_of(wanted, lambda each: each[1].size, share)
        ]


def _stores_of(
    segments: Sequence[tuple[NodePlace, SegmentFile]],
) -> Iterator[tuple[str, Store]]:
    """Yield each run of segments of one node as a store with only that node and these segments."""
    for _, group in groupby(segments, lambda each: id(each[0])):
        own = list(group)
        place = own[0][0]
        node = replace(place.node, work=(), archive=tuple(segment for _, segment in own))
        yield place.env, replace(place.store, nodes=(node,))


def _unreadable(place: NodePlace) -> Iterator[UnreadPath]:
    judge = judge_of(place.store, place.node)
    for segment in place.node.segments:
        for found in judge.of_header(segment) if not has_records(segment) else ():
            if found.severity is Severity.ERROR:
                yield UnreadPath(place.env, f"{found.file}: {found.found or found.code}")


def parse_wal_query(texts: OptionTexts) -> WalQuery:
    """Parse the options of `ignitewal`.

    Raises:
        UsageError: a value is not valid.
    """
    given = {
        "types": ("type", texts.listed("type", str)),
        "caches": ("cache", texts.listed("cache", str)),
        "partitions": ("partition", texts.listed("partition", int)),
        "keys": ("key", texts.listed("key", str)),
        "pages": ("page", texts.listed("page", str)),
        "transactions": ("transaction", texts.listed("transaction", str)),
        **{
            name: (name, texts.parsed(name, str))
            for name in ("from_pointer", "to_pointer", "since", "until")
        },
    }
    for field, (name, value) in given.items():
        # Each alone, so that an error names its option.
        one = RecordFilters(**{field: value})  # type: ignore[arg-type]
        texts.checked(name, one.selection)
    filters = RecordFilters(**{field: value for field, (_, value) in given.items()})  # type: ignore[arg-type]
    return WalQuery(
        parse_common(texts),
        texts.listed("node", str),
        texts.listed("cache", str),
        texts.checked("to_pointer", filters.selection),
        Masking(texts.mode()),
    )


@functools.cache
def _schema() -> pa.Schema:
    return spark_schema(RECORD_SCHEMA)


WAL_RECORDS = Relation("ignitewal", OPTIONS, _schema, parse_wal_query)
"""The format `ignitewal`."""
