"""Records of databases into files: encoded in threads, written in order, memory bounded."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import BinaryIO, Protocol, TypeVar

import numpy as np

from je_tools.errors import UsageError
from je_tools.formats.cells import Room
from je_tools.formats.source import Bytes
from je_tools.masking import Masking
from je_tools.records import Records
from je_tools.sinks.file_names import file_stems
from je_tools.sinks.output import PartPath, open_part, settle
from je_tools.sinks.record_lines import LineForm, Marks, Named, csv_form, dump_form, jsonl_form

PIECE_ROWS = 1 << 13
PIECE_BYTES = 2 << 20
"""Most records that are encoded at once, and about how many bytes of keys and data they have."""

ROOM_MAX = 4 * PIECE_BYTES
"""A room that is larger, for a record that is, is not kept."""

AHEAD = 2
"""Pieces in work or waiting beyond one a thread."""

T = TypeVar("T")


class RecordFormat(StrEnum):
    """How records are written."""

    DUMP = "dump"
    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"


Batch = Records | Callable[[], Records]
"""Records, or what makes them, which is then called by one of the threads that encode: they should
be no more than PIECE_ROWS and PIECE_BYTES."""


@dataclass(frozen=True, slots=True)
class Source:
    """A database to be written, and its records in the order in which they are written."""

    database: Named
    batches: Iterable[Batch]


@dataclass(frozen=True, slots=True)
class Written:
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


@dataclass(frozen=True, slots=True)
class _Spelled:
    """Lines of some records, and in which room they are."""

    lines: Bytes
    room: Room
    records: int
    left_out: int


@dataclass(frozen=True, slots=True)
class LineSink:
    """Lines into a file.

    Attributes:
        form: what the lines look like.
        threads: how many encode.
        rooms: that nobody uses.
    """

    form: LineForm
    threads: int
    rooms: deque[Room] = field(default_factory=deque, init=False, repr=False)

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
        for spelled in in_order(self._tasks(source), self.threads):
            out.write(spelled.lines.data)
            count += spelled.records
            left_out += spelled.left_out
            if spelled.room.size <= ROOM_MAX:
                self.rooms.append(spelled.room)
        return Written(source.database, None, count, left_out)

    def _tasks(self, source: Source) -> Iterator[Callable[[], _Spelled]]:
        for batch in source.batches:
            for piece in [batch] if callable(batch) else pieces_of(batch):
                yield partial(self._encode, source.database, piece)

    def _encode(self, database: Named, batch: Batch) -> _Spelled:
        records = batch() if callable(batch) else batch
        count = len(records)
        if self.form.wants_data:
            known = records.data.sizes >= 0
            records = records if known.all() else records.take(known)
        try:
            room = self.rooms.popleft()
        except IndexError:
            room = Room()
        lines = self.form.lines(database, records, room)
        return _Spelled(lines, room, len(records), count - len(records))


def open_record_sink(
    form: RecordFormat,
    masking: Masking,
    marks: Marks | None = None,
    *,
    is_print: bool = False,
    fast: bool = True,
    threads: int = 0,
) -> RecordSink:
    """The sink of a format.

    Args:
        form: the format.
        masking: what becomes of keys and data.
        marks: one more column, for all but DUMP.
        is_print: of DUMP, visible characters as they are.
        fast: use compiled kernels.
        threads: how many encode; 0 for as many as this process may use.
    """
    threads = threads or len(os.sched_getaffinity(0))
    if form is RecordFormat.PARQUET:
        import pyarrow as pa

        from je_tools.sinks.record_tables import ParquetRecords

        # Another one would keep what it has freed beside what malloc keeps.
        pa.set_memory_pool(pa.system_memory_pool())
        return ParquetRecords(masking, marks, threads=threads, fast=fast)
    if form is RecordFormat.CSV:
        return LineSink(csv_form(masking, marks, fast=fast), threads)
    if form is RecordFormat.JSONL:
        return LineSink(jsonl_form(masking, marks, fast=fast), threads)
    return LineSink(dump_form(masking, is_print=is_print, fast=fast), threads)


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
    if not len(records):
        return
    sizes = np.maximum(records.key.sizes, 0) + np.maximum(records.data.sizes, 0)
    ends = np.cumsum(sizes)
    first = 0
    while first < len(records):
        before = int(ends[first - 1]) if first else 0
        last = int(np.searchsorted(ends, before + bytes_max, side="right"))
        last = min(max(last, first + 1), first + rows_max, len(records))
        yield records if last - first == len(records) else records.take(slice(first, last))
        first = last


def in_order(tasks: Iterable[Callable[[], T]], threads: int) -> Iterator[T]:
    """What tasks give, in their order; some of them run ahead, by threads."""
    if threads <= 1:
        yield from (task() for task in tasks)
        return
    running: deque[Future[T]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for task in tasks:
                running.append(pool.submit(task))
                if len(running) >= threads + AHEAD:
                    yield running.popleft().result()
            while running:
                yield running.popleft().result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
