"""Columns of data sources in Spark's types, with the environment first.

Spark has no unsigned numbers and no dictionaries. Numbers of 8 to 32 bits become the next larger
signed ones, as Spark itself reads them from Parquet. LSNs become int64 with the same bits: those
of files from 0x80000000 on are negative, and one that is NULL on disk is -1. Every column may be
null, so that all files that Spark writes have the same schema.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

import pyarrow as pa

from je_tools.errors import UsageError

ENV = "env"
"""Name of the column that has the environment, in every source."""

_SIGNED = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.int64(),
}


def spark_schema(schema: Iterable[pa.Field]) -> pa.Schema:
    """Return fields in Spark's types, after the column of the environment."""
    fields = [pa.field(field.name, _spark_type(field.type)) for field in schema]
    return pa.schema([pa.field(ENV, pa.string()), *fields])


def chosen(schema: pa.Schema, columns: Sequence[str] | None) -> pa.Schema:
    """Return the columns of a schema with these names, in their order; all for None.

    Raises:
        UsageError: there is no such column, or one is named twice.
    """
    if columns is None:
        return schema
    unknown = [name for name in columns if name not in schema.names]
    if unknown:
        raise UsageError(
            f"column {unknown[0]}: no such column; there are {', '.join(schema.names)}"
        )
    twice = {name for name in columns if columns.count(name) > 1}
    if twice:
        raise UsageError(f"column {min(twice)}: named twice")
    return pa.schema([schema.field(name) for name in columns])


def spark_batch(batch: pa.RecordBatch, env: str, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch in the columns of `schema`, a part of its `spark_schema`.

    Columns of the batch that the schema does not have are dropped.
    """
    arrays = [
        pa.repeat(env, len(batch)) if field.name == ENV else _converted(batch, field)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _converted(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    array = batch.column(field.name)
    if array.type == field.type:
        return array
    # Most of the structs are null in most batches.
    if array.null_count == len(batch):
        return pa.nulls(len(batch), field.type)
    # An unsafe cast, because an LSN keeps its bits.
    return array.cast(field.type, safe=False)


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
