"""Sinks of tables that are Arrow columns: Parquet, CSV and JSON lines of one schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from je_tools.core.escaping import safe_cell
from je_tools.output.encoders import arrow_texts as t
from je_tools.output.encoders.entry_csv import csv_bytes
from je_tools.output.encoders.entry_sinks import EntryFormat, ParquetSink, TextSink

if TYPE_CHECKING:
    from je_tools.core.masking import Masking

Columns = Callable[..., Mapping[str, pa.Array]]
"""A function of a table, its place, a masking and perhaps a way to write names."""

_BARE = frozenset({"fields", "key_json", "value_json"})
"""Texts that are JSON already."""


def column_sink(
    form: EntryFormat, schema: pa.Schema, masking: Masking, columns: Columns, texts: Columns
) -> TextSink | ParquetSink:
    """Return the sink of Parquet, CSV or JSON lines.

    Args:
        form: one of these formats.
        schema: names and types of columns, in their order.
        masking: masking of keys and values.
        columns: returns the arrays of Parquet, by name.
        texts: returns the arrays of lines, by name, as numbers, booleans and texts.
    """
    if form is EntryFormat.PARQUET:
        return ParquetSink(partial(_batch, schema, masking, columns), schema)
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
    return csv_bytes(texts(table, place, masking, safe_cell))


def _json_lines(masking: Masking, texts: Columns, table: Any, place: Any) -> pa.Buffer:
    return json_lines(texts(table, place, masking))


def json_lines(columns: Mapping[str, pa.Array]) -> pa.Buffer:
    """Return an object for each row of columns; columns without a value are left out."""
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
