"""Sinks for records of Ignite's caches: JSON lines, CSV, Parquet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from je_tools.ignite.records.columns import CACHE_SCHEMA, cache_columns, cache_texts
from je_tools.output.encoders.column_sinks import column_sink

if TYPE_CHECKING:
    from je_tools.core.masking import Masking
    from je_tools.output.encoders.column_sinks import ColumnParquetSink
    from je_tools.output.encoders.entry_sinks import EntryFormat, TextSink

CACHE_FORMATS = ("jsonl", "csv", "parquet")
"""Formats of records of caches."""


def open_cache_sink(form: EntryFormat, masking: Masking) -> TextSink | ColumnParquetSink:
    """Return the sink of a format of CACHE_FORMATS."""
    return column_sink(form, CACHE_SCHEMA, masking, cache_columns, cache_texts)
