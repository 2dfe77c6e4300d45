"""Output of the format `jelog` without Spark, and of `dump` for comparison."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from je_tools.spark.columns import spark_schema
from je_tools.spark.source import JelogReader, JelogSource
from tests.je_tools.dumped import je_tools

ALL = ("show", "hide", "length", "hash", "salted-hash")


def source(path: Path | Sequence[Path], **options: str) -> JelogSource:
    """Return the source as `load` creates it."""
    if isinstance(path, Path):
        return JelogSource({"path": str(path), **options})
    listed = ", ".join(f'"{each}"' for each in path)
    return JelogSource({"paths": f"[{listed}]", **options})


def reader(path: Path | Sequence[Path], **options: str) -> JelogReader:
    """Return the reader of a read."""
    made = source(path, **options)
    # Spark plans in another process than the one that created the source.
    made = pickle.loads(pickle.dumps(made))
    return made.reader(made.schema())


def batches(reading: JelogReader) -> list[pa.RecordBatch]:
    """Return the batches of all tasks; pickling limits each to what Spark sends to it."""
    partitions = pickle.loads(pickle.dumps(reading.partitions()))
    worker = pickle.loads(pickle.dumps(reading))
    return [batch for partition in partitions for batch in worker.read(partition)]


def read(path: Path | Sequence[Path], **options: str) -> pa.Table:
    """Return the entries as one table."""
    reading = reader(path, **options)
    schema = reading.planner.schema
    return pa.Table.from_batches(batches(reading), schema)


def dumped(path: Path | Sequence[Path], out: Path, *arguments: str) -> pa.Table:
    """Return the output of `dump --format parquet` in Spark's types."""
    paths = [path] if isinstance(path, Path) else path
    out.unlink(missing_ok=True)
    done = je_tools("dump", *paths, "--format", "parquet", "--output", out, *arguments)
    assert done.code in (0, 3), done.err
    table = pq.read_table(out)
    return in_spark(table)


def in_spark(table: pa.Table) -> pa.Table:
    """Return a table with the same numbers in signed types: LSNs as the same 64 bits."""
    return pa.table(
        {name: _in_spark(table.column(name).combine_chunks()) for name in table.column_names}
    )


def _in_spark(array: Any) -> Any:
    kind = array.type
    if pa.types.is_uint64(kind):
        return array.view(pa.int64())
    if pa.types.is_uint32(kind):
        return array.cast(pa.int64())
    if pa.types.is_uint8(kind):
        return array.cast(pa.int16())
    if pa.types.is_dictionary(kind):
        return array.cast(kind.value_type)
    if pa.types.is_struct(kind):
        children = [_in_spark(array.field(i)) for i in range(kind.num_fields)]
        fields = [pa.field(f.name, c.type) for f, c in zip(kind, children, strict=True)]
        return pa.StructArray.from_arrays(children, fields=fields, mask=array.is_null())
    if pa.types.is_list(kind):
        items = _in_spark(array.flatten())
        lengths = array.value_lengths().fill_null(0).to_pylist()
        ends = [0]
        for length in lengths:
            ends.append(ends[-1] + length)
        made = pa.list_(pa.field("element", items.type))
        return pa.ListArray.from_arrays(
            pa.array(ends, pa.int32()), items, type=made, mask=array.is_null()
        )
    return array


def assert_same(found: pa.Table, expected: pa.Table) -> None:
    """Check for equal columns, types and rows, in the same order."""
    assert found.schema == expected.schema, (found.schema, expected.schema)
    if not found.equals(expected):
        for name in found.column_names:
            one, other = found.column(name), expected.column(name)
            assert one.equals(other), (name, len(one), len(other))


def types_of(versions: Iterable[int]) -> pa.Schema:
    """Return the columns of a log with these versions."""
    return spark_schema(frozenset(versions))
