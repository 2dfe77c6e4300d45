"""The four forms in which entries are written, behind one interface."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, BinaryIO, Protocol

from je_tools.entries import EntryTable
from je_tools.masking import Masking

ROW_GROUP_SIZE = 1 << 18
"""Entries of a Parquet row group; batches are held until one is full."""

STATISTICS_COLUMNS = ["file_no", "lsn", "vlsn", "db_id", "txn_id"]
"""Columns by which a reader skips row groups; of others the statistics would only cost."""

DICTIONARY_COLUMNS = ["type", "provisional", "checksum", "db_name"]


class EntryFormat(StrEnum):
    """How entries are written."""

    TABLE = "table"
    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"


class EntrySink(Protocol):
    """Takes what its `encode` made of tables, in order."""

    def encode(self, table: EntryTable) -> Any:
        """What becomes of a table; runs in several threads at once."""

    def write(self, content: Any) -> None:
        """Write the next piece."""

    def close(self) -> None:
        """Finish the output, which stays open."""


@dataclass
class TextSink:
    """Lines of bytes behind a header."""

    out: BinaryIO
    encode_lines: Callable[[EntryTable], memoryview]
    header: bytes = b""

    def __post_init__(self) -> None:
        self.out.write(self.header)

    def encode(self, table: EntryTable) -> memoryview:
        """Lines for the entries."""
        return self.encode_lines(table)

    def write(self, content: memoryview) -> None:
        """Write lines."""
        self.out.write(content)

    def close(self) -> None:
        """Hand over what is buffered."""
        self.out.flush()


@dataclass
class ParquetSink:
    """Record batches into one Parquet file."""

    out: BinaryIO
    encode_batch: Callable[[EntryTable], Any]
    schema: Any
    _held: list[Any] = field(default_factory=list)
    _held_rows: int = 0
    _writer: Any = None

    def __post_init__(self) -> None:
        import pyarrow.parquet as pq

        self._writer = pq.ParquetWriter(
            self.out,
            self.schema,
            compression="lz4",
            use_dictionary=DICTIONARY_COLUMNS,
            write_statistics=STATISTICS_COLUMNS,
        )

    def encode(self, table: EntryTable) -> Any:
        """A record batch of the entries."""
        return self.encode_batch(table)

    def write(self, content: Any) -> None:
        """Write a batch, with those before it once they fill a row group."""
        self._held.append(content)
        self._held_rows += content.num_rows
        if self._held_rows >= ROW_GROUP_SIZE:
            self._flush()

    def close(self) -> None:
        """Write what is held, and the footer."""
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        import pyarrow as pa

        if self._held:
            table = pa.Table.from_batches(self._held)
            self._writer.write_table(table, row_group_size=len(table))
        self._held, self._held_rows = [], 0


def open_sink(
    form: EntryFormat,
    out: BinaryIO,
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
        out: where to; stays open.
        names: database names by id; may still grow.
        masking: what becomes of keys and values.
        fast: use compiled kernels.
        width: characters of a line of a table.
        versions: log versions of the files, which decide the columns of Parquet.
    """
    if form is EntryFormat.PARQUET:
        from je_tools.sinks.batches import entry_batch, entry_schema

        def encode(table: EntryTable) -> Any:
            return entry_batch(table, names, masking, fast=fast, versions=versions)

        return ParquetSink(out, encode, entry_schema(versions))
    if form is EntryFormat.CSV:
        from je_tools.sinks.csvs import csv_header, csv_lines

        return TextSink(out, lambda t: csv_lines(t, names, masking, fast=fast), csv_header())
    if form is EntryFormat.JSONL:
        from je_tools.sinks.jsonl import json_lines

        return TextSink(out, lambda table: json_lines(table, names, masking, fast=fast))
    from je_tools.sinks.lines import entry_lines, header_line, lay_out

    layout = lay_out(width)
    head = header_line(layout)
    return TextSink(out, lambda t: entry_lines(t, names, masking, layout, fast=fast), head)
