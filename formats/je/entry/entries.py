"""Single entries: bytes to typed fields and back.

This module is for one entry, or a few; `columns` decodes whole logs from the same declaration
(`layout`). Every byte is accounted for: bytes that cannot be decoded raise `EntryError`, and a
decoded entry encodes back to the same bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from je_tools.formats.je.header import EntryError, Header, read_header, with_header
from je_tools.formats.je.layout import Coding, Field, Op, Test, layout
from je_tools.formats.je.types import type_name
from je_tools.formats.packed import (
    SINGLE_BYTE_MAX,
    encode_packed,
    load_i32,
    load_i64,
    load_u32,
    read_packed,
)

# Looking up a member of an enum takes longer than a comparison.
_GROUP, _LIST = Coding.GROUP, Coding.LIST
_SET, _CLEAR, _NOT, _ONE_OF = Op.SET, Op.CLEAR, Op.NOT, Op.ONE_OF

Value = Any
"""int, bytes, str, None, a list of ints, or a dict or a list of dicts of these."""


class Span(Struct, frozen=True):
    """Location of one field: its path (`slots[2].key`) and half-open byte range in the entry."""

    path: str
    start: int
    stop: int
    value: Value


class Entry(Struct, frozen=True):
    """One decoded entry of a file of log version `version`."""

    header: Header
    version: int
    fields: Mapping[str, Value]
    spans: Sequence[Span] = ()

    @property
    def type_name(self) -> str:
        """The engine's name of the entry type."""
        return type_name(self.header.type_no)


def decode_entry(data: bytes | memoryview, version: int, *, spans: bool = False) -> Entry:
    """Decode the entry at the start of `data`; bytes after it are ignored.

    Args:
        data: the entry, header included.
        version: log version of the file that holds it.
        spans: also record the location of each field, for a labelled dump.

    Raises:
        EntryError: the item does not fit, ends inside a field, or leaves bytes over. The checksum
            is not verified.
    """
    header = read_header(data, version)
    stop = header.size + header.item_size
    if header.item_size < 0 or stop > len(data):
        raise EntryError(f"item of {header.item_size} bytes does not fit", 10)
    reader = _Reader(memoryview(data)[:stop], header.size, spans)
    fields = reader.read_fields(layout(header.type_no, version), [], "")
    if reader.at != stop:
        raise EntryError(f"{stop - reader.at} bytes are left over", reader.at)
    return Entry(header, version, fields, tuple(reader.spans))


def decode_spans(data: bytes | memoryview, version: int) -> tuple[list[Span], EntryError | None]:
    """Return the fields of an entry's item, as far as it decodes, and the error that stopped it.

    For damaged entries: an item that extends past `data` is read up to the end of `data`.

    Raises:
        EntryError: the header is cut short.
    """
    header = read_header(data, version)
    view = memoryview(data)[: header.size + max(header.item_size, 0)]
    reader = _Reader(view, header.size, True)
    try:
        reader.read_fields(layout(header.type_no, version), [], "")
        if reader.at != len(view):
            raise EntryError(f"{len(view) - reader.at} bytes are left over", reader.at)
    except EntryError as error:
        return reader.spans, error
    return reader.spans, None


def encode_entry(entry: Entry) -> bytes:
    """Encode `entry`, with item size and checksum as the engine would write them.

    An erased entry keeps its checksum: the engine does not compute one.
    """
    item = encode_item(entry.header.type_no, entry.version, entry.fields)
    return with_header(entry.header, entry.version, item)


def encode_item(type_no: int, version: int, fields: Mapping[str, Value]) -> bytes:
    """Encode the item of an entry: the bytes after the header."""
    item = bytearray()
    _write_fields(item, layout(type_no, version), fields, [])
    return bytes(item)


def holds(test: Test, scopes: Sequence[Mapping[str, Value]]) -> bool:
    """Return True if a condition holds; look up its field from the innermost scope outwards.

    Every test of an absent field fails (for example the expiration base before v12).
    """
    for scope in reversed(scopes):
        if test.field in scope:
            value = scope[test.field]
            break
    else:
        return False
    if test.op is _SET:
        return bool(value & test.operand)
    if test.op is _CLEAR:
        return not value & test.operand
    if test.op is _NOT:
        return bool(value != test.operand)
    if test.op is _ONE_OF:
        return bool(test.operand >> value & 1)
    return value is not None


class _Reader:
    """Reader of the declared fields of one entry, from left to right."""

    def __init__(self, data: memoryview, at: int, with_spans: bool) -> None:
        self.data = data
        self.at = at
        self.with_spans = with_spans
        self.spans: list[Span] = []

    def read_fields(
        self, fields: Sequence[Field], outer: list[Mapping[str, Value]], path: str
    ) -> dict[str, Value]:
        values: dict[str, Value] = {}
        scopes = [*outer, values]
        for declared in fields:
            if not declared.when or all(holds(test, scopes) for test in declared.when):
                values[declared.name] = self.read_field(declared, scopes, path + declared.name)
        return values

    def read_field(self, declared: Field, scopes: list[Mapping[str, Value]], path: str) -> Value:
        coding = declared.coding
        if coding is _GROUP:
            return self.read_fields(declared.fields, scopes, path + ".")
        if coding is _LIST:
            return self.read_list(declared, scopes, path)
        start = self.at
        value = _READ[coding](self)
        if self.with_spans:
            self.spans.append(Span(path, start, self.at, value))
        return value

    def read_list(
        self, declared: Field, scopes: list[Mapping[str, Value]], path: str
    ) -> list[Value]:
        count = scopes[-1][declared.count]
        if not 0 <= count <= declared.most:
            raise EntryError(f"{count} items of {declared.name} declared", self.at)
        items = []
        # Every item takes at least one byte, so a wild count stops at the end of the entry.
        for i in range(count):
            item = self.read_fields(declared.fields, scopes, f"{path}[{i}].")
            items.append(item if len(declared.fields) > 1 else item[declared.fields[0].name])
        return items

    def take(self, size: int) -> memoryview:
        if size < 0 or self.at + size > len(self.data):
            raise EntryError(f"field of {size} bytes does not fit", self.at)
        self.at += size
        return self.data[self.at - size : self.at]

    def packed(self) -> int:
        if self.at < len(self.data):
            # Most numbers take one byte, which is the number.
            byte = self.data[self.at]
            if not SINGLE_BYTE_MAX < byte < 256 - SINGLE_BYTE_MAX:
                self.at += 1
                return byte if byte <= SINGLE_BYTE_MAX else byte - 256
        value, after = read_packed(self.data, self.at, len(self.data))
        if after < 0:
            raise EntryError("not a packed number", self.at)
        self.at = after
        return value

    def sized(self, size: int) -> bytes | None:
        return None if size == -1 else bytes(self.take(size))

    def text(self) -> str | None:
        data = self.sized(self.packed())
        return None if data is None else data.decode("utf-8", "surrogateescape")

    def compact_lsn(self) -> list[int]:
        word = load_u32(self.take(4), 0)
        difference = word & 0xFF
        return [difference - 256 if difference > 127 else difference, word >> 8]

    def offsets(self) -> list[int]:
        count, short_count = self.packed(), self.packed()
        values = _offsets_of_shorts(self.take(2 * short_count))
        if len(values) != count:
            raise EntryError(f"{count} offsets declared, {len(values)} found", self.at)
        return values


_READ: dict[Coding, Callable[[_Reader], Value]] = {
    Coding.U8: lambda r: r.take(1)[0],
    Coding.I32: lambda r: load_i32(r.take(4), 0),
    Coding.U32: lambda r: load_u32(r.take(4), 0),
    Coding.I64: lambda r: load_i64(r.take(8), 0),
    Coding.PACKED: _Reader.packed,
    Coding.BYTES: lambda r: r.sized(r.packed()),
    Coding.TEXT: _Reader.text,
    Coding.REST: lambda r: bytes(r.take(len(r.data) - r.at)),
    Coding.BYTES_I8: lambda r: r.sized(struct.unpack("b", r.take(1))[0]),
    Coding.BYTES_I32: lambda r: bytes(r.take(load_i32(r.take(4), 0))),
    Coding.COMPACT_LSN: _Reader.compact_lsn,
    Coding.OFFSETS: _Reader.offsets,
}


def _offsets_of_shorts(shorts: memoryview) -> list[int]:
    """Decode ascending offsets from 15-bit groups of their differences, low group first.

    A group that is followed by another is stored as -1 - group. Source: PackedOffsets, JE 7.5.11.
    """
    stored = np.frombuffer(shorts, "<i2").astype(np.int64)
    if not len(stored):
        return []
    ends = np.flatnonzero(stored >= 0)
    starts = np.concatenate((np.zeros(1, np.int64), ends[:-1] + 1))
    if not len(ends) or ends[-1] != len(stored) - 1 or int((ends - starts).max()) > 3:
        raise EntryError("offsets end inside a difference", len(stored))
    place = np.arange(len(stored)) - np.repeat(starts, ends - starts + 1)
    groups = np.where(stored >= 0, stored, -1 - stored) << (15 * place)
    offsets: list[int] = np.cumsum(np.add.reduceat(groups, starts)).tolist()
    return offsets


def _shorts_of_offsets(offsets: Sequence[int]) -> list[int]:
    shorts: list[int] = []
    previous = 0
    for offset in offsets:
        difference = offset - previous
        previous = offset
        while difference > 0x7FFF:
            shorts.append(-1 - (difference & 0x7FFF))
            difference >>= 15
        shorts.append(difference)
    return shorts


def _write_fields(
    out: bytearray,
    fields: Sequence[Field],
    values: Mapping[str, Value],
    outer: list[Mapping[str, Value]],
) -> None:
    scopes = [*outer, values]
    for declared in fields:
        if all(holds(test, scopes) for test in declared.when):
            _write_field(out, declared, values[declared.name], scopes)


def _write_field(
    out: bytearray, declared: Field, value: Value, scopes: list[Mapping[str, Value]]
) -> None:
    if declared.coding is Coding.GROUP:
        _write_fields(out, declared.fields, value, scopes)
    elif declared.coding is Coding.LIST:
        if len(value) != scopes[-1][declared.count]:
            raise ValueError(f"{declared.name}: {len(value)} items, {declared.count} differs")
        for item in value:
            fields = item if len(declared.fields) > 1 else {declared.fields[0].name: item}
            _write_fields(out, declared.fields, fields, scopes)
    else:
        out += _WRITE[declared.coding](value)


def _sized(value: bytes | None) -> bytes:
    return encode_packed(-1) if value is None else encode_packed(len(value)) + value


def _sized_i8(value: bytes | None) -> bytes:
    return b"\xff" if value is None else struct.pack("b", len(value)) + value


def _packed_offsets(offsets: Sequence[int]) -> bytes:
    shorts = _shorts_of_offsets(offsets)
    counts = encode_packed(len(offsets)) + encode_packed(len(shorts))
    return counts + struct.pack(f"<{len(shorts)}h", *shorts)


_WRITE: dict[Coding, Callable[[Any], bytes]] = {
    Coding.U8: lambda value: bytes([value]),
    Coding.I32: lambda value: struct.pack("<i", value),
    Coding.U32: lambda value: struct.pack("<I", value),
    Coding.I64: lambda value: struct.pack("<q", value),
    Coding.PACKED: encode_packed,
    Coding.BYTES: _sized,
    Coding.TEXT: lambda value: _sized(
        None if value is None else value.encode("utf-8", "surrogateescape")
    ),
    Coding.REST: bytes,
    Coding.BYTES_I8: _sized_i8,
    Coding.BYTES_I32: lambda value: struct.pack("<i", len(value)) + value,
    Coding.COMPACT_LSN: lambda value: struct.pack("<I", value[0] & 0xFF | value[1] << 8),
    Coding.OFFSETS: _packed_offsets,
}
