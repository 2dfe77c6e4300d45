"""The four forms in which entries are written, behind one interface."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from functools import partial
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast

from msgspec import Struct
from msgspec.structs import replace

from je_tools.entries import EntryTable
from je_tools.masking import Masking
from je_tools.sinks.output import PartPath, open_part
from je_tools.sinks.parquet_join import Joiner, Part, take_apart

ROW_GROUP_SIZE = 1 << 15
"""Entries of a Parquet row group, which is held in memory until it is full."""

JOINED_GROUP_SIZE = 1 << 16
"""The same where a process makes row groups of a range of the log, which is mostly one."""

JOINED_FILE_SIZE = 1 << 20
"""Bytes that files of a log have on average where row groups of theirs are large enough."""

PAGE_SIZE = 1 << 20
"""Bytes of a Parquet page: large, since a page costs time and nobody seeks in one."""


class EntryFormat(StrEnum):
    """How entries are written."""

    TABLE = "table"
    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"


class EntrySink(Protocol):
    """What a form of output makes of tables, and how that is written."""

    @property
    def ships(self) -> bool:
        """Whether pieces are made in one process and written by another."""

    @property
    def encode(self) -> Callable[[EntryTable], Any]:
        """Makes a piece of output of a table; pickles, and may run anywhere."""

    def write_all(self, pieces: Iterable[Any], out: BinaryIO) -> None:
        """Write all pieces, which `encode` made, to `out`, which stays open."""


class TextSink(Struct, frozen=True):
    """Lines of bytes behind a header."""

    encode: Callable[[EntryTable], Any]
    header: bytes = b""
    ships: bool = True

    def write_all(self, pieces: Iterable[Any], out: BinaryIO) -> None:
        """Write lines as they come."""
        out.write(self.header)
        for piece in pieces:
            out.write(piece)
            out.flush()


class ParquetSink(Struct, frozen=True):
    """Record batches of one schema into a Parquet file.

    By parquet-rs: it writes nested columns in half the time that Arrow's C++ writer takes.
    """

    encode: Callable[[EntryTable], Any]
    schema: Any
    ships: bool = False
    group_rows: int = ROW_GROUP_SIZE

    def write_all(self, pieces: Iterable[Any], out: BinaryIO) -> None:
        """Write batches, a row group at a time."""
        import pyarrow as pa
        from arro3.io import write_parquet

        # What stops the pieces or the file would reach us as a text of the foreign writer.
        stopped: list[BaseException] = []
        batches = _until_stopped(pieces, stopped)
        write_parquet(
            pa.RecordBatchReader.from_batches(self.schema, batches),
            cast(BinaryIO, _Guarded(out, stopped)),
            compression="snappy",
            dictionary_enabled=False,
            max_row_group_size=self.group_rows,
            data_page_size_limit=PAGE_SIZE,
            data_page_row_count_limit=self.group_rows,
        )
        if stopped:
            raise stopped[0]


class JoinedSink(Struct, frozen=True):
    """A Parquet file of row groups that several processes make.

    Each is in a file of its own until it has been appended to the output: what goes from process
    to process would be copied more often, and be held in memory.

    Attributes:
        sink: writes one of them.
        folder: where they are until then, and what errors call them: the output.
    """

    sink: ParquetSink
    folder: PartPath
    ships: bool = True

    @property
    def encode(self) -> Callable[[EntryTable], Any]:
        """As `sink`."""
        return self.sink.encode

    def pack(self, pieces: Iterable[Any]) -> RowGroups:
        """Write pieces to a file in `folder`; in any process.

        Raises:
            RefusedError: it cannot be written.
        """
        path = self.folder.written / secrets.token_hex(8)
        with open_part(PartPath(path, self.folder.known)) as out:
            self.sink.write_all(pieces, out)
        with _mapped(path) as file:
            return RowGroups(path, take_apart(file))

    def write_all(self, pieces: Iterable[RowGroups], out: BinaryIO) -> None:
        """Write what `pack` gave to one file, in this order."""
        joiner = None
        for groups in pieces:
            joiner = joiner or Joiner(out)
            with _mapped(groups.path) as file:
                joiner.append(groups.part, file)
            groups.path.unlink()
        if joiner is None:
            self.sink.write_all((), out)
        else:
            joiner.finish()


class RowGroups(Struct, frozen=True):
    """A file that is to be part of another.

    Attributes:
        path: of it.
        part: what it has to tell for that.
    """

    path: Path
    part: Part


@contextmanager
def _mapped(path: Path) -> Iterator[memoryview]:
    with (
        path.open("rb") as file,
        mmap(file.fileno(), 0, access=ACCESS_READ) as content,
        memoryview(content) as view,
    ):
        yield view


def joined(sink: ParquetSink, folder: PartPath) -> JoinedSink:
    """The sink of the same file that lets processes write it, into `folder` meanwhile."""
    return JoinedSink(replace(sink, group_rows=JOINED_GROUP_SIZE), folder)


def _until_stopped(pieces: Iterable[Any], stopped: list[BaseException]) -> Iterator[Any]:
    """The pieces, as far as they come and can be written."""
    try:
        for piece in pieces:
            if stopped:
                return
            yield piece
            del piece
    except BaseException as error:
        stopped.append(error)


class _Guarded(Struct, frozen=True):
    """A file for a foreign writer that would panic: what goes wrong is kept, the rest dropped."""

    file: BinaryIO
    stopped: list[BaseException]

    def write(self, data: Any) -> int:
        try:
            return len(data) if self.stopped else self.file.write(data)
        except BaseException as error:
            self.stopped.append(error)
            return len(data)

    def seek(self, offset: int, whence: int = 0) -> int:
        return self.file.seek(offset, whence)

    def flush(self) -> None:
        """Left to the file's owner, as is closing it."""

    close = flush


def open_sink(
    form: EntryFormat,
    names: Mapping[int, str],
    masking: Masking,
    *,
    width: int,
    versions: frozenset[int],
) -> EntrySink:
    """The sink of a format.

    Args:
        form: the format.
        names: database names by id; may still grow.
        masking: what becomes of keys and values.
        width: characters of a line of a table.
        versions: log versions of the files, which decide the columns of Parquet.
    """
    shown: dict[str, Any] = {"names": names, "masking": masking}
    if form is EntryFormat.PARQUET:
        from je_tools.sinks.batches import entry_batch, entry_schema

        encode = partial(entry_batch, versions=versions, **shown)
        return ParquetSink(encode, entry_schema(versions))
    if form is EntryFormat.CSV:
        from je_tools.sinks.csvs import csv_header, csv_lines

        return TextSink(partial(csv_lines, **shown), csv_header())
    if form is EntryFormat.JSONL:
        from je_tools.sinks.jsonl import json_lines

        return TextSink(partial(json_lines, **shown), ships=False)
    from je_tools.sinks.lines import entry_lines, header_line, lay_out

    layout = lay_out(width)
    return TextSink(partial(entry_lines, layout=layout, **shown), header_line(layout))
