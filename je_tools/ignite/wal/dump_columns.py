"""Columns of the records of Ignite's write-ahead log, as numbers and bytes or as texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from je_tools.core.escaping import clean_text
from je_tools.formats.ignite.record_table import PARTITION_STATE
from je_tools.formats.ignite.types import (
    TYPE_COUNT,
    EntryOperation,
    PartitionState,
    TransactionState,
    type_name,
)
from je_tools.formats.ignite.versions import data_center, node_order
from je_tools.formats.rows import Cell, CellTable, Form
from je_tools.formats.spans import Spans
from je_tools.ignite.values.texts import value_texts
from je_tools.ignite.wal.dump_fields import field_texts, page_texts
from je_tools.output.encoders import arrow_texts as t

if TYPE_CHECKING:
    from je_tools.core.masking import Masking
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.ignite.record_table import Numbers, RecordTable
    from je_tools.ignite.wal.dump import RecordPlace

_NAMES = pa.dictionary(pa.int32(), pa.string())

RECORD_SCHEMA = pa.schema(
    [
        ("node", _NAMES),
        ("segment", pa.int64()),
        ("offset", pa.uint32()),
        ("length", pa.uint32()),
        ("type", _NAMES),
        ("time_ms", pa.int64()),
        ("group_id", pa.int32()),
        ("group", pa.string()),
        ("page_id", pa.uint64()),
        ("partition", pa.int32()),
        ("entry", pa.int32()),
        ("cache_id", pa.int32()),
        ("cache", pa.string()),
        ("op", _NAMES),
        ("state", _NAMES),
        ("transaction", pa.string()),
        ("version", pa.string()),
        ("counter", pa.int64()),
        ("expire_ms", pa.int64()),
        ("flags", pa.uint8()),
        ("key_type", pa.uint8()),
        ("key", pa.binary()),
        ("key_json", pa.string()),
        ("value_type", pa.uint8()),
        ("value_size", pa.int64()),
        ("value", pa.binary()),
        ("value_json", pa.string()),
        ("fields", pa.string()),
        ("encrypted", pa.bool_()),
        ("undecodable", pa.bool_()),
        ("file", _NAMES),
        ("file_offset", pa.uint32()),
    ]
)
"""Columns of Parquet; in the other formats, names, pages, keys and values are texts."""

_TYPES = pa.array([type_name(no) for no in range(TYPE_COUNT)], pa.string())


def _states() -> list[str]:
    states = {int(state): state.name for state in TransactionState}
    states |= {PARTITION_STATE + state: state.name for state in PartitionState}
    return [states.get(i, str(i % PARTITION_STATE)) for i in range(2 * PARTITION_STATE)]


_STATES = pa.array(_states(), pa.string())
_OPERATIONS = pa.array(
    [*(each.name for each in EntryOperation), *map(str, range(len(EntryOperation), 256))],
    pa.string(),
)


def version_texts(table: RecordTable, name: str) -> pa.StringArray:
    """Return versions as `topology:node:order`, with `:center` if the data center is not 0."""
    topology, node, order = (
        table.columns[f"{name}_{part}"] for part in ("topology", "node", "order")
    )
    return versions_of(topology.values, node.values, order.values, topology.valid)


def versions_of(topology: Ints, node: Ints, order: Ints, valid: Mask) -> pa.StringArray:
    """Return versions as `version_texts` does, from their parts; null if not `valid`."""
    centers = data_center(node)
    cells = [
        Cell(Form.DECIMAL, topology, valid=valid),
        Cell(Form.DECIMAL, node_order(node), b":", valid=valid),
        Cell(Form.DECIMAL, order, b":", valid=valid),
        Cell(Form.DECIMAL, centers, b":", valid=valid & (centers > 0)),
    ]
    return t.row_array(CellTable(len(node), cells), valid)


def chosen(column: Numbers, texts: pa.StringArray) -> pa.DictionaryArray:
    """Return the text of each number."""
    numbers = t.number_array(column.values.astype(np.int32), column.valid)
    return pa.DictionaryArray.from_arrays(numbers, texts)


def object_texts(
    table: RecordTable, name: str, place: RecordPlace, masking: Masking
) -> pa.StringArray:
    """Return keys or values of entries as JSON; null for other records, and if they are masked."""
    kinds, spans = table.columns[f"{name}_type"], getattr(table, name)
    sizes = np.where(kinds.valid, spans.sizes, -1)
    values = Spans(table.rows.data, spans.starts, sizes)
    return value_texts(place.types, values, kinds.values, masking)


def record_columns(
    table: RecordTable,
    place: RecordPlace,
    masking: Masking,
    name_of: Callable[[str], str] = clean_text,
    wanted: Iterable[str] = RECORD_SCHEMA.names,
) -> dict[str, pa.Array]:
    """Return columns of RECORD_SCHEMA by name, keys and values as bytes.

    Args:
        table: the rows.
        place: where they are.
        masking: masking of keys and values.
        name_of: escaping of names of caches, groups, nodes and files.
        wanted: names of the columns; the others are not built.
    """
    n, rows, columns, data = len(table), table.rows, table.columns, table.rows.data

    def numbers(name: str) -> pa.Array:
        column, kind = columns[name], RECORD_SCHEMA.field(name).type
        return t.number_array(column.values.astype(kind.to_pandas_dtype()), column.valid)

    def names(name: str, known: Mapping[int, str]) -> pa.Array:
        column = columns[name]
        return t.id_texts(column.values, column.valid, {i: name_of(x) for i, x in known.items()})

    def header(values: Any) -> pa.Array:
        return t.number_array(values[table.index])

    def types() -> pa.Array:
        numbers = header(rows.columns.type_no.astype(np.int32))
        return pa.DictionaryArray.from_arrays(numbers, _TYPES)

    made: dict[str, Callable[[], pa.Array]] = {
        "node": lambda: t.same_texts(name_of(place.node), n),
        "segment": lambda: t.number_array(np.full(n, rows.header.segment, np.int64)),
        "offset": lambda: header(rows.columns.offset),
        "length": lambda: header(rows.columns.length),
        "type": types,
        "group": lambda: names("group_id", place.names.groups),
        "cache": lambda: names("cache_id", place.names.caches),
        "op": lambda: chosen(columns["op"], _OPERATIONS),
        "state": lambda: chosen(columns["state"], _STATES),
        "transaction": lambda: version_texts(table, "near"),
        "version": lambda: version_texts(table, "version"),
        "key": lambda: t.data_bytes(data, table.key.starts, table.key.sizes, masking),
        "value_size": lambda: t.number_array(table.value.sizes, table.value.sizes >= 0),
        "value": lambda: t.data_bytes(data, table.value.starts, table.value.sizes, masking),
        "key_json": lambda: object_texts(table, "key", place, masking),
        "value_json": lambda: object_texts(table, "value", place, masking),
        "fields": lambda: field_texts(table, masking),
        "encrypted": lambda: t.bool_array(table.is_encrypted),
        "undecodable": lambda: t.bool_array(table.bad),
        "file": lambda: t.same_texts(name_of(place.file), n),
        "file_offset": lambda: header(rows.columns.at),
    }
    return {name: made[name]() if name in made else numbers(name) for name in wanted}


def record_texts(
    table: RecordTable,
    place: RecordPlace,
    masking: Masking,
    name_of: Callable[[str], str] = clean_text,
) -> dict[str, pa.Array]:
    """Return the columns of RECORD_SCHEMA as numbers, booleans and texts, for lines."""
    found = record_columns(table, place, masking, name_of)
    for name, array in found.items():
        if pa.types.is_dictionary(array.type):
            found[name] = array.dictionary_decode()
    pages = table.columns["page_id"]
    found["page_id"] = page_texts(pages.values, pages.valid)
    for name, spans in (("key", table.key), ("value", table.value)):
        found[name] = t.data_texts(table.rows.data, spans.starts, spans.sizes, masking)
    return {name: found[name] for name in RECORD_SCHEMA.names}
