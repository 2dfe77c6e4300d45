"""Records of a write-ahead log as rows: one for each entry of a data record, one for each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from je_tools.formats.ignite.page_ids import partition_of
from je_tools.formats.ignite.records import (
    DataEntries,
    DecodedRecords,
    EntryBatch,
    Payloads,
    decode_entries,
    decode_type,
)
from je_tools.formats.ignite.types import DATA_NOS, RECORD_TYPES, TYPE_COUNT

if TYPE_CHECKING:
    import numpy.typing as npt

    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.ignite.walk import RecordRows

IS_DATA = np.isin(np.arange(TYPE_COUNT), list(DATA_NOS))
"""Mask of the types whose records are lists of entries."""

PARTITION_STATE = 256
"""Added to the state of a partition, to tell it from the state of a transaction."""

_NUMBERS = {
    "time_ms": "time_ms",
    "group_id": "group_id",
    "page_id": "page_id",
    "partition": "partition",
    "state": "state",
    "update_counter": "counter",
}
"""Fields of records that are columns of the table, by name."""

_VERSIONS = {"near": "near", "write": "version"}
_PARTS = ("topology", "node", "order")
_ENTRY_NUMBERS = (
    "cache_id",
    "key_type",
    "value_type",
    "op",
    "partition",
    "counter",
    "expire_ms",
    "flags",
)
_KEYS = frozenset({"key"})
_VALUES = frozenset({"value", "row", "fragment", "page", "cipher", "body", "entries"})

COLUMN_FIELDS = frozenset({*_NUMBERS, *_VERSIONS, *_KEYS, *_VALUES, "entry_count"})
"""Fields of records that are in columns of their own."""


class Numbers(Struct, frozen=True):
    """A column: int64 (n,), and a mask of the rows that have it."""

    values: Ints
    valid: Mask

    @staticmethod
    def empty(rows: int) -> Numbers:
        """Return a column that no row has."""
        return Numbers(np.zeros(rows, np.int64), np.zeros(rows, np.bool_))

    def put(self, at: Ints, values: Ints, valid: Mask | None = None) -> None:
        """Set rows; those that are not `valid` do not get it."""
        self.values[at] = values
        self.valid[at] = True if valid is None else valid

    def select(self, keep: npt.NDArray[np.generic]) -> Numbers:
        """Select rows by a mask or by an index array."""
        return Numbers(self.values[keep], self.valid[keep])


class ByteSpans(Struct, frozen=True):
    """A column of bytes: spans of the rows' data, of size -1 for none."""

    starts: Ints
    sizes: Ints

    @staticmethod
    def empty(rows: int) -> ByteSpans:
        """Return a column that no row has."""
        return ByteSpans(np.zeros(rows, np.int64), np.full(rows, -1, np.int64))

    def put(self, at: Ints, starts: Ints, sizes: Ints) -> None:
        """Set rows."""
        self.starts[at] = starts
        self.sizes[at] = sizes

    def first(self, most: int) -> ByteSpans:
        """Return at most the first bytes of each."""
        return ByteSpans(self.starts, np.minimum(self.sizes, most))

    def select(self, keep: npt.NDArray[np.generic]) -> ByteSpans:
        """Select rows by a mask or by an index array."""
        return ByteSpans(self.starts[keep], self.sizes[keep])


class TypeFields(Struct, frozen=True):
    """Decoded fields of the records of one type, which are elements `at` of all records."""

    type_no: int
    at: Ints
    decoded: DecodedRecords


class RecordTable(Struct, frozen=True):
    """Rows of records of one window.

    Attributes:
        rows: the records.
        index: record of each row.
        columns: numbers by name: `time_ms`, `group_id`, `page_id`, `cache_id`, `partition`, `entry`
            (place in the data record), `op`, `state`, `counter`, `expire_ms`, `flags`, `key_type`,
            `value_type`, and the parts of the versions `near` and `version`.
        key, value: bytes of the key; of the value, page, row or cipher text.
        fields: fields of each type; those of COLUMN_FIELDS are also in `columns`.
        is_encrypted: rows of which only cipher text is known.
        bad: rows whose record does not decode to its end.
    """

    rows: RecordRows
    index: Ints
    columns: dict[str, Numbers]
    key: ByteSpans
    value: ByteSpans
    fields: list[TypeFields]
    is_encrypted: Mask
    bad: Mask

    def __len__(self) -> int:
        return len(self.index)

    def select(self, keep: npt.NDArray[np.generic]) -> RecordTable:
        """Select rows by a mask or by an index array."""
        return replace(
            self,
            index=self.index[keep],
            columns={name: column.select(keep) for name, column in self.columns.items()},
            key=self.key.select(keep),
            value=self.value.select(keep),
            is_encrypted=self.is_encrypted[keep],
            bad=self.bad[keep],
        )

    def type_nos(self) -> npt.NDArray[np.uint8]:
        """Return the type of each row."""
        return self.rows.columns.type_no[self.index]


NUMBER_NAMES = (
    "time_ms",
    "group_id",
    "page_id",
    "cache_id",
    "partition",
    "entry",
    "op",
    "state",
    "counter",
    "expire_ms",
    "flags",
    "key_type",
    "value_type",
    *(f"{name}_{part}" for name in ("near", "version") for part in _PARTS),
)


def record_tables(rows: RecordRows) -> Iterator[RecordTable]:
    """Yield the rows of records; one table unless a record has very many entries."""
    table = _of_records(rows)
    at = np.flatnonzero(IS_DATA[rows.columns.type_no])
    if not len(at):
        yield table
        return
    table.value.sizes[at] = -1
    start, passed = 0, 0
    for batch in decode_entries(rows.select(at)):
        counts = np.bincount(batch.entries.record, minlength=len(at))
        stop, following, next_passed = len(rows), batch.next_record, 0
        if following is not None:
            stop = int(at[following])
            if counts[following]:
                # The record goes on in the next table.
                is_same = stop == start
                next_passed = int(counts[following]) + (passed if is_same else 0)
                stop += 1
        yield _with_entries(table, at, (start, stop, passed), batch)
        start, passed = (stop - 1 if next_passed else stop), next_passed


def _with_entries(
    table: RecordTable, at: Ints, part: tuple[int, int, int], batch: EntryBatch
) -> RecordTable:
    """Return records of a table, those of data with a row for each entry.

    Args:
        table: a row for each record.
        at: records of data.
        part: first record, record after the last, and number of entries of the first one that were
            returned before.
        batch: their entries.
    """
    start, stop, passed = part
    entries, records = batch.entries, batch.entries.record
    entry_counts = np.bincount(records, minlength=len(at))
    counts = np.ones(len(table), np.int64)
    counts[at] = np.maximum(entry_counts, 1)
    bad = at[batch.bad]
    table.bad[bad] = True
    bad = at[batch.bad & (entry_counts == 0)]
    _put_bad(table, bad[(bad >= start) & (bad < stop)])
    first = np.cumsum(counts) - counts
    first -= first[start]
    table = table.select(np.repeat(np.arange(start, stop), counts[start:stop]))
    ordinal = np.arange(len(entries)) - (np.cumsum(entry_counts) - entry_counts)[records]
    place = at[records]
    number = ordinal + np.where(place == start, passed, 0)
    _put_entries(table, first[place] + ordinal, number, entries)
    return table


def _of_records(rows: RecordRows) -> RecordTable:
    """Return a row for each record, without the entries of data records."""
    n = len(rows)
    table = RecordTable(
        rows=rows,
        index=np.arange(n),
        columns={name: Numbers.empty(n) for name in NUMBER_NAMES},
        key=ByteSpans.empty(n),
        value=ByteSpans.empty(n),
        fields=[],
        is_encrypted=np.zeros(n, np.bool_),
        bad=np.zeros(n, np.bool_),
    )
    types = rows.columns.type_no
    for type_no in np.flatnonzero(np.bincount(types, minlength=TYPE_COUNT)).tolist():
        at = np.flatnonzero(types == type_no)
        decoded = decode_type(rows.select(at), type_no)
        table.fields.append(TypeFields(type_no, at, decoded))
        table.bad[at] = decoded.bad
        _put_record(table, type_no, at, decoded)
    _put_bad(table, np.flatnonzero(table.bad))
    pages = table.columns["page_id"]
    of_page = np.flatnonzero(pages.valid)
    table.columns["partition"].put(of_page, partition_of(pages.values[of_page]))
    return table


def _put_bad(table: RecordTable, at: Ints) -> None:
    """Set the whole payload of records that do not decode as their value."""
    table.bad[at] = True
    payloads = Payloads.of(table.rows.select(at))
    table.value.put(at, payloads.starts, payloads.ends - payloads.starts)


def _put_record(table: RecordTable, type_no: int, at: Ints, decoded: DecodedRecords) -> None:
    found, good = decoded.columns, ~decoded.bad
    for field in RECORD_TYPES[type_no].fields:
        name = field.name
        if name in _NUMBERS:
            values = found[name]
            if name == "state" and "group_id" in found:
                values = values + PARTITION_STATE
            table.columns[_NUMBERS[name]].put(at, values, good)
        elif name in _VERSIONS:
            known = good & (found[f"{name}_parts"] > 0)
            for part in _PARTS:
                column = table.columns[f"{_VERSIONS[name]}_{part}"]
                column.put(at, found[f"{name}_{part}"], known)
        elif name in _KEYS or name in _VALUES:
            spans = table.key if name in _KEYS else table.value
            sizes = np.where(good, found[f"{name}_size"], -1)
            spans.put(at, found[f"{name}_start"], sizes)
            if name == "cipher":
                table.is_encrypted[at] = True


def _put_entries(table: RecordTable, at: Ints, ordinal: Ints, entries: DataEntries) -> None:
    plain = entries.is_encrypted == 0
    for name in _ENTRY_NUMBERS:
        values = getattr(entries, name)
        known = plain & (values >= 0) if name in ("value_type", "flags") else plain
        if name == "expire_ms":
            known = plain & (values != 0)
        table.columns[name].put(at, values, known)
    table.columns["entry"].put(at, ordinal)
    table.columns["group_id"].put(at, entries.group_id, ~plain)
    for part in _PARTS:
        near = getattr(entries, f"near_{part}")
        table.columns[f"near_{part}"].put(at, near, entries.near_parts > 0)
        table.columns[f"version_{part}"].put(at, getattr(entries, part), plain)
    table.key.put(at, entries.key_start, np.where(plain, entries.key_size, -1))
    table.value.put(at, entries.value_start, entries.value_size)
    table.is_encrypted[at] = ~plain
