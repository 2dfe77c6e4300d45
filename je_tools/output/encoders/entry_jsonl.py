"""Entries as JSON lines, written from columns: Python runs per entry only for rare types."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from je_tools.core.escaping import clean_text, is_lsn
from je_tools.core.masking import KEY_FIELDS, Masking
from je_tools.formats import _native
from je_tools.formats.je.btree.slots import split_embedded
from je_tools.formats.je.header import PROVISIONAL_NAMES, lsn_text
from je_tools.formats.je.log.walk import CHECKSUM_NAMES
from je_tools.formats.je.types import Family, type_name
from je_tools.formats.rows import (
    Cell,
    CellTable,
    Form,
    ListItems,
    RowChoice,
    text_of_ours,
    words,
    write_rows,
)
from je_tools.formats.spans import GATHERED_MAX, Spans
from je_tools.log.entry_table import ROW_FIELDS, EntryTable, FamilyPart
from je_tools.output.encoders.json_cells import json_objects, masked_cell, number_cell, text_cell

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints
    from je_tools.formats.files.source import Bytes
    from je_tools.formats.je.entry.columns import Columns
    from je_tools.formats.je.log.entry_rows import Rows

_EMBEDDED_FIELDS = frozenset({"key", "data"})


def json_lines(table: EntryTable, names: Mapping[int, str], masking: Masking) -> Bytes:
    """Return the entries of a table as JSON lines, in order; UTF-8 (in fact ASCII) bytes.

    Args:
        table: the entries.
        names: database names by id.
        masking: masking of keys and values.

    Raises:
        TooLongError: they are longer than an output can be.
    """
    rows = table.rows
    key = Spans(rows.data, table.key_start, table.key_size)
    data = Spans(rows.data, table.data_start, table.data_size)
    kinds, marks, choice = _kinds_and_marks(rows)
    lines = CellTable(
        len(rows),
        [
            number_cell(f'{{"file_no":{rows.file_no},"offset":', rows.offset),
            Cell(Form.LSN, rows.lsn, b',"lsn":"', b'"'),
            Cell(Form.TEXT, words(kinds, choice), b',"type":'),
            number_cell(',"item_size":', rows.item_size),
            number_cell(',"prev_offset":', rows.prev_offset),
            number_cell(',"vlsn":', rows.vlsn, rows.has_vlsn),
            Cell(Form.TEXT, words(marks, choice), b',"provisional":'),
            number_cell(',"db_id":', table.db_id, table.has_db),
            _db_name(table, names),
            number_cell(',"txn_id":', table.txn_id, table.has_txn),
            masked_cell(',"key":', key, masking),
            number_cell(',"data_size":', table.data_size, table.data_size >= 0),
            masked_cell(',"data":', data, masking),
            _entry(table, masking, ',"entry":'),
            Cell(Form.NOTHING, before=b"}\n"),
        ],
    )
    return write_rows(lines, most=GATHERED_MAX)


def entry_objects(table: EntryTable, masking: Masking) -> CellTable:
    """Return the payload of each entry as a JSON object, in ASCII."""
    return CellTable(len(table), [_entry(table, masking, "")])


def _kinds_and_marks(rows: Rows) -> tuple[list[bytes], list[bytes], Ints]:
    """Return texts for each combination of type, flags and checksum, and that of each row."""
    codes = rows.type | rows.flags.astype(np.int64) << 8
    codes |= rows.checksum.astype(np.int64) << 16
    _, first, choice = _native.distinct(codes)
    like = rows.select(first)
    kinds = [
        f'{json.dumps(type_name(no))},"version":{rows.version},"header_size":{size}'.encode("ascii")
        for no, size in zip(like.type.tolist(), like.header_size.tolist(), strict=True)
    ]
    columns = (like.provisional, like.replicated, like.invisible, like.checksum)
    marks = [
        f'"{PROVISIONAL_NAMES[provisional]}","replicated":{json.dumps(replicated)},'
        f'"invisible":{json.dumps(invisible)},"checksum":"{CHECKSUM_NAMES[checksum]}"'.encode()
        for provisional, replicated, invisible, checksum in zip(
            *(column.tolist() for column in columns), strict=True
        )
    ]
    return kinds, marks, choice


def _db_name(table: EntryTable, names: Mapping[int, str]) -> Cell:
    ids, _, choice = _native.distinct(table.db_id)
    known = [names.get(id_) for id_ in ids.tolist()]
    texts = [None if name is None else json_string(name).encode("ascii") for name in known]
    label = b',"db":'
    chosen = words(texts, choice)
    return Cell(Form.TEXT, chosen, label, instead=label + b"null", valid=table.has_db)


def _entry(table: EntryTable, masking: Masking, label: str) -> Cell:
    """Return the payload of each entry as a JSON object."""
    # An entry that its family could not decode occurs twice; the later one, the single, counts.
    which, row = np.zeros((2, len(table)), np.int64)
    tables: list[CellTable] = []
    for part in table.parts:
        which[part.index], row[part.index] = len(tables), np.arange(len(part.index))
        tables.append(_family(part, masking))
    if table.singles:
        index = np.fromiter(table.singles, np.int64, len(table.singles))
        which[index], row[index] = len(tables), np.arange(len(index))
        tables.append(_singles(table, masking))
    return Cell(Form.CHOICE, RowChoice(which, row, tables), label.encode())


def _singles(table: EntryTable, masking: Masking) -> CellTable:
    singles = table.singles.values()
    texts = [single_json(s.fields, s.problem, masking).encode("ascii") for s in singles]
    return CellTable(len(texts), [Cell(Form.TEXT, text_of_ours(Spans.of(texts)))])


def _family(part: FamilyPart, masking: Masking) -> CellTable:
    """Return the payloads of one family as JSON objects, absent fields left out."""
    decoded = part.decoded
    cells = _fields(decoded.fields, ROW_FIELDS, masking)
    if decoded.slots is not None:
        slots = ListItems(decoded.slot_first, _slots(part.family, decoded.slots, masking))
        cells.append(Cell(Form.LIST, slots, b',"slots":[', b"]"))
    return json_objects(len(part.index), cells)


def _slots(family: Family, slots: Columns, masking: Masking) -> CellTable:
    """Return the slots of a family as JSON objects."""
    cells: list[Cell] = []
    without: frozenset[str] = frozenset()
    if family is Family.NODE:
        without = _EMBEDDED_FIELDS
        key_start, key_size, data_start, data_size = split_embedded(slots)
        cells.append(masked_cell(',"key":', Spans(slots.data, key_start, key_size), masking))
        data = masked_cell(',"data":', Spans(slots.data, data_start, data_size), masking)
        cells.append(replace(data, instead=b""))
    cells += _fields(slots, without, masking)
    return json_objects(len(slots.present), cells)


def _fields(columns: Columns, without: frozenset[str], masking: Masking) -> list[Cell]:
    """Return fields of JSON objects; those that are absent are left out."""
    cells = []
    for column, name in enumerate(columns.program.names):
        if name in without or columns.is_empty(name):
            continue
        label, sized = f',"{name}":', columns.program.sized[column]
        if sized >= 0:
            spans = Spans(columns.data, *columns.span(name))
            if name in KEY_FIELDS:
                cell = masked_cell(label, spans, masking)
            else:
                cell = text_cell(label, text_of_ours(spans))
        elif is_lsn(name):
            cell = Cell(Form.LSN, columns.values[column], f'{label}"'.encode(), b'"')
        else:
            cell = number_cell(label, columns.values[column])
        if not columns.is_complete(name):
            cell = replace(cell, present=columns.present, bit=column)
        cells.append(cell)
    return cells


def single_json(fields: Mapping[str, Any], problem: str | None, masking: Masking) -> str:
    """Return one payload that was decoded by itself, as a JSON object."""
    if problem is not None:
        return json.dumps({"undecodable": problem})
    return json.dumps(plain_fields(fields, masking), separators=(",", ":"))


def plain_fields(fields: Mapping[str, Any], masking: Masking) -> dict[str, Any]:
    """Return decoded fields for JSON, without those that are columns of each row."""
    return {k: _plain(k, v, masking) for k, v in fields.items() if k not in ROW_FIELDS}


def json_string(text: str) -> str:
    """Return a JSON string, ASCII only, of the text as `clean_text` returns it."""
    return json.dumps(clean_text(text))


def _plain(name: str, value: Any, masking: Masking) -> Any:
    """Return a decoded value for JSON: bytes in hexadecimal, LSNs formatted, text made valid."""
    if isinstance(value, int):
        return lsn_text(value) if is_lsn(name) else value
    if isinstance(value, dict):
        return {k: _plain(k, v, masking) for k, v in value.items()}
    if isinstance(value, list):
        # Obsolete offsets come by the thousand, and need no conversion.
        numbers = not value or isinstance(value[0], int)
        return value if numbers else [_plain(name, item, masking) for item in value]
    if isinstance(value, bytes):
        return masking.field_text(name, value)
    return clean_text(value) if isinstance(value, str) else value
