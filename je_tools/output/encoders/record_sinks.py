"""Sinks of records: encoded by a worker pool, written in order, in bounded memory."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO

from msgspec import Struct

from je_tools.core.worker_pool import Step, WorkerPool
from je_tools.log.records import (
    PIECE_BYTES,
    Batch,
    Records,
)
from je_tools.output.encoders.record_lines import (
    LineForm,
    MarkColumn,
    OutputDatabase,
    csv_form,
    dump_form,
    jsonl_form,
)
from je_tools.output.encoders.record_sources import (
    DatabaseSource,
    RecordSink,
    Written,
    in_pieces,
    pieces_of,
    read_batch,
)

if TYPE_CHECKING:
    from je_tools.core.masking import Masking
    from je_tools.formats.files.source import Bytes
    from je_tools.formats.rows import Buffer

BUFFER_MAX = 4 * PIECE_BYTES
"""Largest buffer, in bytes, that is reused; one that grew beyond it for a record is freed."""


class RecordFormat(StrEnum):
    """Output format of records."""

    DUMP = "dump"
    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"


class _Encoded(Struct, frozen=True):
    """Counts and notes of some encoded records."""

    records: int
    left_out: int
    notes: Sequence[Any]


class LineSink(Struct, frozen=True):
    """Writer of lines to a file.

    Attributes:
        form: format of the lines.
        pool: worker pool that encodes.
    """

    form: LineForm
    pool: WorkerPool

    @property
    def suffix(self) -> str:
        """Suffix of the format."""
        return self.form.suffix

    @property
    def is_single(self) -> bool:
        """True if the format is for a single database."""
        return self.form.is_single

    def write(self, sources: Iterable[DatabaseSource], out: BinaryIO) -> list[Written]:
        """Write the lines of each database as they come."""
        written: list[Written] = []
        for source in sources:
            if not written:
                out.write(self.form.start(source.database))
            written.append(self._write_one(source, out))
        out.write(self.form.end)
        return written

    def _write_one(self, source: DatabaseSource, out: BinaryIO) -> Written:
        count = left_out = 0
        steps = partial(self._steps, source.database)
        tasks = (partial(steps, batch) for batch in in_pieces(source.batches))
        for encoded, lines in self.pool.in_order(tasks):
            out.write(lines.data)
            count += encoded.records
            left_out += encoded.left_out
            for each in encoded.notes:
                source.note(each)
        return Written(source.database, None, count, left_out)

    def _steps(self, database: OutputDatabase, batch: Batch) -> Iterator[Step[_Encoded]]:
        records, notes = read_batch(batch)
        for piece in list(pieces_of(records)) or [records]:
            yield partial(self._encode, database, piece, notes)
            notes = []

    def _encode(
        self, database: OutputDatabase, records: Records, notes: Sequence[Any], buffer: Buffer
    ) -> tuple[Bytes, _Encoded]:
        count = len(records)
        if self.form.wants_data:
            known = records.data.sizes >= 0
            records = records if known.all() else records.select(known)
        lines = self.form.lines(database, records, buffer)
        return lines, _Encoded(len(records), count - len(records), notes)


def open_record_sink(
    form: RecordFormat,
    masking: Masking,
    marks: MarkColumn | None = None,
    *,
    is_print: bool = False,
    threads: int = 0,
) -> RecordSink:
    """Return the sink of a format.

    Args:
        form: the format.
        masking: masking of keys and data.
        marks: an additional column, for every format except DUMP.
        is_print: in DUMP, write visible characters as they are.
        threads: number of threads that encode; 0 for all processors available to this process.
    """
    threads = threads or len(os.sched_getaffinity(0))
    if form is RecordFormat.PARQUET:
        from je_tools.core.memory import avoid_arrow_pool
        from je_tools.output.encoders.record_parquet import BUFFER_MAX as LARGER_BUFFER_MAX
        from je_tools.output.encoders.record_parquet import ParquetRecords

        # Arrow's default pool would keep freed memory in addition to what malloc keeps.
        avoid_arrow_pool()
        pool = WorkerPool(threads, LARGER_BUFFER_MAX)
        return ParquetRecords(masking, marks, pool=pool)
    pool = WorkerPool(threads, BUFFER_MAX)
    if form is RecordFormat.CSV:
        return LineSink(csv_form(masking, marks), pool)
    if form is RecordFormat.JSONL:
        return LineSink(jsonl_form(masking, marks), pool)
    return LineSink(dump_form(masking, is_print=is_print), pool)
