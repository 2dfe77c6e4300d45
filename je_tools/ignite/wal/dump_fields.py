"""Fields that only some types of records have, as JSON objects."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from je_tools.core.escaping import clean_text
from je_tools.core.masking import SHOWN
from je_tools.formats.ignite.records import decode_checkpoint
from je_tools.formats.ignite.types import (
    COLUMN_COUNTS,
    NUMBERS,
    RECORD_TYPES,
    FieldCoding,
    RecordField,
)
from je_tools.formats.spans import gather_hex
from je_tools.ignite.wal.record_table import COLUMN_FIELDS, RecordTable, TypeFields
from je_tools.output.encoders import arrow_texts as t

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


def json_texts(values: list[Any]) -> pa.StringArray:
    """Return values as JSON."""
    return pa.array([json.dumps(value, separators=(",", ":")) for value in values], pa.string())


def field_texts(table: RecordTable, masking: Masking) -> pa.StringArray:
    """Return the fields that are not in COLUMN_FIELDS; null if there are none."""
    used = np.zeros(len(table.rows), np.bool_)
    used[table.index] = True
    texts: list[pa.Array] = []
    place = np.full(len(table.rows), -1, np.int64)
    count = 0
    for some in table.fields:
        keep = used[some.at] & ~some.decoded.bad
        if keep.any():
            made = _texts_of(table, some, np.flatnonzero(keep), masking)
            if made is not None:
                texts.append(made)
                place[some.at[keep]] = np.arange(count, count + len(made))
                count += len(made)
    if not texts:
        return pa.nulls(len(table), pa.string())
    chosen = place[table.index]
    index = t.number_array(np.maximum(chosen, 0).astype(np.int32), chosen >= 0)
    return pa.concat_arrays(texts).take(index)


def _texts_of(
    table: RecordTable, some: TypeFields, rows: Ints, masking: Masking
) -> pa.StringArray | None:
    if some.type_no == _CHECKPOINT:
        return json_texts([_checkpoint(table, int(some.at[row])) for row in rows])
    texts = _plain_texts(table, some, rows, masking)
    if texts is None or some.type_no != _SNAPSHOT:
        return texts
    starts, sizes = (some.decoded.columns[f"name_{part}"][rows] for part in ("start", "size"))
    names = t.data_bytes(table.rows.data, starts, sizes, SHOWN).to_pylist()
    is_filler = [not name.strip(b" ") for name in names]
    return pc.if_else(t.bool_array(np.array(is_filler)), json_texts([_FILLER])[0], texts)


def _plain_texts(
    table: RecordTable, some: TypeFields, rows: Ints, masking: Masking
) -> pa.StringArray | None:
    pieces: list[str | pa.StringArray] = []
    for field in RECORD_TYPES[some.type_no].fields:
        if field.name not in COLUMN_FIELDS:
            pieces.append(f'{"," if pieces else "{"}"{field.name}":')
            pieces.append(_field(table, field, some, rows, masking))
    return t.joined(*pieces, "}") if pieces else None


def _field(
    table: RecordTable, field: RecordField, some: TypeFields, rows: Ints, masking: Masking
) -> pa.StringArray:
    columns = some.decoded.columns
    if field.coding is FieldCoding.PAGE:
        return t.joined('"', page_texts(columns[field.name][rows]), '"')
    if field.coding not in COLUMN_COUNTS:
        return t.number_texts(np.ascontiguousarray(columns[field.name][rows]))
    starts, sizes = (columns[f"{field.name}_{part}"][rows] for part in ("start", "size"))
    if (
        field.coding is FieldCoding.NODES
        or field.coding is FieldCoding.UUID
        or field.name in _NAMES
    ):
        # Few values occur, and most of them often.
        found = t.data_bytes(table.rows.data, starts, sizes, SHOWN).dictionary_encode()
        values = [value or b"" for value in found.dictionary.to_pylist()]
        is_big = table.rows.header.is_big
        return json_texts([_value(field, value, is_big) for value in values]).take(found.indices)
    texts = t.data_texts(table.rows.data, starts, sizes, masking)
    return pc.fill_null(t.joined('"', texts, '"'), "null")


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
