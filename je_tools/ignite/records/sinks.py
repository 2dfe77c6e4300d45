"""Sinks for records of Ignite's caches: JSON lines, CSV, Parquet."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from je_tools.core.escaping import safe_cell
from je_tools.ignite.records.columns import (
    CACHE_SCHEMA,
    RecordOrigin,
    cache_columns,
    cache_texts,
)
from je_tools.ignite.wal.dump_sinks import json_lines
from je_tools.output.encoders.entry_csv import csv_bytes
from je_tools.output.encoders.entry_sinks import EntryFormat, ParquetSink, TextSink

if TYPE_CHECKING:
    from je_tools.core.masking import Masking
    from je_tools.ignite.records.merge import CacheRecords

CACHE_FORMATS = ("jsonl", "csv", "parquet")
"""Formats of records of caches."""


def open_cache_sink(form: EntryFormat, masking: Masking) -> TextSink | ParquetSink:
    """Return the sink of a format of CACHE_FORMATS."""
    if form is EntryFormat.PARQUET:
        return ParquetSink(partial(_batch, masking=masking), CACHE_SCHEMA)
    if form is EntryFormat.CSV:
        header = ",".join(CACHE_SCHEMA.names).encode() + b"\n"
        return TextSink(partial(_csv_lines, masking=masking), header)
    return TextSink(partial(_json_lines, masking=masking))


def _batch(records: CacheRecords, origin: RecordOrigin, masking: Masking) -> pa.RecordBatch:
    found = cache_columns(records, origin, masking)
    return pa.RecordBatch.from_arrays(list(found.values()), schema=CACHE_SCHEMA)


def _csv_lines(records: CacheRecords, origin: RecordOrigin, masking: Masking) -> pa.Buffer:
    return csv_bytes(cache_texts(records, origin, masking, safe_cell))


def _json_lines(records: CacheRecords, origin: RecordOrigin, masking: Masking) -> pa.Buffer:
    return json_lines(cache_texts(records, origin, masking))
