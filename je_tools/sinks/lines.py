"""Entries as lines for a terminal: fixed columns that fit its width, streamed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from je_tools.entries import EntryTable
from je_tools.formats.je.types import type_name
from je_tools.formats.je.walk import CHECKSUM_NAMES, Checksum
from je_tools.formats.spans import Ints, gather_printable
from je_tools.masking import DataMode, Masking
from je_tools.sinks import texts as t
from je_tools.sinks.jsonl import entry_objects

MIN_WIDTH = 40
_CUT = "~"


@dataclass(frozen=True, slots=True)
class Layout:
    """Widths of the columns; the detail takes what is left, and what does not fit is left out.

    Attributes:
        shown: names of the columns with their widths.
        detail: width of the last column.
    """

    shown: tuple[tuple[str, int], ...]
    detail: int


_COLUMNS = (
    ("lsn", 16),
    ("type", 15),
    ("txn", 7),
    ("db", 14),
    ("vlsn", 8),
    ("size", 7),
    ("key", 20),
)
_ORDER = ("lsn", "type", "size", "vlsn", "txn", "db", "key")


def lay_out(width: int) -> Layout:
    """Columns for a terminal of `width` characters, the less important ones left out first."""
    left = max(width, MIN_WIDTH) - 1
    chosen: dict[str, int] = {}
    least_detail = min(24, left // 3)
    for name, size in _COLUMNS:
        if left - size - 1 >= least_detail:
            chosen[name] = size
            left -= size + 1
    return Layout(tuple((name, chosen[name]) for name in _ORDER if name in chosen), left)


def header_line(layout: Layout) -> bytes:
    """The line with the column names."""
    cells = [name.upper().ljust(size) for name, size in layout.shown]
    return (" ".join([*cells, "DETAIL"]).rstrip() + "\n").encode()


def entry_lines(
    table: EntryTable,
    names: Mapping[int, str],
    masking: Masking,
    layout: Layout,
    *,
    fast: bool,
) -> memoryview:
    """The entries of a table as lines of printable ASCII, `~` where a cell was cut."""
    pieces: list[str | pa.StringArray] = []
    for name, size in layout.shown:
        pieces += [_padded(_cells(table, name, names, masking, size, fast), size), " "]
    detail = pc.utf8_rtrim_whitespace(_detail(table, masking, layout.detail, fast))
    return t.text_bytes(t.joined(*pieces, detail, "\n"))


def _cells(
    table: EntryTable, name: str, names: Mapping[int, str], masking: Masking, size: int, fast: bool
) -> pa.StringArray:
    rows = table.rows
    if name == "lsn":
        return t.lsn_texts(rows.lsn, fast=fast)
    if name == "type":
        return t.choice_texts(rows.type, {n: type_name(n) for n in np.unique(rows.type).tolist()})
    if name == "size":
        return t.number_texts(rows.size)
    if name == "vlsn":
        return t.number_texts(rows.vlsn, rows.has_vlsn)
    if name == "txn":
        return t.number_texts(table.txn_id, table.has_txn)
    if name == "db":
        shown = {i: ascii(t.clean_text(text))[1:-1] for i, text in names.items()}
        ids = t.number_texts(table.db_id, table.has_db)
        return pc.coalesce(t.id_texts(table.db_id, table.has_db, shown), ids)
    return _preview(table, table.key_start, table.key_size, masking, size, fast)


def _preview(
    table: EntryTable, starts: Ints, sizes: Ints, masking: Masking, most: int, fast: bool
) -> pa.StringArray:
    if masking.mode is not DataMode.SHOW:
        return t.data_texts(table.rows.data, starts, sizes, masking, fast=fast)
    offsets, text = gather_printable(table.rows.data, starts, sizes, most, fast=fast)
    return t.string_array(offsets, text, sizes >= 0)


def _detail(table: EntryTable, masking: Masking, width: int, fast: bool) -> pa.StringArray:
    """Damage first; then an LN's data, or another entry's payload."""
    data = _preview(table, table.data_start, table.data_size, masking, width, fast)
    payload = entry_objects(table, masking, fast=fast)
    has_key = t.bool_array(table.key_size >= 0)
    shown = pc.if_else(has_key, pc.fill_null(data, ""), payload)
    bad = table.rows.checksum == Checksum.BAD
    if bad.any():
        mark = f"CHECKSUM {CHECKSUM_NAMES[Checksum.BAD].upper()} "
        shown = t.joined(pc.if_else(t.bool_array(bad), mark, ""), shown)
    return _cut(shown, width)


def _padded(texts: pa.StringArray, width: int) -> pa.StringArray:
    return pc.ascii_rpad(pc.fill_null(_cut(texts, width), ""), width)


def _cut(texts: pa.StringArray, width: int) -> pa.StringArray:
    long = pc.greater(pc.binary_length(texts), width)
    short = pc.utf8_slice_codeunits(texts, 0, width - 1)
    return pc.if_else(long, t.joined(short, _CUT), texts)
