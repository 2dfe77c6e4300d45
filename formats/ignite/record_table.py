"""Records of a log as rows: one for each entry of a data record, one for each other record."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from je_tools.formats import _native
from je_tools.formats.ignite.records import Payloads, field_columns
from je_tools.formats.ignite.types import (
    DATA_NOS,
    RECORD_TYPES,
    TYPE_COUNT,
    RecordField,
    RecordType,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.ignite.walk import RecordRows

IS_DATA = np.isin(np.arange(TYPE_COUNT), list(DATA_NOS))
"""Mask of the types whose records are lists of entries."""

PARTITION_STATE = 256
"""Added to the state of a partition, to tell it from the state of a transaction."""


class NumberColumn(IntEnum):
    """Column of numbers of a `RecordTable`."""

    TIME_MS = 0
    GROUP_ID = 1
    PAGE_ID = 2
    CACHE_ID = 3
    PARTITION = 4
    ENTRY = 5
    """Place in the data record."""
    OP = 6
    STATE = 7
    COUNTER = 8
    EXPIRE_MS = 9
    FLAGS = 10
    KEY_TYPE = 11
    VALUE_TYPE = 12
    NEAR_TOPOLOGY = 13
    NEAR_NODE = 14
    NEAR_ORDER = 15
    VERSION_TOPOLOGY = 16
    VERSION_NODE = 17
    VERSION_ORDER = 18


NUMBER_NAMES = tuple(column.name.lower() for column in NumberColumn)
"""Names of the columns of numbers."""


class FieldUse(IntEnum):
    """Use of a field of a record."""

    OWN = 0
    """A column of its type, which the table does not have."""
    NUMBER = 1
    PARTITION_STATE = 2
    """A number to which PARTITION_STATE is added."""
    PAGE = 3
    """A page id, which is also the partition."""
    VERSION = 4
    """The first of three columns."""
    KEY = 5
    VALUE = 6
    CIPHER = 7
    """A value of which only cipher text is known."""


_NUMBERS = {
    "time_ms": NumberColumn.TIME_MS,
    "group_id": NumberColumn.GROUP_ID,
    "partition": NumberColumn.PARTITION,
    "update_counter": NumberColumn.COUNTER,
}
_USES = {
    **{name: (FieldUse.NUMBER, column) for name, column in _NUMBERS.items()},
    "page_id": (FieldUse.PAGE, NumberColumn.PAGE_ID),
    "near": (FieldUse.VERSION, NumberColumn.NEAR_TOPOLOGY),
    "write": (FieldUse.VERSION, NumberColumn.VERSION_TOPOLOGY),
    "key": (FieldUse.KEY, 0),
    **dict.fromkeys(("value", "row", "fragment", "page", "body"), (FieldUse.VALUE, 0)),
    "cipher": (FieldUse.CIPHER, 0),
}
"""Use of the fields that are columns of the table, by name, and the first of their columns."""


def _use(kind: RecordType, field: RecordField) -> tuple[FieldUse, int]:
    if field.name == "state":
        of_group = any(each.name == "group_id" for each in kind.fields)
        use = FieldUse.PARTITION_STATE if of_group else FieldUse.NUMBER
        return use, NumberColumn.STATE
    return _USES.get(field.name, (FieldUse.OWN, 0))


OWN_FIELDS = {
    no: tuple(field for field in kind.fields if _use(kind, field)[0] is FieldUse.OWN)
    for no, kind in RECORD_TYPES.items()
    if no not in DATA_NOS
}
"""Fields of each type that are no columns of the table."""


class RecordLayout(Struct, frozen=True):
    """Fields of a type: coding, use, and column of the table of each; see `RecordDecoder`."""

    codings: bytes
    uses: bytes
    columns: list[int]
    is_data: bool


def _layout(no: int) -> RecordLayout:
    kind = RECORD_TYPES[no]
    if no in DATA_NOS:
        return RecordLayout(b"", b"", [], is_data=True)
    uses = [_use(kind, field) for field in kind.fields]
    return RecordLayout(
        codings=bytes(field.coding for field in kind.fields),
        uses=bytes(use for use, _ in uses),
        columns=[column for _, column in uses],
        is_data=False,
    )


_DECODER = _native.RecordDecoder([_layout(no) for no in range(TYPE_COUNT)])


class Numbers(Struct, frozen=True):
    """A column: int64 (n,), and a mask of the rows that have it."""

    values: Ints
    valid: Mask

    def select(self, keep: npt.NDArray[np.generic]) -> Numbers:
        """Select rows by a mask or by an index array."""
        return Numbers(self.values[keep], self.valid[keep])


class ByteSpans(Struct, frozen=True):
    """A column of bytes: spans of the rows' data, of size -1 for none."""

    starts: Ints
    sizes: Ints

    def first(self, most: int) -> ByteSpans:
        """Return at most the first `most` bytes of each."""
        return ByteSpans(self.starts, np.minimum(self.sizes, most))

    def select(self, keep: npt.NDArray[np.generic]) -> ByteSpans:
        """Select rows by a mask or by an index array."""
        return ByteSpans(self.starts[keep], self.sizes[keep])


class TypeFields(Struct, frozen=True):
    """Fields of the records of one type that are no columns of the table.

    Attributes:
        type_no: the type.
        at: int64 (n,), ascending; the records, without those that do not decode.
        columns: int64 (n,) by name, as in `DecodedRecords`.
    """

    type_no: int
    at: Ints
    columns: dict[str, Ints]


class RecordTable(Struct, frozen=True):
    """Rows of records of one window.

    Attributes:
        rows: the records.
        index: record of each row.
        columns: columns of numbers by name, those of NUMBER_NAMES.
        key, value: bytes of the key; of the value, page, row or cipher text, or the whole payload
            of a record that does not decode.
        fields: the other fields, of each type that has some.
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


def record_tables(rows: RecordRows) -> Iterator[RecordTable]:
    """Yield the rows of records; one table unless there are more than ENTRIES_MAX entries."""
    payloads, types, start = Payloads.of(rows), rows.columns.type_no, None
    while True:
        index, values, valid, key, value, is_encrypted, bad, own, start = _DECODER.rows(
            payloads, types, start
        )
        columns = map(Numbers, values, valid)
        yield RecordTable(
            rows=rows,
            index=index,
            columns=dict(zip(NUMBER_NAMES, columns, strict=True)),
            key=ByteSpans(*key),
            value=ByteSpans(*value),
            fields=[_type_fields(*each) for each in own],
            is_encrypted=is_encrypted,
            bad=bad,
        )
        if start is None:
            return


def _type_fields(type_no: int, at: Ints, columns: npt.NDArray[np.int64]) -> TypeFields:
    names = field_columns(OWN_FIELDS[type_no])
    return TypeFields(type_no, at, dict(zip(names, columns, strict=True)))
