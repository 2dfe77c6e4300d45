"""Output of the formats without Spark, and of `dump` for comparison."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from je_tools.spark.columns import ENV
from je_tools.spark.entry_options import ENTRIES
from je_tools.spark.jelog import JelogSource
from je_tools.spark.source import LogReader, LogSource
from tests.je_tools.dumped import je_tools

OLD_FIELDS = {"item", "data_exists"}
"""Fields of `dump` for log versions before 6 alone, whose payloads are not decoded."""


def source(
    path: Path | Sequence[Path], kind: type[LogSource] = JelogSource, /, **options: str
) -> LogSource:
    """Return a source as `load` creates it."""
    if isinstance(path, Path):
        return kind({"path": str(path), **options})
    listed = ", ".join(f'"{each}"' for each in path)
    return kind({"paths": f"[{listed}]", **options})


def reader(
    path: Path | Sequence[Path], kind: type[LogSource] = JelogSource, /, **options: str
) -> LogReader:
    """Return the reader of a read."""
    made = source(path, kind, **options)
    # Spark plans in another process than the one that created the source.
    made = pickle.loads(pickle.dumps(made))
    return made.reader(made.schema())


def batches(reading: LogReader) -> list[pa.RecordBatch]:
    """Return the batches of all tasks; pickling limits each to what Spark sends to it."""
    partitions = pickle.loads(pickle.dumps(reading.partitions()))
    worker = pickle.loads(pickle.dumps(reading))
    return [batch for partition in partitions for batch in worker.read(partition)]


def read(
    path: Path | Sequence[Path], kind: type[LogSource] = JelogSource, /, **options: str
) -> pa.Table:
    """Return the rows as one table."""
    reading = reader(path, kind, **options)
    return pa.Table.from_batches(batches(reading), reading.schema)


def dumped(path: Path | Sequence[Path], out: Path, *arguments: str) -> pa.Table:
    """Return the output of `dump --format parquet` in the columns of `jelog`."""
    paths = [path] if isinstance(path, Path) else path
    out.unlink(missing_ok=True)
    done = je_tools("dump", *paths, "--format", "parquet", "--output", out, *arguments)
    assert done.code in (0, 3), done.err
    env = str(path if isinstance(path, Path) else path[0].parent)
    return in_spark(pq.read_table(out), env, ENTRIES.schema())


def in_spark(table: pa.Table, env: str, schema: pa.Schema) -> pa.Table:
    """Return a table in Spark's types: LSNs as the same 64 bits, and null where it has no column.

    The table may have no column that the schema lacks.
    """
    assert set(table.column_names) <= set(schema.names)
    columns = {
        field.name: _in_spark(table.column(field.name).combine_chunks(), field.type)
        if field.name in table.column_names
        else pa.nulls(len(table), field.type)
        for field in schema
    }
    return pa.table(columns | {ENV: pa.repeat(env, len(table))}, schema)


def _in_spark(array: Any, kind: Any) -> Any:
    if pa.types.is_uint64(array.type):
        return array.view(pa.int64())
    if pa.types.is_struct(kind):
        names = [field.name for field in array.type]
        assert set(names) - OLD_FIELDS <= {field.name for field in kind}
        children = [
            _in_spark(array.field(names.index(field.name)), field.type)
            if field.name in names
            else pa.nulls(len(array), field.type)
            for field in kind
        ]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=array.is_null())
    if pa.types.is_list(kind):
        items = _in_spark(array.flatten(), kind.value_type)
        lengths = array.value_lengths().fill_null(0).to_pylist()
        ends = [0, *accumulate(lengths)]
        return pa.ListArray.from_arrays(
            pa.array(ends, pa.int32()), items, type=kind, mask=array.is_null()
        )
    return array if array.type == kind else array.cast(kind)


def assert_same(found: pa.Table, expected: pa.Table) -> None:
    """Check for equal columns, types and rows, in the same order."""
    assert found.schema == expected.schema, (found.schema, expected.schema)
    if not found.equals(expected):
        for name in found.column_names:
            one, other = found.column(name), expected.column(name)
            assert one.equals(other), (name, len(one), len(other))
