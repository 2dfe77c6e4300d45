"""The four forms in which entries are written, behind one interface."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, BinaryIO, Protocol

from je_tools.entries import EntryTable
from je_tools.masking import Masking

ROW_GROUP_SIZE = 1 << 17
"""Entries of a Parquet row group; batches are held until one is full."""

PART_ROW_GROUP_SIZE = 1 << 15
"""The same where several files are written, each of which holds a row group in memory."""

PAGE_SIZE = 4 << 20
"""Bytes of a Parquet page: large, since a page costs time and nobody seeks in one."""

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
    """Record batches into one Parquet file, or into several that are written at the same time.

    Attributes:
        outs: the files. With more than one, row groups go to each in turn, by a thread of its
            own; each file is in log order, and sorting by `lsn` gives the order of the whole.
        encode_batch: makes a record batch of a table.
        schema: of the batches.
    """

    outs: Sequence[BinaryIO]
    encode_batch: Callable[[EntryTable], Any]
    schema: Any
    _held: list[Any] = field(default_factory=list)
    _held_rows: int = 0
    _turn: int = 0

    def __post_init__(self) -> None:
        self._writers = [self._open(out) for out in self.outs]
        several = len(self.outs) > 1
        self._threads = [ThreadPoolExecutor(1) for _ in self.outs] if several else []
        self._running: list[Future[None] | None] = [None for _ in self.outs]

    def encode(self, table: EntryTable) -> Any:
        """A record batch of the entries."""
        return self.encode_batch(table)

    def write(self, content: Any) -> None:
        """Write a batch, with those before it once they fill a row group."""
        self._held.append(content)
        self._held_rows += content.num_rows
        if self._held_rows >= (PART_ROW_GROUP_SIZE if self._threads else ROW_GROUP_SIZE):
            self._flush()

    def close(self) -> None:
        """Write what is held, and the footers."""
        self._flush()
        for turn, writer in enumerate(self._writers):
            self._wait(turn)
            writer.close()
        for thread in self._threads:
            thread.shutdown()

    def _open(self, out: BinaryIO) -> Any:
        import pyarrow.parquet as pq

        return pq.ParquetWriter(
            out,
            self.schema,
            compression="lz4",
            use_dictionary=DICTIONARY_COLUMNS,
            write_statistics=STATISTICS_COLUMNS,
            data_page_size=PAGE_SIZE,
            max_rows_per_page=ROW_GROUP_SIZE,
        )

    def _wait(self, turn: int) -> None:
        running = self._running[turn]
        if running is not None:
            running.result()
        self._running[turn] = None

    def _flush(self) -> None:
        import pyarrow as pa

        if not self._held:
            return
        table = pa.Table.from_batches(self._held)
        self._held, self._held_rows = [], 0
        turn, self._turn = self._turn, (self._turn + 1) % len(self._writers)
        write = self._writers[turn].write_table
        if not self._threads:
            write(table, row_group_size=len(table))
            return
        # At most one row group waits for each file, which bounds the memory.
        self._wait(turn)
        self._running[turn] = self._threads[turn].submit(write, table, row_group_size=len(table))


def open_sink(
    form: EntryFormat,
    outs: Sequence[BinaryIO],
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
        outs: where to, stays open; more than one only for Parquet.
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

        return ParquetSink(outs, encode, entry_schema(versions))
    (out,) = outs
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
