"""Records as Parquet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from je_tools.formats.spans import Spans, gather
from je_tools.masking import Masking
from je_tools.records import Records
from je_tools.sinks import texts as t
from je_tools.sinks.output import WriteBehind
from je_tools.sinks.record_lines import TIMES, Marks, Named, masked, time_columns
from je_tools.sinks.records import Source, Written, in_order, pieces_of

GROUP_ROWS = 1 << 16
GROUP_BYTES = 32 << 20
"""Most records of a row group, and about how many bytes of keys and data they have."""

PAGE_SIZE = 256 << 10
"""Bytes of a page, which is put together and compressed where the processor has it at hand."""

_WORDS = pa.dictionary(pa.int32(), pa.string())

RECORD_SCHEMA = pa.schema(
    [
        pa.field("db", _WORDS, nullable=False),
        ("key", pa.binary()),
        ("data", pa.binary()),
        *((name, pa.int64()) for name in TIMES),
        pa.field("tombstone", pa.bool_(), nullable=False),
        ("vlsn", pa.int64()),
        ("lsn", pa.uint64()),
    ]
)


@dataclass(frozen=True, slots=True)
class ParquetRecords:
    """Records into a Parquet file.

    Attributes:
        masking: what becomes of keys and data.
        marks: one more column.
        threads: how many put columns together.
        fast: use compiled kernels.
    """

    masking: Masking
    marks: Marks | None
    threads: int
    fast: bool
    suffix: str = ".parquet"
    is_single: bool = False

    def write(self, sources: Iterable[Source], out: BinaryIO) -> list[Written]:
        """Write the records of each database, a row group of bounded size at a time."""
        written = []
        with (
            WriteBehind(out) as behind,
            pq.ParquetWriter(
                behind,
                record_schema(self.marks),
                compression="snappy",
                use_dictionary=["db", *([self.marks.name] if self.marks else [])],
                write_statistics=["db"],
                data_page_size=PAGE_SIZE,
            ) as writer,
        ):
            for source in sources:
                count = 0
                for group in _groups(in_order(self._tasks(source), self.threads)):
                    writer.write_table(group, row_group_size=group.num_rows)
                    count += group.num_rows
                written.append(Written(source.database, None, count, 0))
        return written

    def _tasks(self, source: Source) -> Iterator[Callable[[], pa.RecordBatch]]:
        for batch in source.batches:
            pieces = [batch] if callable(batch) else pieces_of(batch, GROUP_ROWS, GROUP_BYTES)
            for piece in pieces:
                yield partial(self._encode, source.database, piece)

    def _encode(self, database: Named, batch: Records | Callable[[], Records]) -> pa.RecordBatch:
        records = batch() if callable(batch) else batch
        return record_batch(database, records, self.masking, self.marks, fast=self.fast)


def _groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches put together as far as they fit into one row group."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        is_full = rows + batch.num_rows > GROUP_ROWS or size + batch.nbytes > GROUP_BYTES
        if waiting and is_full:
            yield pa.Table.from_batches(waiting)
            waiting.clear()
            rows = size = 0
        if batch.num_rows:
            waiting.append(batch)
            rows += batch.num_rows
            size += batch.nbytes
    if waiting:
        yield pa.Table.from_batches(waiting)


def record_schema(marks: Marks | None = None) -> pa.Schema:
    """RECORD_SCHEMA, and the column of marks where there are any."""
    if marks is None:
        return RECORD_SCHEMA
    return RECORD_SCHEMA.append(pa.field(marks.name, _WORDS, nullable=False))


def record_batch(
    database: Named, records: Records, masking: Masking, marks: Marks | None = None, *, fast: bool
) -> pa.RecordBatch:
    """Records in the columns of `record_schema`."""
    names = pa.DictionaryArray.from_arrays(
        t.number_array(np.zeros(len(records), np.int32)), pa.array([database.shown], pa.string())
    )
    columns = time_columns(records)
    lsn, has_lsn = columns["lsn"]
    arrays = [
        names,
        _binary(masked(records.key, masking), fast),
        _binary(masked(records.data, masking), fast),
        *(t.number_array(*columns[name]) for name in TIMES),
        t.bool_array(records.tombstone),
        t.number_array(*columns["vlsn"]),
        t.number_array(np.ascontiguousarray(lsn).view(np.uint64), has_lsn),
    ]
    if marks is not None:
        codes = t.number_array(marks.of(records).astype(np.int32))
        labels = pa.array(marks.labels, pa.string())
        arrays.append(pa.DictionaryArray.from_arrays(codes, labels))
    return pa.RecordBatch.from_arrays(arrays, schema=record_schema(marks))


def _binary(values: Spans, fast: bool) -> pa.Array:
    offsets, content = gather(values.data, values.starts, values.sizes, fast=fast)
    return t.string_array(offsets, content, values.sizes >= 0).view(pa.binary())
