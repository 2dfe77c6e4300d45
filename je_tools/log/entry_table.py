"""The log as a table: one row per entry, payloads of frequent types decoded in columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from je_tools.formats.je.entry.columns import COLUMN_FAMILIES, Decoded, decode
from je_tools.formats.je.entry.entries import Span, decode_entry
from je_tools.formats.je.header import EntryError
from je_tools.formats.je.types import ENTRY_TYPES, Family

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.je.log.entry_rows import Rows

ROW_FIELDS = frozenset({"key", "data"})
"""Payload fields that are columns of the row itself, and are left out of `entry`."""

TIME_FIELDS = ("time_ms", "modified_ms", "created_ms")
"""Fields with the time an entry was written; the first that is set counts."""

NO_TIME = -1

_FAMILY_OF = np.zeros(256, np.int8)
for _entry_type in ENTRY_TYPES.values():
    if _entry_type.family in COLUMN_FAMILIES:
        _FAMILY_OF[_entry_type.no] = 1 + COLUMN_FAMILIES.index(_entry_type.family)


class FamilyPart(Struct, frozen=True):
    """Entries of one column family; `index` (int64) holds their rows in the table."""

    family: Family
    index: Ints
    decoded: Decoded


class Single(Struct, frozen=True):
    """An entry decoded by itself: its fields, or the reason why it does not decode."""

    fields: Mapping[str, Any]
    spans: Mapping[str, tuple[int, int]]
    problem: str | None = None


class EntryTable(Struct, frozen=True):
    """Entries of one file with their payloads.

    Attributes:
        rows: headers in columns.
        parts: families that are decoded in columns.
        singles: the other entries by row, and those of `parts` that did not decode.
        db_id, txn_id: int64; valid where `has_db`, `has_txn` (bool) are set.
        key_start, key_size, data_start, data_size: int64 spans in `rows.data`; size -1 for none.
        time_ms: int64; the entry's own time, NO_TIME if it has none.
    """

    rows: Rows
    parts: list[FamilyPart]
    singles: dict[int, Single]
    db_id: Ints
    has_db: Mask
    txn_id: Ints
    has_txn: Mask
    key_start: Ints
    key_size: Ints
    data_start: Ints
    data_size: Ints
    time_ms: Ints

    def __len__(self) -> int:
        return len(self.rows)


def build_table(
    rows: Rows, *, wanted: frozenset[str] | None = None, whole: Mask | None = None
) -> EntryTable:
    """Decode the payloads of `rows`.

    Args:
        rows: at most `columns.MAX_ROWS` entries of one file.
        wanted: payload fields to decode; None for all, which also finds entries that do not
            decode. An entry with a bad checksum is decoded as far as possible. If empty, no
            payload is read.
        whole: bool (n,); entries of which all fields are decoded, whatever `wanted` says.
    """
    n = len(rows)
    families = _FAMILY_OF[rows.type]
    shares: list[tuple[frozenset[str] | None, Mask | None]] = [(wanted, None)]
    if wanted is not None and whole is not None:
        shares = [(None, whole), (wanted, ~whole)]
    parts, alone = [], [np.empty(0, np.int64)]
    for fields, share in shares:
        if fields is not None and not fields:
            continue
        for i, family in enumerate(COLUMN_FAMILIES):
            index = _rows_of(families == i + 1, share)
            if len(index):
                some = rows if len(index) == n else rows.select(index)
                decoded = decode(some, family, wanted=fields)
                parts.append(FamilyPart(family, index, decoded))
        alone.append(_rows_of(families == 0, share))
    alone += [part.index[part.decoded.bad] for part in parts]
    singles = {int(row): _decode_single(rows, int(row)) for row in np.concatenate(alone)}
    return _with_row_columns(EntryTable(rows, parts, singles, *_empty_columns(n)))


def _rows_of(mask: Mask, share: Mask | None) -> Ints:
    return np.flatnonzero(mask if share is None else mask & share)


def _empty_columns(n: int) -> tuple[Any, ...]:
    def numbers(value: int) -> Ints:
        return np.full(n, value, np.int64)

    no, off = numbers(0), np.zeros(n, np.bool_)
    return (
        no,
        off,
        no.copy(),
        off.copy(),
        no.copy(),
        numbers(-1),
        no.copy(),
        numbers(-1),
        numbers(NO_TIME),
    )


def _with_row_columns(table: EntryTable) -> EntryTable:
    """Fill the columns that several families share."""
    for part in table.parts:
        fields, index = part.decoded.fields, part.index
        if fields.has("db_id"):
            table.db_id[index], table.has_db[index] = fields.number("db_id"), True
        if fields.has("txn_id"):
            table.txn_id[index] = fields.number("txn_id")
            table.has_txn[index] = fields.is_present("txn_id")
        if fields.has("key"):
            table.key_start[index], table.key_size[index] = fields.span("key")
        if fields.has("data"):
            table.data_start[index], table.data_size[index] = fields.span("data")
        for name in reversed(TIME_FIELDS):
            if fields.has(name):
                own = fields.number(name)
                known = fields.is_present(name) & (own > 0)
                table.time_ms[index[known]] = own[known]
    for row, single in table.singles.items():
        _fill_from_single(table, row, single)
    return table


def _fill_from_single(table: EntryTable, row: int, single: Single) -> None:
    table.has_db[row] = "db_id" in single.fields
    table.db_id[row] = single.fields.get("db_id", 0)
    table.has_txn[row] = "txn_id" in single.fields
    table.txn_id[row] = single.fields.get("txn_id", 0)
    table.key_start[row], table.key_size[row] = single.spans.get("key", (0, -1))
    table.data_start[row], table.data_size[row] = single.spans.get("data", (0, -1))
    times = (single.fields.get(name, 0) for name in TIME_FIELDS)
    table.time_ms[row] = next((time for time in times if time > 0), NO_TIME)


def _decode_single(rows: Rows, row: int) -> Single:
    try:
        entry = decode_entry(rows.entry_bytes(row), rows.version, spans=True)
    except EntryError as error:
        return Single({}, {}, ("" if rows.good[row] else "damaged: ") + str(error))
    start = int(rows.offset[row]) - rows.base
    spans = {s.path: _value_span(s, start) for s in entry.spans if s.path in ROW_FIELDS}
    return Single(entry.fields, spans)


def _value_span(span: Span, entry_start: int) -> tuple[int, int]:
    """Return start and size of a byte field's value in the rows' data, after its length."""
    size = -1 if span.value is None else len(span.value)
    return entry_start + span.stop - max(size, 0), size
