"""Columns and single entries: two decoders of one declaration, compared on the same bytes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from je_tools.formats.je.btree.keys import slot_parts
from je_tools.formats.je.btree.slots import split_embedded
from je_tools.formats.je.entry.columns import COLUMN_FAMILIES, Columns, Decoded, decode
from je_tools.formats.je.entry.entries import decode_entry
from je_tools.formats.je.layout import COMPACT_NULL_OFFSET
from je_tools.formats.je.log.entry_rows import Rows
from je_tools.formats.je.types import ENTRY_TYPES, Family
from tests.corpus import Environment, log_files
from tests.formats.logs import log_rows, sampled

SAMPLE = 25
"""Largest number of entries of each type, per batch of rows (some megabytes of log)."""


def test_columns_equal_single_entries(some_environment: Environment) -> None:
    for path in log_files(some_environment.home):
        for rows in log_rows(path):
            _compare_families(sampled(rows, SAMPLE))


def test_columns_equal_single_entries_of_old_releases(legacy_file: Path) -> None:
    for rows in log_rows(legacy_file):
        _compare_families(sampled(rows, SAMPLE))


def _compare_families(rows: Rows) -> None:
    for family in COLUMN_FAMILIES:
        numbers = [entry_type.no for entry_type in ENTRY_TYPES.values()
                   if entry_type.family is family]  # fmt: skip
        some = rows.select(np.flatnonzero(np.isin(rows.type, numbers)))
        if len(some):
            _compare(some, family)


def _compare(rows: Rows, family: Family) -> None:
    decoded = decode(rows, family)
    assert not decoded.bad.any()
    parts = None
    if decoded.slots is not None:
        parts = split_embedded(decoded.slots)
    for i in range(len(rows)):
        fields = decode_entry(rows.entry_bytes(i), rows.version).fields
        listed = dict(fields)
        slots = listed.pop("slots", [])
        assert row_of(decoded.fields, i) == listed
        first, stop = decoded.slot_first[i : i + 2]
        assert stop - first == len(slots)
        for j, slot in enumerate(slots):
            _compare_slot(decoded, int(first) + j, slot, fields.get("base_file_no", 0), parts)


def _compare_slot(
    decoded: Decoded, row: int, slot: Mapping[str, Any], base: int, parts: Any
) -> None:
    columns = decoded.slots
    assert columns is not None
    expected = dict(slot)
    if "compact_lsn" in expected:
        step, offset = expected.pop("compact_lsn")
        null = offset == COMPACT_NULL_OFFSET
        expected["lsn"] = -1 if null else base + step << 32 | offset
    assert row_of(columns, row) == expected
    key_start, key_size, data_start, data_size = (int(part[row]) for part in parts)
    key, data = slot_parts(slot)
    assert columns.data[key_start : key_start + key_size].tobytes() == key
    assert data_size == (-1 if data is None else len(data))
    if data:
        assert columns.data[data_start : data_start + data_size].tobytes() == data


def row_of(columns: Columns, row: int) -> dict[str, Any]:
    """Return the fields that one row holds."""
    return {
        name: _value(columns, name, row)
        for name in columns.program.names
        if columns.is_present(name)[row]
    }


def _value(columns: Columns, name: str, row: int) -> Any:
    if not columns.is_bytes(name):
        return int(columns.number(name)[row])
    starts, sizes = columns.span(name)
    start, size = int(starts[row]), int(sizes[row])
    return None if size < 0 else columns.data[start : start + size].tobytes()
