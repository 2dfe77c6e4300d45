"""Columns of `dump`'s Parquet output in Spark's types.

Spark has no unsigned numbers and no dictionaries. Numbers of 8 and 32 bits become the next larger
signed ones, as Spark itself reads them from Parquet. LSNs become int64 with the same bits: those
of files from 0x80000000 on are negative, and one that is NULL on disk is -1.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

import pyarrow as pa

from je_tools.errors import UsageError
from je_tools.output.encoders.entry_batches import entry_schema

_SIGNED = {pa.uint8(): pa.int16(), pa.uint32(): pa.int64(), pa.uint64(): pa.int64()}

PAYLOAD_FIELDS = {
    "db_id": frozenset({"db_id"}),
    "db": frozenset({"db_id"}),
    "txn_id": frozenset({"txn_id"}),
    "key": frozenset({"key"}),
    "data_size": frozenset({"data"}),
    "data": frozenset({"data"}),
}
"""Payload fields from which columns of every row are made; other such columns need none."""


def spark_schema(versions: frozenset[int], columns: Sequence[str] | None = None) -> pa.Schema:
    """Return `entry_schema(versions)` in Spark's types, limited to `columns` if these are given.

    Raises:
        UsageError: a log of these versions has no such column, or one is named twice.
    """
    whole = entry_schema(versions)
    names = whole.names if columns is None else list(columns)
    unknown = [name for name in names if name not in whole.names]
    if unknown:
        raise UsageError(f"column {unknown[0]}: this log has none, but {', '.join(whole.names)}")
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise UsageError(f"column {min(twice)}: named twice")
    return pa.schema([pa.field(name, _spark_type(whole.field(name).type)) for name in names])


def spark_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Convert a batch of `entry_batch` to the types of `spark_schema`, with the same columns."""
    arrays = [
        # Most of the structs are null in most batches.
        pa.nulls(len(batch), kind) if array.null_count == len(batch) else _cast(array, kind)
        for array, kind in zip(batch.columns, schema.types, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def wanted_fields(columns: Iterable[str]) -> frozenset[str]:
    """Return the payload fields that must be decoded for these columns."""
    return frozenset().union(*(PAYLOAD_FIELDS.get(name, frozenset()) for name in columns))


def _cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    # An unsafe cast, because an LSN keeps its bits.
    return array if array.type == kind else array.cast(kind, safe=False)


@functools.cache
def _spark_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return kind.value_type
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _spark_type(field.type)) for field in kind])
    if pa.types.is_list(kind):
        # Arrow names the element differently, and Spark compares names.
        return pa.list_(pa.field("element", _spark_type(kind.value_type)))
    return _SIGNED.get(kind, kind)
