"""The four forms in which entries are written, behind one interface."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any, BinaryIO, Protocol, cast

from je_tools.entries import EntryTable
from je_tools.masking import Masking

ROW_GROUP_SIZE = 1 << 15
"""Entries of a Parquet row group, which is held in memory until it is full."""

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


@dataclass(frozen=True)
class TextSink:
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


@dataclass(frozen=True)
class ParquetSink:
    """Record batches of one schema into a Parquet file.

    By parquet-rs: it writes nested columns in half the time that Arrow's C++ writer takes.
    """

    encode: Callable[[EntryTable], Any]
    schema: Any
    ships: bool = False

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
            max_row_group_size=ROW_GROUP_SIZE,
            data_page_size_limit=PAGE_SIZE,
            data_page_row_count_limit=ROW_GROUP_SIZE,
        )
        if stopped:
            raise stopped[0]


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


@dataclass(frozen=True)
class _Guarded:
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
    fast: bool,
    width: int,
    versions: frozenset[int],
) -> EntrySink:
    """The sink of a format.

    Args:
        form: the format.
        names: database names by id; may still grow.
        masking: what becomes of keys and values.
        fast: use compiled kernels.
        width: characters of a line of a table.
        versions: log versions of the files, which decide the columns of Parquet.
    """
    shown: dict[str, Any] = {"names": names, "masking": masking, "fast": fast}
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
