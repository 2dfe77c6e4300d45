"""Sinks for entries: four output formats with one interface."""

from __future__ import annotations

import io
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from functools import partial
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from msgspec import Struct
from msgspec.structs import replace

from je_tools.output.encoders.parquet_join import Joiner, ParquetPart, take_apart
from je_tools.output.files.outputs import PartPath, open_part

if TYPE_CHECKING:
    from je_tools.core.masking import Masking
    from je_tools.log.entry_table import EntryTable

ROW_GROUP_SIZE = 1 << 15
"""Number of entries in a Parquet row group, which is in memory until it is full."""

JOINED_GROUP_SIZE = 1 << 16
"""Number of entries in a row group made by a worker process: mostly one for each log range."""

JOINED_FILE_SIZE = 1 << 20
"""Smallest average size of log files, in bytes, for which such row groups are large enough."""

PAGE_SIZE = 1 << 20
"""Bytes of a Parquet page: large, since each takes time, and readers seek in no row group."""

BUFFER_SIZE = 1 << 20
"""Bytes of Parquet that are written at once: parquet-rs writes each page, 400 in a group."""


class EntryFormat(StrEnum):
    """Output format of entries."""

    TABLE = "table"
    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"


class EntrySink(Protocol):
    """Encoder and writer of one output format."""

    @property
    def ships(self) -> bool:
        """True if a worker process may encode pieces for this process to write."""

    @property
    def encode(self) -> Callable[[EntryTable], Any]:
        """Function from a table to a piece of output; it can be pickled, and run anywhere."""

    def write_all(self, pieces: Iterable[Any], out: BinaryIO) -> None:
        """Write all pieces, which `encode` made, to `out`, which stays open."""


class TextSink(Struct, frozen=True):
    """Lines of bytes after a header."""

    encode: Callable[..., Any]
    header: bytes = b""
    ships: bool = True

    def write_all(self, pieces: Iterable[Any], out: BinaryIO) -> None:
        """Write lines as they come."""
        out.write(self.header)
        for piece in pieces:
            out.write(piece)
            out.flush()


class ParquetSink(Struct, frozen=True):
    """Record batches of one schema in a Parquet file.

    parquet-rs writes it: for nested columns it takes half the time of Arrow's C++ writer.
    """

    encode: Callable[..., Any]
    schema: Any
    ships: bool = False
    group_rows: int = ROW_GROUP_SIZE

    def write_all(self, pieces: Iterable[Any], out: BinaryIO) -> None:
        """Write batches, a row group at a time."""
        import pyarrow as pa
        from arro3.io import write_parquet

        # parquet-rs would turn an error of the pieces or of the file into a text.
        stopped: list[BaseException] = []
        batches = _until_stopped(pieces, stopped)
        with io.BufferedWriter(_Guarded(out, stopped), BUFFER_SIZE) as buffered:
            write_parquet(
                pa.RecordBatchReader.from_batches(self.schema, batches),
                buffered,
                compression="snappy",
                dictionary_enabled=False,
                max_row_group_size=self.group_rows,
                data_page_size_limit=PAGE_SIZE,
                data_page_row_count_limit=self.group_rows,
                write_batch_size=self.group_rows,
            )
        if stopped:
            raise stopped[0]


class JoinedSink(Struct, frozen=True):
    """A Parquet file whose row groups several processes make.

    Each row group is a file of its own until it is appended to the output. Sent through a pipe,
    it would be copied more often and be held in memory.

    Attributes:
        sink: writer of such a file.
        folder: directory of these files; errors name the output instead.
    """

    sink: ParquetSink
    folder: PartPath
    ships: bool = True

    @property
    def encode(self) -> Callable[[EntryTable], Any]:
        """Function that encodes a table: that of `sink`."""
        return self.sink.encode

    def pack(self, pieces: Iterable[Any]) -> RowGroups:
        """Write pieces to a file in `folder`, in any process.

        Raises:
            RefusedError: the file cannot be written.
        """
        path = self.folder.written / secrets.token_hex(8)
        with open_part(PartPath(path, self.folder.final)) as out:
            self.sink.write_all(pieces, out)
        with _mapped(path) as file:
            return RowGroups(path, take_apart(file))

    def write_all(self, pieces: Iterable[RowGroups], out: BinaryIO) -> None:
        """Append what `pack` returned to one file, in this order."""
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
    """A Parquet file that becomes a part of another.

    Attributes:
        path: path of the file.
        part: its metadata, for joining.
    """

    path: Path
    part: ParquetPart


@contextmanager
def _mapped(path: Path) -> Iterator[memoryview]:
    with (
        path.open("rb") as file,
        mmap(file.fileno(), 0, access=ACCESS_READ) as content,
        memoryview(content) as view,
    ):
        yield view


def joined(sink: ParquetSink, folder: PartPath) -> JoinedSink:
    """Return a sink for the same file that lets processes write its parts to `folder`."""
    return JoinedSink(replace(sink, group_rows=JOINED_GROUP_SIZE), folder)


def _until_stopped(pieces: Iterable[Any], stopped: list[BaseException]) -> Iterator[Any]:
    """Yield pieces until one fails or the file cannot be written."""
    try:
        for piece in pieces:
            if stopped:
                return
            yield piece
            del piece
    except BaseException as error:
        stopped.append(error)


class _Guarded(io.RawIOBase):
    """File for a foreign writer that panics on errors: it stores the first and drops later writes.

    Closing it does not close the file, which its owner does.
    """

    def __init__(self, file: BinaryIO, stopped: list[BaseException]) -> None:
        self._file = file
        self._stopped = stopped

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        try:
            return len(data) if self._stopped else self._file.write(data)
        except BaseException as error:
            self._stopped.append(error)
            return len(data)


def open_sink(
    form: EntryFormat,
    names: Mapping[int, str],
    masking: Masking,
    *,
    width: int,
    versions: frozenset[int],
) -> EntrySink:
    """Return the sink of a format.

    Args:
        form: the format.
        names: database names by id; may still grow.
        masking: masking of keys and values.
        width: characters of a line of a table.
        versions: log versions of the files, which decide the columns of Parquet.
    """
    shown: dict[str, Any] = {"names": names, "masking": masking}
    if form is EntryFormat.PARQUET:
        from je_tools.output.encoders.entry_batches import entry_batch, entry_schema

        encode = partial(entry_batch, versions=versions, **shown)
        return ParquetSink(encode, entry_schema(versions))
    if form is EntryFormat.CSV:
        from je_tools.output.encoders.entry_csv import csv_header, csv_lines

        return TextSink(partial(csv_lines, **shown), csv_header())
    if form is EntryFormat.JSONL:
        from je_tools.output.encoders.entry_jsonl import json_lines

        return TextSink(partial(json_lines, **shown), ships=False)
    from je_tools.output.encoders.entry_lines import entry_layout, entry_lines, header_line

    layout = entry_layout(width)
    return TextSink(partial(entry_lines, layout=layout, **shown), header_line(layout))
