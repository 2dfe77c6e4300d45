"""Records as Parquet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct

from je_tools.formats.rows import Buffer
from je_tools.formats.spans import Spans, gather
from je_tools.log.records import Batch, Records, UnreadRecords
from je_tools.output.encoders import arrow_texts as t
from je_tools.output.encoders.parquet_join import Joiner, ParquetPart, take_apart
from je_tools.output.encoders.record_lines import (
    TIMES,
    MarkColumn,
    OutputDatabase,
    optional_columns,
)
from je_tools.output.encoders.record_sources import (
    DatabaseSource,
    Written,
    in_pieces,
    pieces_of,
    read_batch,
)

if TYPE_CHECKING:
    from je_tools.core.masking import Masking
    from je_tools.core.worker_pool import Step, WorkerPool
    from je_tools.formats.files.source import Bytes

GROUP_ROWS = 1 << 15
GROUP_BYTES = 16 << 20
"""Most records of a row group, and about the most bytes of their keys and data.

There are as many groups in memory as threads, and some more.
"""

PAGE_SIZE = 256 << 10
"""Bytes of a page: small enough to be built and compressed in the processor's cache."""

FRAME_SIZE = 1 << 20
"""Largest size of a file of one row group apart from its values, in bytes."""

BUFFER_MAX = 4 * GROUP_BYTES
"""Largest buffer, in bytes, that is reused; one that grew beyond it for a record is freed."""

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


class _WrittenParquet(Struct, frozen=True):
    """Metadata of a Parquet file in memory, and the notes made while its records were read."""

    part: ParquetPart
    notes: Sequence[Any]


class ParquetRecords(Struct, frozen=True):
    """Writer of records to a Parquet file.

    Attributes:
        masking: masking of keys and data.
        marks: an additional column, or None.
        pool: worker pool that builds row groups.
    """

    masking: Masking
    marks: MarkColumn | None
    pool: WorkerPool
    suffix: str = ".parquet"
    is_single: bool = False

    def write(self, sources: Iterable[DatabaseSource], out: BinaryIO) -> list[Written]:
        """Write the records of each database, in row groups of bounded size."""
        written = []
        joiner = Joiner(out)
        for source in sources:
            count = 0
            steps = partial(self._steps, source.database)
            tasks = (partial(steps, group) for group in _groups(source.batches))
            for made, file in self.pool.in_order(tasks):
                for each in made.notes:
                    source.note(each)
                if made.part.rows:
                    joiner.append(made.part, file.data)
                    count += made.part.rows
            written.append(Written(source.database, None, count, 0))
        if not joiner.begun:
            file, made = self._made(record_schema(self.marks).empty_table(), [], Buffer())
            joiner.append(made.part, file.data)
        joiner.finish()
        return written

    def _steps(
        self, database: OutputDatabase, group: Sequence[Batch]
    ) -> Iterator[Step[_WrittenParquet]]:
        """Yield a step for each row group: one, if the announced sizes of a group are right."""
        tables: list[pa.RecordBatch] = []
        notes: list[Any] = []
        rows = size = 0
        for batch in group:
            records, noted = read_batch(batch)
            notes += noted
            for piece in list(pieces_of(records, GROUP_ROWS, GROUP_BYTES)) or [records]:
                more_rows, more_bytes = len(piece), _size(piece)
                if tables and (rows + more_rows > GROUP_ROWS or size + more_bytes > GROUP_BYTES):
                    yield partial(self._made, pa.Table.from_batches(tables), notes)
                    tables, notes, rows, size = [], [], 0, 0
                table = record_batch(database, piece, self.masking, self.marks)
                tables.append(table)
                rows, size = rows + more_rows, size + more_bytes
        yield partial(self._made, pa.Table.from_batches(tables), notes)

    def _made(
        self, table: pa.Table, notes: Sequence[Any], buffer: Buffer
    ) -> tuple[Bytes, _WrittenParquet]:
        """Return a file of one row group, or of none if there are no records."""
        # Incompressible values grow by up to a sixth.
        space = buffer.of(2 * table.nbytes + FRAME_SIZE)
        sink = pa.FixedSizeBufferWriter(pa.py_buffer(space))
        with pq.ParquetWriter(
            sink,
            table.schema,
            compression="snappy",
            use_dictionary=["db", *([self.marks.name] if self.marks else [])],
            write_statistics=["db"],
            data_page_size=PAGE_SIZE,
        ) as writer:
            if len(table):
                writer.write_table(table, row_group_size=len(table))
        file = space[: sink.tell()]
        return file, _WrittenParquet(take_apart(file.data), notes)


def _groups(batches: Iterable[Batch]) -> Iterator[list[Batch]]:
    """Yield lists of batches that fit into one row group each; batches already read are cut."""
    waiting: list[Batch] = []
    rows = size = 0
    for piece in in_pieces(batches, GROUP_ROWS, GROUP_BYTES):
        more_rows, more_bytes = _extent(piece)
        is_full = rows + more_rows > GROUP_ROWS or size + more_bytes > GROUP_BYTES
        if waiting and is_full:
            yield waiting
            waiting, rows, size = [], 0, 0
        waiting.append(piece)
        rows += more_rows
        size += more_bytes
    if waiting:
        yield waiting


def _extent(batch: Batch) -> tuple[int, int]:
    """Return records and approximate bytes of a batch; those of a full group if unknown."""
    if not isinstance(batch, UnreadRecords):
        return len(batch), _size(batch)
    rows = GROUP_ROWS if batch.rows is None else batch.rows
    return rows, GROUP_BYTES if batch.size is None else batch.size


def _size(records: Records) -> int:
    """Return the number of bytes of keys and data."""
    return int(np.maximum(records.key.sizes, 0).sum() + np.maximum(records.data.sizes, 0).sum())


def record_schema(marks: MarkColumn | None = None) -> pa.Schema:
    """Return RECORD_SCHEMA, with the column of marks if there are any."""
    if marks is None:
        return RECORD_SCHEMA
    return RECORD_SCHEMA.append(pa.field(marks.name, _WORDS, nullable=False))


def record_batch(
    database: OutputDatabase, records: Records, masking: Masking, marks: MarkColumn | None = None
) -> pa.RecordBatch:
    """Return records in the columns of `record_schema`."""
    names = pa.DictionaryArray.from_arrays(
        t.number_array(np.zeros(len(records), np.int32)), pa.array([database.shown], pa.string())
    )
    columns = optional_columns(records)
    lsn, has_lsn = columns["lsn"]
    arrays = [
        names,
        _binary(masking.column(records.key)),
        _binary(masking.column(records.data)),
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


def record_batches(
    database: OutputDatabase, masking: Masking, batch: Batch
) -> tuple[list[pa.RecordBatch], list[Any]]:
    """Return the records of a batch, and the notes made while they were read."""
    records, notes = read_batch(batch)
    pieces = pieces_of(records, GROUP_ROWS, GROUP_BYTES)
    return [record_batch(database, piece, masking) for piece in pieces], notes


def _binary(values: Spans) -> pa.Array:
    offsets, content = gather(values.data, values.starts, values.sizes)
    return t.string_array(offsets, content, values.sizes >= 0).view(pa.binary())
