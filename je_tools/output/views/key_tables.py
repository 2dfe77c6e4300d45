"""Records of a key, and their versions, as result tables."""

from __future__ import annotations

from collections.abc import Callable

from je_tools.core.key_forms import key_form, value_form
from je_tools.core.masking import DataMode, Masking
from je_tools.formats.je.header import NULL_LSN
from je_tools.log.records import NO_TIME, NO_VLSN, Records
from je_tools.output.views.sections import Cell, Column, Kind, Section, unless

HIDDEN, LOST = "(hidden)", "(lost)"
"""Texts for people, for a value that is masked and for one that is lost."""

RECORD_COLUMNS = (
    Column("key", "key", Kind.KEY),
    Column("data", "data", Kind.DATA),
    Column("modified_ms", "modified (UTC)", Kind.TIME, rank=2),
    Column("expires_ms", "expires (UTC)", Kind.TIME, rank=3),
    Column("vlsn", "VLSN", Kind.ID, rank=4),
    Column("lsn", "LSN", Kind.LSN, rank=1),
)


def record_section(records: Records, masking: Masking) -> Section:
    """Return a table with a row for each record, for people."""
    rows = [record_cells(records, row, masking) for row in range(len(records))]
    return Section("", "", RECORD_COLUMNS, rows)


def record_cells(records: Records, row: int, masking: Masking) -> list[Cell]:
    """Return the cells of RECORD_COLUMNS for one record."""
    lsn, vlsn = int(records.lsn[row]), int(records.vlsn[row])
    return [
        shown_key(masking, records.key[row]),
        shown_value(masking, records.data[row]) or LOST,
        unless(int(records.modified_ms[row]), NO_TIME),
        unless(int(records.expires_ms[row]), NO_TIME),
        unless(vlsn, NO_VLSN),
        unless(lsn, NULL_LSN),
    ]


def masked_hex(masking: Masking, value: bytes | None) -> str | None:
    """Return bytes in hexadecimal, or what masking replaces them with."""
    return None if value is None else masking.text_of(value)


def shown_key(masking: Masking, key: bytes | None) -> str | None:
    """Return a key for people, in a form in which it can be given; see `key_form`."""
    return _shown(masking, key, key_form)


def shown_value(masking: Masking, value: bytes | None) -> str | None:
    """Return a value of a record for people; see `value_form`."""
    return _shown(masking, value, value_form)


def _shown(masking: Masking, value: bytes | None, form: Callable[[bytes], str]) -> str | None:
    if value is None:
        return None
    if masking.mode is not DataMode.SHOW:
        return masked_hex(masking, value) or HIDDEN
    return form(value)
