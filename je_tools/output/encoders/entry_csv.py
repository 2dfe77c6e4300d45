"""Entries as CSV: the common columns, and the typed payload as JSON in the last column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.csv

from je_tools.core.escaping import safe_cell
from je_tools.formats.je.header import PROVISIONAL_NAMES
from je_tools.formats.je.log.walk import CHECKSUM_NAMES
from je_tools.formats.je.types import type_name
from je_tools.output.encoders import arrow_texts as t
from je_tools.output.encoders.entry_batches import ROW_SCHEMA

if TYPE_CHECKING:
    from je_tools.core.masking import Masking
    from je_tools.log.entry_table import EntryTable

CSV_COLUMNS = (*ROW_SCHEMA.names, "entry")


def csv_header() -> bytes:
    """Return the line with the column names."""
    return ",".join(CSV_COLUMNS).encode() + b"\n"


def csv_lines(table: EntryTable, names: Mapping[int, str], masking: Masking) -> pa.Buffer:
    """Return the entries of a table as CSV, a line each; keys and values in hexadecimal."""
    rows = table.rows
    db_names = {id_: safe_cell(name) for id_, name in dict(names).items()}
    provisional = dict(enumerate(PROVISIONAL_NAMES))
    checksums = dict(enumerate(CHECKSUM_NAMES))
    type_names = {no: type_name(no) for no in np.unique(rows.type).tolist()}
    arrays = [
        t.number_array(np.full(len(rows), rows.file_no, np.int64)),
        t.number_array(rows.offset),
        t.lsn_texts(rows.lsn),
        t.choice_texts(rows.type, type_names),
        t.number_array(np.full(len(rows), rows.version, np.int64)),
        t.number_array(rows.header_size),
        t.number_array(rows.item_size),
        t.number_array(rows.prev_offset),
        t.number_array(rows.vlsn, rows.has_vlsn),
        t.choice_texts(rows.provisional, provisional),
        t.bool_array(rows.replicated),
        t.bool_array(rows.invisible),
        t.choice_texts(rows.checksum, checksums),
        t.number_array(table.db_id, table.has_db),
        t.id_texts(table.db_id, table.has_db, db_names),
        t.number_array(table.txn_id, table.has_txn),
        t.data_texts(rows.data, table.key_start, table.key_size, masking),
        t.number_array(table.data_size, table.data_size >= 0),
        t.data_texts(rows.data, table.data_start, table.data_size, masking),
        t.entry_texts(table, masking),
    ]
    return csv_bytes(dict(zip(CSV_COLUMNS, arrays, strict=True)))


def csv_bytes(columns: Mapping[str, pa.Array]) -> pa.Buffer:
    """Return columns as lines of CSV, without a header."""
    out = pa.BufferOutputStream()
    options = pyarrow.csv.WriteOptions(include_header=False)
    batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    pyarrow.csv.write_csv(batch, out, options)
    return out.getvalue()
