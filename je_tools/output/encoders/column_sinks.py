"""Sinks of tables that are Arrow columns: Parquet, CSV and JSON lines of one schema."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa
from msgspec import Struct

from je_tools.core.escaping import safe_cell
from je_tools.core.ordered import in_flight
from je_tools.output.encoders import arrow_texts as t
from je_tools.output.encoders.entry_sinks import PAGE_SIZE, EntryFormat, TextSink

if TYPE_CHECKING:
    from je_tools.core.masking import Masking

Columns = Callable[..., Mapping[str, pa.Array]]
"""A function that returns arrays by name, given a table, its place in the store and a masking.
For CSV, it is also given a function that makes texts safe.
"""

_BARE = frozenset({"fields", "key_json", "value_json"})
"""Columns whose texts are JSON already."""

GROUP_ROWS = 1 << 15
GROUP_BYTES = 8 << 20
"""Rows, and bytes, from which a row group is complete; two groups are in memory."""


class ColumnParquetSink(Struct, frozen=True):
    """Record batches of columns without nesting in a Parquet file.

    For such columns, Arrow's writer takes three quarters of the time of parquet-rs, and other
    threads may run Python meanwhile.

    Attributes:
        encode: function that encodes a piece of rows to a batch.
        schema: columns of the batches.
        ships: True if a worker process may encode pieces for this process to write.
    """

    encode: Callable[..., pa.RecordBatch]
    schema: pa.Schema
    ships: bool = False

    def write_all(self, pieces: Iterable[pa.RecordBatch], out: BinaryIO) -> None:
        """Write batches, a row group at a time, in a thread, while `pieces` makes the next."""
        from concurrent.futures import ThreadPoolExecutor

        import pyarrow.parquet as pq

        # No statistics of texts: few readers skip row groups by their least and greatest text.
        texts = (pa.string(), pa.binary())
        counted = [each.name for each in self.schema if each.type not in texts]
        named = [each.name for each in self.schema if pa.types.is_dictionary(each.type)]
        writer = pq.ParquetWriter(
            out,
            self.schema,
            compression="snappy",
            use_dictionary=named,
            write_statistics=counted,
            data_page_size=PAGE_SIZE,
            # Arrow's own pool keeps more of what is freed, 28 MB in a dump.
            memory_pool=pa.system_memory_pool(),
        )
        with writer, ThreadPoolExecutor(1) as pool:
            groups = _row_groups(pieces, self.schema)
            for _, written in in_flight(partial(pool.submit, writer.write_table), groups, 1):
                written.result()


def _row_groups(pieces: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield consecutive batches as tables of about GROUP_ROWS rows or GROUP_BYTES bytes."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for piece in pieces:
        waiting.append(piece)
        rows, size = rows + len(piece), size + piece.nbytes
        if rows >= GROUP_ROWS or size >= GROUP_BYTES:
            yield pa.Table.from_batches(waiting, schema)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield pa.Table.from_batches(waiting, schema)


def column_sink(
    form: EntryFormat, schema: pa.Schema, masking: Masking, columns: Columns, texts: Columns
) -> TextSink | ColumnParquetSink:
    """Return the sink of Parquet, CSV or JSON lines.

    Args:
        form: one of these formats.
        schema: names and types of columns, in their order.
        masking: masking of keys and values.
        columns: returns the arrays of Parquet, by name.
        texts: returns the arrays of lines, by name, as numbers, booleans and texts.
    """
    if form is EntryFormat.PARQUET:
        return ColumnParquetSink(partial(_batch, schema, masking, columns), schema)
    if form is EntryFormat.CSV:
        header = ",".join(schema.names).encode() + b"\n"
        return TextSink(partial(_csv_lines, masking, texts), header)
    return TextSink(partial(_json_lines, masking, texts))


def _batch(
    schema: pa.Schema, masking: Masking, columns: Columns, table: Any, place: Any
) -> pa.RecordBatch:
    found = columns(table, place, masking)
    return pa.RecordBatch.from_arrays([found[name] for name in schema.names], schema=schema)


def _csv_lines(masking: Masking, texts: Columns, table: Any, place: Any) -> pa.Buffer:
    from je_tools.output.encoders.entry_csv import csv_bytes

    return csv_bytes(texts(table, place, masking, safe_cell))


def _json_lines(masking: Masking, texts: Columns, table: Any, place: Any) -> pa.Buffer:
    return json_lines(texts(table, place, masking))


def json_lines(columns: Mapping[str, pa.Array]) -> pa.Buffer:
    """Return an object for each row of columns; columns without a value are left out."""
    import pyarrow.compute as pc

    pieces = []
    for name, array in columns.items():
        texts = array
        if pa.types.is_boolean(array.type):
            texts = pc.if_else(array, "true", None)
        elif not pa.types.is_string(array.type):
            texts = pc.cast(array, pa.string())
        elif name not in _BARE:
            texts = t.joined('"', t.json_escaped(array), '"')
        pieces.append(t.joined(f'"{name}":', texts))
    fields = pc.binary_join_element_wise(*pieces, ",", null_handling="skip")
    return t.text_bytes(t.joined("{", fields, "}\n"))
