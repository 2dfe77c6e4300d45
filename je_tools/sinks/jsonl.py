"""Entries as JSON lines, put together in columns: no Python runs per entry but for rare types."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from je_tools.entries import ROW_FIELDS, EntryTable, FamilyPart
from je_tools.formats.je.columns import Columns
from je_tools.formats.je.header import PROVISIONAL_NAMES, lsn_text
from je_tools.formats.je.reader import Rows
from je_tools.formats.je.slots import split_embedded
from je_tools.formats.je.types import Family, type_name
from je_tools.formats.je.walk import CHECKSUM_NAMES
from je_tools.masking import KEY_FIELDS, Masking
from je_tools.sinks import texts as t

_QUOTE = '"'
_EMBEDDED_FIELDS = ("key", "data")


def json_lines(
    table: EntryTable, names: Mapping[int, str], masking: Masking, *, fast: bool
) -> pa.Buffer:
    """The entries of a table as JSON lines, in their order; UTF-8 (in fact ASCII) bytes.

    Args:
        table: the entries.
        names: database names by id.
        masking: what becomes of keys and values.
        fast: use compiled kernels.
    """
    if not len(table):
        return pa.py_buffer(b"")
    lines = t.joined(
        *row_pieces(table, names, masking, fast=fast),
        entry_objects(table, masking, fast=fast),
        "}\n",
    )
    return t.text_bytes(lines)


def row_pieces(
    table: EntryTable, names: Mapping[int, str], masking: Masking, *, fast: bool
) -> list[str | pa.StringArray]:
    """The columns that every entry has, as pieces of a JSON object that is left open."""
    rows = table.rows
    db_names = {id_: t.json_string(name) for id_, name in dict(names).items()}
    key = t.data_texts(rows.data, table.key_start, table.key_size, masking, fast=fast)
    data = t.data_texts(rows.data, table.data_start, table.data_size, masking, fast=fast)
    kinds, marks = _kinds_and_marks(rows)
    return [
        f'{{"file_no":{rows.file_no},"offset":',
        t.number_texts(rows.offset.astype(np.int64)),
        ',"lsn":"',
        t.lsn_texts(rows.lsn, fast=fast),
        kinds,
        t.number_texts(rows.item_size.astype(np.int64)),
        ',"prev_offset":',
        t.number_texts(rows.prev_offset.astype(np.int64)),
        ',"vlsn":',
        t.or_null(t.number_texts(rows.vlsn, rows.has_vlsn)),
        marks,
        t.or_null(t.number_texts(table.db_id, table.has_db)),
        ',"db_name":',
        t.or_null(t.id_texts(table.db_id, table.has_db, db_names)),
        ',"txn_id":',
        t.or_null(t.number_texts(table.txn_id, table.has_txn)),
        ',"key":',
        t.or_null(t.joined(_QUOTE, key, _QUOTE)),
        ',"data_size":',
        t.or_null(t.number_texts(table.data_size, table.data_size >= 0)),
        ',"data":',
        t.or_null(t.joined(_QUOTE, data, _QUOTE)),
        ',"entry":',
    ]


def _kinds_and_marks(rows: Rows) -> tuple[pa.StringArray, pa.StringArray]:
    """What follows from type, flags and checksum, spelled once for each that occurs."""
    codes = rows.type.astype(np.int32) | rows.flags.astype(np.int32) << 8
    codes |= rows.checksum.astype(np.int32) << 16
    encoded = pc.dictionary_encode(t.number_array(codes))
    kinds, marks = [], []
    for code in encoded.dictionary.to_pylist():
        like = rows.take(np.flatnonzero(codes == code)[:1])
        kinds.append(
            f'","type":{json.dumps(type_name(int(like.type[0])))},"version":{rows.version},'
            f'"header_size":{like.header_size[0]},"item_size":'
        )
        marks.append(
            f',"provisional":"{PROVISIONAL_NAMES[like.provisional[0]]}",'
            f'"replicated":{json.dumps(bool(like.replicated[0]))},'
            f'"invisible":{json.dumps(bool(like.invisible[0]))},'
            f'"checksum":"{CHECKSUM_NAMES[like.checksum[0]]}","db_id":'
        )
    texts = (pa.array(kinds, pa.string()), pa.array(marks, pa.string()))
    return texts[0].take(encoded.indices), texts[1].take(encoded.indices)


def entry_objects(table: EntryTable, masking: Masking, *, fast: bool) -> pa.StringArray:
    """The payload of each entry as a JSON object, built by family and put back in order."""
    pieces, places = [], []
    for part in table.parts:
        pieces.append(family_json(part, masking, fast=fast))
        places.append(part.index)
    if table.singles:
        singles = [single_json(s.fields, s.problem, masking) for s in table.singles.values()]
        pieces.append(pa.array(singles, pa.string()))
        places.append(np.fromiter(table.singles, np.int64, len(table.singles)))
    order = np.empty(len(table), np.int64)
    # An entry of a family that did not decode stands twice; its place goes to the later, single.
    index = np.concatenate(places)
    order[index] = np.arange(len(index))
    if len(pieces) == 1:
        return pieces[0]
    return pa.concat_arrays(pieces).take(t.number_array(order))


def family_json(part: FamilyPart, masking: Masking, *, fast: bool) -> pa.StringArray:
    """The payloads of one family as JSON objects, absent fields left out."""
    decoded = part.decoded
    pieces = _field_pieces(decoded.fields, ROW_FIELDS, masking, fast)
    if decoded.slots is not None:
        pieces += [',"slots":[', _slots(part, masking, fast), "]"]
    return _objects(pieces, len(part.index))


def _objects(pieces: list[str | pa.StringArray], count: int) -> pa.StringArray:
    """JSON objects of fields that each begin with a comma."""
    if all(isinstance(piece, str) for piece in pieces):
        # Not one of them has a field: damaged ones, of which `single_json` tells.
        return pa.repeat("{}", count)
    first = pieces[0]
    if isinstance(first, str):
        return t.joined_present("{" + first.removeprefix(","), *pieces[1:], "}")
    # Where the first field can be absent, the first comma may be that of any other. A brace in
    # front, as Arrow leaves out rows of which every piece is null.
    fields = pc.utf8_slice_codeunits(t.joined_present("{", *pieces), len("{,"))
    return t.joined_present("{", fields, "}")


def _field_pieces(
    columns: Columns, without: frozenset[str], masking: Masking, fast: bool
) -> list[str | pa.StringArray]:
    """Fields of a JSON object, a comma in front of each; those that are absent are null."""
    pieces: list[str | pa.StringArray] = []
    for name in columns.program.names:
        if name in without or columns.is_empty(name):
            continue
        shown = masking if name in KEY_FIELDS else _SHOWN
        texts = t.column_texts(columns, name, shown, fast=fast, quote=_QUOTE)
        start = f',"{name}":'
        if columns.is_complete(name):
            pieces += [start, t.or_null(texts)]
        else:
            present = t.bool_array(columns.is_present(name))
            values = pc.if_else(present, t.or_null(texts), None)
            pieces.append(t.joined(start, values))
    return pieces


_SHOWN = Masking()


def _slots(part: FamilyPart, masking: Masking, fast: bool) -> pa.StringArray:
    slots = part.decoded.slots
    assert slots is not None
    if part.family is Family.NODE:
        objects = _node_slots(slots, masking, fast)
    else:
        fields = _field_pieces(slots, frozenset(), masking, fast)
        objects = _objects(fields, len(slots.present))
    ends = t.number_array(part.decoded.slot_first.astype(np.int32))
    return pc.binary_join(pa.ListArray.from_arrays(ends, objects), ",")


def _node_slots(slots: Columns, masking: Masking, fast: bool) -> pa.StringArray:
    key_start, key_size, data_start, data_size = split_embedded(slots, fast=fast)
    key = t.data_texts(slots.data, key_start, key_size, masking, fast=fast)
    data = t.data_texts(slots.data, data_start, data_size, masking, fast=fast)
    rest = _field_pieces(slots, frozenset(_EMBEDDED_FIELDS), masking, fast)
    return t.joined_present(
        '{"key":',
        t.or_null(t.joined(_QUOTE, key, _QUOTE)),
        t.joined(',"data":"', data, _QUOTE),
        *rest,
        "}",
    )


def single_json(fields: Mapping[str, Any], problem: str | None, masking: Masking) -> str:
    """One payload that was decoded by itself, as a JSON object."""
    if problem is not None:
        return json.dumps({"undecodable": problem})
    shown = {k: _plain(k, v, masking) for k, v in fields.items() if k not in ROW_FIELDS}
    return json.dumps(shown, separators=(",", ":"))


def _plain(name: str, value: Any, masking: Masking) -> Any:
    """A decoded value as JSON has it: bytes in hexadecimal, LSNs spelled, text made valid."""
    if isinstance(value, int):
        return lsn_text(value) if t.is_lsn(name) else value
    if isinstance(value, dict):
        return {k: _plain(k, v, masking) for k, v in value.items()}
    if isinstance(value, list):
        # Obsolete offsets come by the thousand, and are what they are.
        numbers = not value or isinstance(value[0], int)
        return value if numbers else [_plain(name, item, masking) for item in value]
    if isinstance(value, bytes):
        return masking.text_of(value) if name in KEY_FIELDS else value.hex()
    return t.clean_text(value) if isinstance(value, str) else value
