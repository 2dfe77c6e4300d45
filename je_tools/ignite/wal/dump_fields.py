"""Fields that only some types of records have, as JSON objects."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np
import pyarrow as pa

from je_tools.core.escaping import clean_text
from je_tools.core.masking import SHOWN
from je_tools.formats.ignite.record_table import OWN_FIELDS, RecordTable, TypeFields
from je_tools.formats.ignite.records import decode_checkpoint
from je_tools.formats.ignite.types import COLUMN_COUNTS, NUMBERS, FieldCoding, RecordField
from je_tools.formats.rows import Cell, CellTable, Form, RowChoice, text_of_ours, words
from je_tools.formats.spans import Spans, gather_hex
from je_tools.output.encoders import arrow_texts as t
from je_tools.output.encoders.json_cells import json_objects, masked_cell, number_cell, text_cell

if TYPE_CHECKING:
    from je_tools.core.masking import Masking
    from je_tools.formats.arrays import Ints

_CHECKPOINT = NUMBERS["CHECKPOINT_RECORD"]
_SNAPSHOT = NUMBERS["CLUSTER_SNAPSHOT"]
_FILLER = {"filler": True}
"""Fields of a record that a repair left in the place of others: a snapshot named with blanks."""
_NAMES = frozenset({"name", "old_name", "new_name"})


def page_texts(pages: Ints, valid: Any = None) -> pa.StringArray:
    """Return page ids as 16 digits."""
    data = pages.astype(">i8").view(np.uint8)
    starts = np.arange(len(pages)) * 8
    return t.string_array(*gather_hex(data, starts, np.full(len(pages), 8)), valid)


def field_texts(table: RecordTable, masking: Masking) -> pa.StringArray:
    """Return the fields that are no columns of the table; null if there are none."""
    used = np.zeros(len(table.rows), np.bool_)
    used[table.index] = True
    # Records of data have no such fields, so that no other record is more than one row.
    which, place = np.full(len(table.rows), -1, np.int64), np.zeros(len(table.rows), np.int64)
    tables: list[CellTable] = []
    for some in table.fields:
        rows = np.flatnonzero(used[some.at])
        which[some.at[rows]], place[some.at[rows]] = len(tables), np.arange(len(rows))
        tables.append(_objects(table, some, rows, masking))
    chosen = RowChoice(which[table.index], place[table.index], tables)
    cells = [Cell(Form.CHOICE, chosen)]
    return t.row_array(CellTable(len(table), cells), chosen.table >= 0)


def _objects(table: RecordTable, some: TypeFields, rows: Ints, masking: Masking) -> CellTable:
    """Return a JSON object for each row."""
    if some.type_no == _CHECKPOINT:
        texts = [_json(_checkpoint(table, int(some.at[row]))) for row in rows]
        return CellTable(len(rows), [Cell(Form.TEXT, words(texts, np.arange(len(rows))))])
    cells = [_field(table, field, some, rows, masking) for field in OWN_FIELDS[some.type_no]]
    objects = json_objects(len(rows), cells)
    return _with_fillers(table, some, rows, objects) if some.type_no == _SNAPSHOT else objects


def _with_fillers(
    table: RecordTable, some: TypeFields, rows: Ints, objects: CellTable
) -> CellTable:
    """Return the objects, with _FILLER in place of those of fillers."""
    starts, sizes = (some.columns[f"name_{part}"][rows] for part in ("start", "size"))
    names = t.data_bytes(table.rows.data, starts, sizes, SHOWN).to_pylist()
    is_filler = np.array([not (name or b"").strip(b" ") for name in names], np.int64)
    filler = CellTable(len(rows), [Cell(Form.NOTHING, before=_json(_FILLER))])
    chosen = RowChoice(is_filler, np.arange(len(rows)), [objects, filler])
    return CellTable(len(rows), [Cell(Form.CHOICE, chosen)])


def _field(
    table: RecordTable, field: RecordField, some: TypeFields, rows: Ints, masking: Masking
) -> Cell:
    columns = some.columns
    label = f',"{field.name}":'
    if field.coding is FieldCoding.PAGE:
        pages = columns[field.name][rows].astype(">i8").view(np.uint8)
        spans = Spans(pages, np.arange(len(rows)) * 8, np.full(len(rows), 8))
        return text_cell(label, text_of_ours(spans))
    if field.coding not in COLUMN_COUNTS:
        return number_cell(label, columns[field.name][rows])
    starts, sizes = (columns[f"{field.name}_{part}"][rows] for part in ("start", "size"))
    if (
        field.coding is FieldCoding.NODES
        or field.coding is FieldCoding.UUID
        or field.name in _NAMES
    ):
        # Few values occur, and most of them often.
        found = t.data_bytes(table.rows.data, starts, sizes, SHOWN).dictionary_encode()
        is_big = table.rows.header.is_big
        texts = [_json(_value(field, value, is_big)) for value in found.dictionary.to_pylist()]
        choice = found.indices.fill_null(len(texts)).to_numpy()
        return Cell(Form.TEXT, words([*texts, b"null"], choice), label.encode())
    return masked_cell(label, Spans(table.rows.data, starts, sizes), masking)


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode("ascii")


def _value(field: RecordField, data: bytes, is_big: bool) -> Any:
    order = "big" if is_big else "little"

    def number(at: int, size: int) -> int:
        return int.from_bytes(data[at : at + size], order, signed=True)  # type: ignore[arg-type]

    if field.coding is FieldCoding.UUID:
        high, low = (number(at, 8) & (1 << 64) - 1 for at in (0, 8))
        return str(UUID(int=high << 64 | low))
    if field.name in _NAMES:
        return clean_text(data.decode("utf-8", "surrogateescape"))
    nodes: dict[str, list[int]] = {}
    at = 4
    for _ in range(number(0, 4)):
        primary, count = number(at, 2), number(at + 2, 4)
        nodes[str(primary)] = [number(at + 6 + 2 * i, 2) for i in range(count)]
        at += 6 + 2 * count
    return nodes


def _checkpoint(table: RecordTable, record: int) -> Any:
    """Return a checkpoint: of each partition its number, size, update counter and state."""
    header = table.rows.header
    facts = decode_checkpoint(table.rows.payload(record), is_big=header.is_big)
    if facts is None:
        return {}
    groups = {
        str(group): [[p.partition, p.size, p.counter, p.state] for p in parts]
        for group, parts in facts.groups.items()
    }
    return {"checkpoint": str(facts.checkpoint), "mark": facts.mark, "groups": groups}
