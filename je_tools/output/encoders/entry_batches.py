"""Entries as Arrow record batches: common columns, and a nullable struct for each family.

The schema follows from the log versions in the log: the struct of a family has its fields in
`layout` for these versions, newest first. Tables of logs of other versions are joined by column
name.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct

from je_tools.core.masking import KEY_FIELDS, DataMode, Masking
from je_tools.formats.je.btree.slots import split_embedded
from je_tools.formats.je.entry.columns import MAX_ROWS, Columns
from je_tools.formats.je.header import PROVISIONAL_NAMES
from je_tools.formats.je.layout import Coding, Field, layout
from je_tools.formats.je.log.walk import CHECKSUM_NAMES
from je_tools.formats.je.types import (
    ENTRY_TYPES,
    LOG_VERSION_MAX,
    PAYLOAD_VERSION_MIN,
    Family,
    type_name,
)
from je_tools.log.entry_table import ROW_FIELDS, EntryTable, FamilyPart, Single
from je_tools.output.encoders import arrow_texts as t

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints

UNDECODABLE = "undecodable"
"""Name of the column that says why a payload was not decoded; null if it was."""

_NUMBERS = {
    Coding.U8: pa.uint8(),
    Coding.I32: pa.int32(),
    Coding.U32: pa.uint32(),
    Coding.I64: pa.int64(),
    Coding.PACKED: pa.int64(),
}
_NAMES = pa.dictionary(pa.int32(), pa.string())
_UNSIGNED = 0xFFFF_FFFF_FFFF_FFFF
_TYPE_TEXTS = pa.array([type_name(no) for no in range(256)], pa.string())
_PROVISIONAL_TEXTS = pa.array(PROVISIONAL_NAMES, pa.string())
_CHECKSUM_TEXTS = pa.array(CHECKSUM_NAMES, pa.string())

ALL_VERSIONS = frozenset(range(PAYLOAD_VERSION_MIN, LOG_VERSION_MAX + 1))
"""Every log version whose payloads are decoded."""

ROW_SCHEMA = pa.schema(
    [
        ("file_no", pa.uint32()),
        ("offset", pa.uint32()),
        ("lsn", pa.uint64()),
        ("type", _NAMES),
        ("version", pa.uint8()),
        ("header_size", pa.uint8()),
        ("item_size", pa.int32()),
        ("prev_offset", pa.uint32()),
        ("vlsn", pa.int64()),
        ("provisional", _NAMES),
        ("replicated", pa.bool_()),
        ("invisible", pa.bool_()),
        ("checksum", _NAMES),
        ("db_id", pa.int64()),
        ("db", pa.string()),
        ("txn_id", pa.int64()),
        ("key", pa.binary()),
        ("data_size", pa.int64()),
        ("data", pa.binary()),
    ]
)
"""Columns of every entry. An LSN that is NULL on disk has all bits set."""


@functools.cache
def entry_schema(versions: frozenset[int] = ALL_VERSIONS) -> pa.Schema:
    """Return ROW_SCHEMA, then a struct for each family of these log versions, then UNDECODABLE."""
    kinds = family_types(versions).items()
    structs = [pa.field(family.value, kind) for family, kind in kinds]
    return pa.schema([*ROW_SCHEMA, *structs, pa.field(UNDECODABLE, pa.string())])


@functools.cache
def family_types(versions: frozenset[int]) -> dict[Family, pa.StructType]:
    """Return the struct of each family: its fields in these log versions without ROW_FIELDS.

    A family has no struct if none of the versions has it, or if it has no fields of its own.
    """
    found: dict[Family, dict[str, pa.Field]] = {family: {} for family in Family}
    for version in sorted(versions, reverse=True):
        for entry_type in ENTRY_TYPES.values():
            if entry_type.first_version <= version <= entry_type.last_version:
                for declared in layout(entry_type.no, version):
                    _merge_field(found[entry_type.family], declared)
    return {
        family: pa.struct([field for name, field in fields.items() if name not in ROW_FIELDS])
        for family, fields in found.items()
        if fields.keys() - ROW_FIELDS
    }


def _merge_field(fields: dict[str, pa.Field], declared: Field) -> None:
    """Add a field; if it is a struct that already exists, add the missing fields to it."""
    name = "lsn" if declared.coding is Coding.COMPACT_LSN else declared.name
    new = pa.field(name, _arrow_type(declared))
    old = fields.get(name)
    if old is None:
        fields[name] = new
    elif pa.types.is_struct(old.type):
        fields[name] = pa.field(name, _merged(old.type, new.type))
    elif pa.types.is_list(old.type) and pa.types.is_struct(old.type.value_type):
        fields[name] = pa.field(name, pa.list_(_merged(old.type.value_type, new.type.value_type)))


def _merged(old: pa.StructType, new: pa.StructType) -> pa.StructType:
    known = {field.name for field in old}
    return pa.struct([*old, *(field for field in new if field.name not in known)])


def _arrow_type(declared: Field) -> pa.DataType:
    if declared.coding is Coding.GROUP:
        return pa.struct([pa.field(f.name, _arrow_type(f)) for f in declared.fields])
    if declared.coding is Coding.LIST:
        return pa.list_(_item_type(declared))
    if declared.coding is Coding.OFFSETS:
        return pa.list_(pa.int64())
    if declared.coding is Coding.TEXT:
        return pa.string()
    if declared.coding is Coding.COMPACT_LSN or t.is_lsn(declared.name):
        return pa.uint64()
    return _NUMBERS.get(declared.coding, pa.binary())


def _item_type(declared: Field) -> pa.DataType:
    if len(declared.fields) == 1:
        return _arrow_type(declared.fields[0])
    fields: dict[str, pa.Field] = {}
    for item in declared.fields:
        _merge_field(fields, item)
        if item.name == "key" and declared.name == "slots":
            # Data embedded in a slot gets a field of its own next to the key.
            fields["data"] = pa.field("data", pa.binary())
    return pa.struct(list(fields.values()))


def entry_batch(
    table: EntryTable,
    names: Mapping[int, str],
    masking: Masking,
    *,
    versions: frozenset[int] = ALL_VERSIONS,
    columns: Sequence[str] | None = None,
) -> pa.RecordBatch:
    """Return the entries of a table, in order, in the columns of `entry_schema(versions)`.

    If `columns` is given, only these columns are built, in its order.
    """
    schema = entry_schema(versions)
    chosen = schema.names if columns is None else columns
    makers = _row_makers(table, names, masking)
    parts = {part.family: part for part in table.parts}
    for family, kind in family_types(versions).items():
        if family in parts:
            makers[family] = partial(_part_array, table, parts[family], kind, masking)
        else:
            makers[family] = partial(_single_array, table, family, kind, masking)
    makers[UNDECODABLE] = partial(_problems, table)
    fields = pa.schema([schema.field(name) for name in chosen])
    return pa.RecordBatch.from_arrays([makers[name]() for name in chosen], schema=fields)


def _nulls(n: int, kind: pa.DataType) -> pa.Array:
    """Return n nulls: a slice of one array, since most columns of most batches are null."""
    return _most_nulls(kind).slice(0, n) if n <= MAX_ROWS else pa.nulls(n, kind)


@functools.lru_cache(maxsize=512)
def _most_nulls(kind: pa.DataType) -> pa.Array:
    return pa.nulls(MAX_ROWS, kind)


def _row_makers(
    table: EntryTable, names: Mapping[int, str], masking: Masking
) -> dict[str, Callable[[], pa.Array]]:
    """Return a function for each common column that builds it."""
    rows = table.rows
    n = len(rows)

    def db_names() -> pa.Array:
        texts = {id_: t.clean_text(name) for id_, name in dict(names).items()}
        return t.id_texts(table.db_id, table.has_db, texts)

    return {
        "file_no": lambda: t.number_array(np.full(n, rows.file_no, np.uint32)),
        "offset": lambda: t.number_array(rows.offset),
        "lsn": lambda: t.number_array(rows.lsn.view(np.uint64)),
        "type": lambda: _chosen(rows.type, _TYPE_TEXTS),
        "version": lambda: t.number_array(np.full(n, rows.version, np.uint8)),
        "header_size": lambda: t.number_array(rows.header_size),
        "item_size": lambda: t.number_array(rows.item_size),
        "prev_offset": lambda: t.number_array(rows.prev_offset),
        "vlsn": lambda: t.number_array(rows.vlsn, rows.has_vlsn),
        "provisional": lambda: _chosen(rows.provisional, _PROVISIONAL_TEXTS),
        "replicated": lambda: t.bool_array(rows.replicated),
        "invisible": lambda: t.bool_array(rows.invisible),
        "checksum": lambda: _chosen(rows.checksum, _CHECKSUM_TEXTS),
        "db_id": lambda: t.number_array(table.db_id, table.has_db),
        "db": db_names,
        "txn_id": lambda: t.number_array(table.txn_id, table.has_txn),
        "key": lambda: t.data_bytes(rows.data, table.key_start, table.key_size, masking),
        "data_size": lambda: t.number_array(table.data_size, table.data_size >= 0),
        "data": lambda: t.data_bytes(rows.data, table.data_start, table.data_size, masking),
    }


def _chosen(codes: npt.NDArray[np.uint8], texts: pa.StringArray) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(t.number_array(codes.astype(np.int32)), texts)


def _scattered(array: pa.Array, index: Ints, n: int) -> pa.Array:
    """Return an array of n rows with the elements of `array` at rows `index`, null elsewhere."""
    places = np.zeros(n, np.int32)
    places[index] = np.arange(len(index))
    taken = np.zeros(n, np.bool_)
    taken[index] = True
    return array.take(t.number_array(places, taken))


class _Placement(Struct, frozen=True):
    """Places of a family's rows among the `n` rows of a table: `index`, or None for all."""

    n: int
    index: Ints | None = None

    def spread(self, values: npt.NDArray[Any], elsewhere: int = 0) -> npt.NDArray[Any]:
        """Return an array with the values at their rows and `elsewhere` at the others."""
        if self.index is None:
            return values
        spread = np.full(self.n, elsewhere, values.dtype)
        spread[self.index] = values
        return spread


def _part_array(
    table: EntryTable, part: FamilyPart, kind: pa.StructType, masking: Masking
) -> pa.StructArray:
    whole = len(part.index) == len(table)
    place = _Placement(len(table), None if whole else part.index)
    decoded = part.decoded
    given = {}
    if decoded.slots is not None:
        item = kind.field("slots").type.value_type
        items = _slot_struct(part.family, decoded.slots, item, masking)
        counts = place.spread(np.diff(decoded.slot_first))
        ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts))).astype(np.int32)
        given["slots"] = pa.ListArray.from_arrays(t.number_array(ends), items)
    children = _children(decoded.fields, kind, given, place, masking)
    is_null = None if whole else ~place.spread(np.ones(len(part.index), np.bool_))
    mask = None if is_null is None else t.bool_array(is_null)
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)


def _slot_struct(
    family: Family, slots: Columns, kind: pa.StructType, masking: Masking
) -> pa.StructArray:
    given = {}
    if family is Family.NODE:
        key_start, key_size, data_start, data_size = split_embedded(slots)
        given = {
            "key": t.data_bytes(slots.data, key_start, key_size, masking),
            "data": t.data_bytes(slots.data, data_start, data_size, masking),
        }
    place = _Placement(len(slots.present))
    children = _children(slots, kind, given, place, masking)
    return pa.StructArray.from_arrays(children, fields=list(kind))


def _children(
    columns: Columns,
    kind: pa.StructType,
    given: Mapping[str, pa.Array],
    place: _Placement,
    masking: Masking,
) -> list[pa.Array]:
    """Return the fields of a struct: given, decoded, or null if this log version has none."""
    arrays = []
    for field in kind:
        if field.name in given:
            arrays.append(given[field.name])
        elif columns.has(field.name) and not columns.is_empty(field.name):
            arrays.append(_column_array(columns, field, place, masking))
        else:
            arrays.append(_nulls(place.n, field.type))
    return arrays


def _column_array(
    columns: Columns, field: pa.Field, place: _Placement, masking: Masking
) -> pa.Array:
    if columns.is_bytes(field.name):
        starts, sizes = columns.span(field.name)
        shown = masking if field.name in KEY_FIELDS else Masking()
        return t.data_bytes(columns.data, place.spread(starts), place.spread(sizes, -1), shown)
    numbers = place.spread(_as_type(columns.number(field.name), field.type.to_pandas_dtype()))
    # In rows in which the struct is null, its fields may hold anything.
    if columns.is_complete(field.name):
        return t.number_array(numbers)
    return t.number_array(numbers, place.spread(columns.is_present(field.name)))


def _as_type(numbers: Ints, kind: Any) -> npt.NDArray[Any]:
    """Return the numbers as another type, without a copy if the width is the same."""
    kind = np.dtype(kind)
    return numbers.view(kind) if kind.itemsize == numbers.itemsize else numbers.astype(kind)


def _single_array(
    table: EntryTable, family: Family, kind: pa.StructType, masking: Masking
) -> pa.Array:
    """Return the structs of entries that were decoded one by one."""
    of_family = {
        row: single
        for row, single in table.singles.items()
        if single.problem is None and _family_of(int(table.rows.type[row])) is family
    }
    if not of_family:
        return _nulls(len(table), kind)
    values = [_single_value(single, kind, masking) for single in of_family.values()]
    index = np.fromiter(of_family, np.int64, len(of_family))
    return _scattered(pa.array(values, kind), index, len(table))


def _family_of(type_no: int) -> Family | None:
    known = ENTRY_TYPES.get(type_no)
    return known.family if known else None


def _single_value(single: Single, kind: pa.StructType, masking: Masking) -> Any:
    names = {field.name for field in kind}
    return {k: _value(k, v, masking) for k, v in single.fields.items() if k in names}


def _value(name: str, value: Any, masking: Masking) -> Any:
    if isinstance(value, int):
        return value & _UNSIGNED if t.is_lsn(name) else value
    if isinstance(value, dict):
        return {k: _value(k, v, masking) for k, v in value.items()}
    if isinstance(value, list):
        # Obsolete offsets come by the thousand, and need no conversion.
        numbers = not value or isinstance(value[0], int)
        return value if numbers else [_value(name, item, masking) for item in value]
    if isinstance(value, bytes):
        return _masked(value, masking) if name in KEY_FIELDS else value
    return t.clean_text(value) if isinstance(value, str) else value


def _masked(value: bytes, masking: Masking) -> bytes | None:
    if masking.mode is DataMode.SHOW:
        return value
    text = masking.text_of(value)
    return None if text is None else text.encode()


def _problems(table: EntryTable) -> pa.StringArray:
    found = {row: _problem(table, row) for row in table.singles}
    found = {row: problem for row, problem in found.items() if problem}
    if not found:
        return _nulls(len(table), pa.string())
    index = np.fromiter(found, np.int64, len(found))
    return _scattered(pa.array(list(found.values()), pa.string()), index, len(table))


def _problem(table: EntryTable, row: int) -> str | None:
    problem = table.singles[row].problem
    known = ENTRY_TYPES.get(int(table.rows.type[row]))
    version = table.rows.version
    if problem or known is None or known.first_version <= version <= known.last_version:
        return problem
    return f"log version {version} has no type {known.name}"
