"""Records of databases into files: encoded by several at once, written in order, memory bounded."""

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
"""A room that is larger, for a record that is, is not kept."""


class RecordFormat(StrEnum):
    """How records are written."""

    DUMP = "dump"
    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"


class Source(Struct, frozen=True):
    """A database to be written, and its records in the order in which they are written.

    Attributes:
        database: which.
        batches: its records.
        note: told of what was noted while they were read, in their order.
    """

    database: Named
    batches: Iterable[Batch]
    note: Note = no_note


class Written(Struct, frozen=True):
    """What has been written of a database.

    Attributes:
        database: which.
        file: the name of its file; None in a stream.
        records: how many of them.
        left_out: those whose data is not known, where the form has no way to say so.
    """

    database: Named
    file: str | None
    records: int
    left_out: int


class RecordSink(Protocol):
    """What writes a form of output."""

    @property
    def suffix(self) -> str:
        """Of the names of files."""

    @property
    def is_single(self) -> bool:
        """Whether a file can hold one database only."""

    def write(self, sources: Iterable[Source], out: BinaryIO) -> list[Written]:
        """Write databases to `out`, which stays open."""


class _Spelled(Struct, frozen=True):
    """What there is to know of some records beside their lines."""

    records: int
    left_out: int
    notes: Sequence[Any]


class LineSink(Struct, frozen=True):
    """Lines into a file.

    Attributes:
        form: what the lines look like.
        hands: who encodes.
    """

    form: LineForm
    hands: Hands

    @property
    def suffix(self) -> str:
        """As that of the form."""
        return self.form.suffix

    @property
    def is_single(self) -> bool:
        """As the form."""
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
    """The sink of a format.

    Args:
        form: the format.
        masking: what becomes of keys and data.
        marks: one more column, for all but DUMP.
        is_print: of DUMP, visible characters as they are.
        threads: how many encode; 0 for as many as this process may use.
    """
    threads = threads or len(os.sched_getaffinity(0))
    if form is RecordFormat.PARQUET:
        import pyarrow as pa

        from je_tools.sinks.record_tables import ROOM_MAX as LARGER_ROOM_MAX
        from je_tools.sinks.record_tables import ParquetRecords

        # Another one would keep what it has freed beside what malloc keeps.
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
    """All databases into one file.

    Raises:
        UsageError: there are several, and the form has no way to keep them apart.
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
    """What the names of databases' files begin with, by id.

    Args:
        sink: the form.
        databases: all that are written into one folder.
        marks: those with which `write_files` will be called.
        reserved: names of other files of the folder.
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
    """Each database into a file of its own, named after it.

    Args:
        sink: the form.
        sources: the databases.
        stems: what the names of files begin with, by id: of `stems_of`.
        directory: an existing folder, where they are written.
        known: what that is called when all are there.
        mark: what stands in front of the suffix in the names of files.

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
    """The records in pieces of bounded size; a record that is larger than that is one by itself."""
    sizes = np.maximum(records.key.sizes, 0) + np.maximum(records.data.sizes, 0)
    for cut in cuts(sizes, rows_max, bytes_max):
        yield records if cut.stop - cut.start == len(records) else records.take(cut)


def read_batch(batch: Batch) -> tuple[Records, list[Any]]:
    """The records of a batch, and what was noted while they were read."""
    if not isinstance(batch, Coming):
        return batch, []
    notes: list[Any] = []
    return batch.read(notes.append), notes


def in_pieces(
    batches: Iterable[Batch], rows_max: int = PIECE_ROWS, bytes_max: int = PIECE_BYTES
) -> Iterator[Batch]:
    """Batches, those that are read already in pieces; see `pieces_of`."""
    for batch in batches:
        if isinstance(batch, Coming):
            yield batch
        else:
            yield from pieces_of(batch, rows_max, bytes_max)
