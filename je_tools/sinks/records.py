"""Files of records: encoded by a worker pool, written in order, in bounded memory."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
from msgspec import Struct

from je_tools.errors import UsageError
from je_tools.formats.rows import Room
from je_tools.formats.source import Bytes
from je_tools.masking import Masking
from je_tools.records import (
    PIECE_BYTES,
    PIECE_ROWS,
    Batch,
    Coming,
    Note,
    Records,
    cuts,
    no_note,
)
from je_tools.sinks.file_names import file_stems
from je_tools.sinks.output import PartPath, open_part, settle
from je_tools.sinks.record_lines import LineForm, Marks, Named, csv_form, dump_form, jsonl_form
from je_tools.turns import Hands, Step

ROOM_MAX = 4 * PIECE_BYTES
"""Largest buffer, in bytes, that is reused; one that grew beyond it for a record is freed."""


class RecordFormat(StrEnum):
    """Output format of records."""

    DUMP = "dump"
    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"


class Source(Struct, frozen=True):
    """A database to be written, and its records in output order.

    Attributes:
        database: the database.
        batches: its records.
        note: function called with each note made while the records were read, in order.
    """

    database: Named
    batches: Iterable[Batch]
    note: Note = no_note


class Written(Struct, frozen=True):
    """Result of writing a database.

    Attributes:
        database: the database.
        file: name of its file; None in a stream.
        records: number of records written.
        left_out: number of records left out because their data is unknown and the format cannot
            express that.
    """

    database: Named
    file: str | None
    records: int
    left_out: int


class RecordSink(Protocol):
    """Writer of one output format."""

    @property
    def suffix(self) -> str:
        """Suffix of file names."""

    @property
    def is_single(self) -> bool:
        """True if a file can hold only one database."""

    def write(self, sources: Iterable[Source], out: BinaryIO) -> list[Written]:
        """Write databases to `out`, which stays open."""


class _Spelled(Struct, frozen=True):
    """Counts and notes of some encoded records."""

    records: int
    left_out: int
    notes: Sequence[Any]


class LineSink(Struct, frozen=True):
    """Writer of lines to a file.

    Attributes:
        form: format of the lines.
        hands: worker pool that encodes.
    """

    form: LineForm
    hands: Hands

    @property
    def suffix(self) -> str:
        """Suffix of the format."""
        return self.form.suffix

    @property
    def is_single(self) -> bool:
        """True if the format is for a single database."""
        return self.form.is_single

    def write(self, sources: Iterable[Source], out: BinaryIO) -> list[Written]:
        """Write the lines of each database as they come."""
        written: list[Written] = []
        for source in sources:
            if not written:
                out.write(self.form.start(source.database))
            written.append(self._write_one(source, out))
        out.write(self.form.end)
        return written

    def _write_one(self, source: Source, out: BinaryIO) -> Written:
        count = left_out = 0
        steps = partial(self._steps, source.database)
        tasks = (partial(steps, batch) for batch in in_pieces(source.batches))
        for spelled, lines in self.hands.in_order(tasks):
            out.write(lines.data)
            count += spelled.records
            left_out += spelled.left_out
            for each in spelled.notes:
                source.note(each)
        return Written(source.database, None, count, left_out)

    def _steps(self, database: Named, batch: Batch) -> Iterator[Step[_Spelled]]:
        records, notes = read_batch(batch)
        for piece in list(pieces_of(records)) or [records]:
            yield partial(self._encode, database, piece, notes)
            notes = []

    def _encode(
        self, database: Named, records: Records, notes: Sequence[Any], room: Room
    ) -> tuple[Bytes, _Spelled]:
        count = len(records)
        if self.form.wants_data:
            known = records.data.sizes >= 0
            records = records if known.all() else records.take(known)
        lines = self.form.lines(database, records, room)
        return lines, _Spelled(len(records), count - len(records), notes)


def open_record_sink(
    form: RecordFormat,
    masking: Masking,
    marks: Marks | None = None,
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
        import pyarrow as pa

        from je_tools.sinks.record_tables import ROOM_MAX as LARGER_ROOM_MAX
        from je_tools.sinks.record_tables import ParquetRecords

        # Arrow's default pool would keep freed memory in addition to what malloc keeps.
        pa.set_memory_pool(pa.system_memory_pool())
        hands = Hands(threads, LARGER_ROOM_MAX)
        return ParquetRecords(masking, marks, hands=hands)
    hands = Hands(threads, ROOM_MAX)
    if form is RecordFormat.CSV:
        return LineSink(csv_form(masking, marks), hands)
    if form is RecordFormat.JSONL:
        return LineSink(jsonl_form(masking, marks), hands)
    return LineSink(dump_form(masking, is_print=is_print), hands)


def write_stream(sink: RecordSink, sources: Iterable[Source], out: BinaryIO) -> list[Written]:
    """Write all databases to one file.

    Raises:
        UsageError: there are several, and the format cannot separate them.
    """
    return sink.write(_single(sources) if sink.is_single else sources, out)


def _single(sources: Iterable[Source]) -> Iterator[Source]:
    for number, source in enumerate(sources):
        if number:
            raise UsageError(
                "this form holds one database a file; name one with --db, or a new folder with "
                "--output"
            )
        yield source


def stems_of(
    sink: RecordSink,
    databases: Iterable[Named],
    marks: Sequence[str] = ("",),
    reserved: Iterable[str] = (),
) -> dict[int, str]:
    """Return the beginnings of the file names of databases, by id.

    Args:
        sink: the format.
        databases: all databases that are written to one directory.
        marks: marks with which `write_files` will be called.
        reserved: names of other files in the directory.
    """
    names = ((database.db_id, database.shown) for database in databases)
    return file_stems(names, [mark + sink.suffix for mark in marks], reserved)


def write_files(
    sink: RecordSink,
    sources: Iterable[Source],
    stems: Mapping[int, str],
    directory: Path,
    known: Path,
    mark: str = "",
) -> list[Written]:
    """Write each database to a file of its own, named after it.

    Args:
        sink: the format.
        sources: the databases.
        stems: beginnings of the file names by id, from `stems_of`.
        directory: existing directory to write to.
        known: path that the directory will have when all files are written.
        mark: text before the suffix in the file names.

    Raises:
        RefusedError: a file cannot be written.
    """
    written = []
    for source in sources:
        name = stems[source.database.db_id] + mark + sink.suffix
        path = PartPath(directory / name, known / name)
        with open_part(path) as out:
            (done,) = sink.write([source], out)
        settle(path)
        written.append(Written(done.database, name, done.records, done.left_out))
    return written


def pieces_of(
    records: Records, rows_max: int = PIECE_ROWS, bytes_max: int = PIECE_BYTES
) -> Iterator[Records]:
    """Yield the records in pieces of bounded size; a larger record is a piece by itself."""
    sizes = np.maximum(records.key.sizes, 0) + np.maximum(records.data.sizes, 0)
    for cut in cuts(sizes, rows_max, bytes_max):
        yield records if cut.stop - cut.start == len(records) else records.take(cut)


def read_batch(batch: Batch) -> tuple[Records, list[Any]]:
    """Return the records of a batch, and the notes made while they were read."""
    if not isinstance(batch, Coming):
        return batch, []
    notes: list[Any] = []
    return batch.read(notes.append), notes


def in_pieces(
    batches: Iterable[Batch], rows_max: int = PIECE_ROWS, bytes_max: int = PIECE_BYTES
) -> Iterator[Batch]:
    """Yield batches, those already read in pieces; see `pieces_of`."""
    for batch in batches:
        if isinstance(batch, Coming):
            yield batch
        else:
            yield from pieces_of(batch, rows_max, bytes_max)
