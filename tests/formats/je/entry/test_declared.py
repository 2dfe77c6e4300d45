"""Random values of the declared fields of every type: encoded, decoded, and read as columns."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from je_tools.formats.je.entry.columns import COLUMN_FAMILIES, decode
from je_tools.formats.je.entry.entries import Entry, decode_entry, encode_entry, holds
from je_tools.formats.je.header import Header, entry_checksum
from je_tools.formats.je.layout import COMPACT_NULL_OFFSET, Coding, Field, layout
from je_tools.formats.je.log.entry_rows import Rows
from je_tools.formats.je.log.walk import COLUMN_NAMES, ROW_DTYPE
from je_tools.formats.je.types import ENTRY_TYPES, ERASED_NO, LOG_VERSION_MAX
from tests.damage.judge import row_of

Draw = Any
Values = dict[str, Any]

EXAMPLES = 25
LONGEST_LIST = 3

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
NEAR_ONE = st.integers(-200, 200)
BYTES = st.binary(max_size=200)
CODED: dict[Coding, st.SearchStrategy[Any]] = {
    Coding.U8: st.sampled_from([0, 1, 2, 4, 8, 16, 32, 64, 128, 255]) | st.integers(0, 255),
    Coding.I32: st.integers(-(1 << 31), (1 << 31) - 1),
    Coding.U32: st.integers(0, (1 << 32) - 1),
    Coding.I64: INT64,
    Coding.PACKED: NEAR_ONE | INT64,
    Coding.BYTES: st.none() | BYTES,
    Coding.TEXT: st.none() | BYTES.map(lambda data: data.decode("utf-8", "surrogateescape")),
    Coding.REST: BYTES,
    Coding.BYTES_I8: st.none() | st.binary(max_size=127),
    Coding.BYTES_I32: BYTES,
    Coding.COMPACT_LSN: st.tuples(
        st.integers(-128, 127), st.just(COMPACT_NULL_OFFSET) | st.integers(0, (1 << 24) - 1)
    ).map(list),
    Coding.OFFSETS: st.lists(st.integers(0, 200_000) | st.integers(0, 1 << 40)).map(sorted),
}
"""Strategy for the values of each coding."""


@st.composite
def values(draw: Draw, fields: Sequence[Field], outer: Sequence[Values] = ()) -> Values:
    """Draw values of declared fields, leaving out fields whose conditions do not hold."""
    counts = {field.count for field in fields if field.coding is Coding.LIST}
    made: Values = {}
    scopes: list[Mapping[str, Any]] = [*outer, made]
    for field in fields:
        if not all(holds(test, scopes) for test in field.when):
            continue
        if field.coding is Coding.GROUP:
            made[field.name] = draw(values(field.fields, scopes))
        elif field.coding is Coding.LIST:
            items = [draw(values(field.fields, scopes)) for _ in range(made[field.count])]
            alone = len(field.fields) == 1
            made[field.name] = [next(iter(item.values())) if alone else item for item in items]
        elif field.name in counts:
            made[field.name] = draw(st.integers(0, LONGEST_LIST))
        else:
            made[field.name] = draw(CODED[field.coding])
    return made


@st.composite
def entries(draw: Draw, type_no: int) -> Entry:
    """Draw an entry of a type, in any log version that has the type."""
    known = ENTRY_TYPES[type_no]
    version = draw(st.integers(known.first_version, min(known.last_version, LOG_VERSION_MAX)))
    fields = draw(values(layout(type_no, version)))
    vlsn = draw(st.none() | INT64) if version >= 6 and type_no != 25 else None
    flags = draw(st.sampled_from([0, 0x10, 0x40, 0x80])) | (0x20 if vlsn is not None else 0)
    prev = draw(st.integers(0, (1 << 32) - 1))
    return Entry(Header(7, type_no, flags, prev, 0, vlsn), version, fields)


@pytest.mark.parametrize("type_no", sorted(ENTRY_TYPES), ids=lambda no: ENTRY_TYPES[no].name)
def test_any_values_encode_and_decode(type_no: int) -> None:
    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
    @given(entries(type_no))
    def round_trip(entry: Entry) -> None:
        data = encode_entry(entry)
        decoded = decode_entry(data, entry.version)
        assert decoded.fields == entry.fields
        assert encode_entry(decoded) == data
        header = decoded.header
        assert header.size + header.item_size == len(data)
        expected = 7 if type_no == ERASED_NO else entry_checksum(data, entry.version)
        assert header.checksum == expected
        assert (header.flags, header.prev_offset, header.vlsn) == (
            entry.header.flags,
            entry.header.prev_offset,
            entry.header.vlsn,
        )
        if ENTRY_TYPES[type_no].family in COLUMN_FAMILIES:
            compare_columns(data, decoded)

    round_trip()


def compare_columns(data: bytes, entry: Entry) -> None:
    """Assert that columns decode the entry to the same fields."""
    decoded = decode(rows_of(data, entry), ENTRY_TYPES[entry.header.type_no].family)
    fields = dict(entry.fields)
    slots = fields.pop("slots", [])
    assert decoded.bad.tolist() == [False]
    assert row_of(decoded.fields, 0) == fields
    assert decoded.slot_first.tolist() == [0, len(slots)]
    for i, slot in enumerate(slots):
        assert decoded.slots is not None
        assert row_of(decoded.slots, i) == with_lsn(slot, fields.get("base_file_no", 0))


def with_lsn(slot: Values, base: int) -> Values:
    """Return a slot with its compact LSN as columns hold it: a signed 64-bit number."""
    if "compact_lsn" not in slot:
        return slot
    step, offset = slot["compact_lsn"]
    lsn = -1
    if offset != COMPACT_NULL_OFFSET:
        lsn = struct.unpack("<q", struct.pack("<Q", (base + step << 32 | offset) % (1 << 64)))[0]
    return {name: value for name, value in slot.items() if name != "compact_lsn"} | {"lsn": lsn}


def rows_of(data: bytes, entry: Entry) -> Rows:
    """Return one entry as the rows of a file that holds nothing else."""
    header = entry.header
    told = {"type": header.type_no, "header_size": header.size, "item_size": header.item_size}
    columns = {name: np.array([told.get(name, 0)], ROW_DTYPE[name]) for name in COLUMN_NAMES}
    return Rows(0, entry.version, np.frombuffer(data, np.uint8), 0, **columns)
