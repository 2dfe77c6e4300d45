"""Tuples: the big-endian codings of the engine's bind API in keys and internal records.

`TupleReader` decodes values from left to right, `TupleWriter` encodes them. Keys that are one value
have functions of their own.

| value | coding |
|---|---|
| byte, int, long | big endian, the sign bit flipped, so that byte order is number order |
| unsigned int | four bytes, big endian |
| boolean | one byte, 0 or 1 |
| packed int, packed long | the log's own packed number |
| sorted packed | length in the first byte, then big endian: byte order is number order |
| string | Java's modified UTF-8, then a zero byte; null is FF 00 |

Source: je-log.md "Codings"; TupleOutput, LongBinding, StringBinding, UtfOps,
PackedInteger.writeSortedLong, JE 7.5.11.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import TypeVar

from je_tools.formats.packed import encode_packed, read_packed

T = TypeVar("T")

_SORTED_ZERO = 127

_SORTED_NEGATIVE_BELOW, _SORTED_POSITIVE_ABOVE = 0x08, 0xF7

_SORTED_MIN, _SORTED_MAX = -119, 120

_NULL_STRING = b"\xff\0"

_LONG_MIN, _LONG_MAX = -(1 << 63), (1 << 63) - 1


class TupleError(ValueError):
    """Bytes that are not the expected value, with the reason and the offset."""

    def __init__(self, reason: str, at: int) -> None:
        super().__init__(f"{reason} at byte {at}")
        self.at = at


class TupleReader:
    """Reader of values in `data`; every method raises TupleError if the bytes do not fit."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    @property
    def left(self) -> int:
        """Number of bytes that have not been read."""
        return len(self.data) - self.at

    def take(self, size: int) -> bytes:
        """Read the next `size` bytes."""
        if not 0 <= size <= self.left:
            raise TupleError(f"{size} bytes wanted, {self.left} are left", self.at)
        self.at += size
        return self.data[self.at - size : self.at]

    def byte(self) -> int:
        """Read a value of writeByte: -128 to 127."""
        return self.take(1)[0] - 0x80

    def boolean(self) -> bool:
        """Read a value of writeBoolean."""
        return self.take(1)[0] != 0

    def i32(self) -> int:
        """Read a value of writeInt: 32 bits, signed."""
        return int.from_bytes(self.take(4)) - (1 << 31)

    def i64(self) -> int:
        """Read a value of writeLong: 64 bits, signed."""
        return int.from_bytes(self.take(8)) - (1 << 63)

    def u32(self) -> int:
        """Read a value of writeUnsignedInt: 32 bits."""
        return int.from_bytes(self.take(4))

    def packed(self) -> int:
        """Read a value of writePackedInt or writePackedLong."""
        value, after = read_packed(self.data, self.at, len(self.data))
        if after < 0:
            raise TupleError("not a packed number", self.at)
        self.at = after
        return value

    def sorted_packed(self) -> int:
        """Read a value of writeSortedPackedInt or writeSortedPackedLong."""
        start = self.at
        first = self.take(1)[0]
        if first < _SORTED_NEGATIVE_BELOW:
            size = _SORTED_NEGATIVE_BELOW - first
            value = int.from_bytes(self.take(size)) - (1 << 8 * size) + _SORTED_MIN
        elif first > _SORTED_POSITIVE_ABOVE:
            size = first - _SORTED_POSITIVE_ABOVE
            value = int.from_bytes(self.take(size)) + _SORTED_MAX + 1
        else:
            return first - _SORTED_ZERO
        if not _LONG_MIN <= value <= _LONG_MAX:
            raise TupleError("a number beyond 64 bits", start)
        return value

    def string(self) -> str | None:
        """Read a value of writeString; None for null. Half a surrogate pair stays as it is."""
        if self.data.startswith(_NULL_STRING, self.at):
            self.at += len(_NULL_STRING)
            return None
        stop = self.data.find(0, self.at)
        if stop < 0:
            raise TupleError("a string without its closing zero byte", self.at)
        start = self.at
        self.at = stop + 1
        return _from_modified_utf8(self.data[start:stop], start)


class TupleWriter:
    """Writer that appends values to `data`; every method returns the writer."""

    def __init__(self) -> None:
        self.data = bytearray()

    def raw(self, data: bytes) -> TupleWriter:
        """Append bytes as they are."""
        self.data += data
        return self

    def byte(self, value: int) -> TupleWriter:
        """Append a value as writeByte does: -128 to 127."""
        return self.raw(bytes([value + 0x80]))

    def boolean(self, value: bool) -> TupleWriter:
        """Append a value as writeBoolean does."""
        return self.raw(bytes([value]))

    def i32(self, value: int) -> TupleWriter:
        """Append a value as writeInt does: 32 bits, signed."""
        return self.raw(int_key(value))

    def i64(self, value: int) -> TupleWriter:
        """Append a value as writeLong does: 64 bits, signed."""
        return self.raw(long_key(value))

    def u32(self, value: int) -> TupleWriter:
        """Append a value as writeUnsignedInt does: 32 bits."""
        return self.raw(struct.pack(">I", value))

    def packed(self, value: int) -> TupleWriter:
        """Append a value as writePackedInt and writePackedLong do."""
        return self.raw(encode_packed(value))

    def sorted_packed(self, value: int) -> TupleWriter:
        """Append a value as writeSortedPackedInt and writeSortedPackedLong do."""
        return self.raw(sorted_packed_key(value))

    def string(self, value: str | None) -> TupleWriter:
        """Append a value as writeString does; None is null."""
        return self.raw(string_key(value))


def int_key(value: int) -> bytes:
    """Return the key of an IntegerBinding: 4 bytes."""
    return struct.pack(">I", value + (1 << 31))


def long_key(value: int) -> bytes:
    """Return the key of a LongBinding: 8 bytes. StarRocks and Doris use it for journal ids."""
    return struct.pack(">Q", value + (1 << 63))


def string_key(value: str | None) -> bytes:
    """Return the key of a StringBinding."""
    if value is None:
        return _NULL_STRING
    return _to_modified_utf8(value) + b"\0"


def sorted_packed_key(value: int) -> bytes:
    """Return the key of a SortedPackedLongBinding: 1 to 9 bytes, for a signed 64-bit value."""
    if _SORTED_MIN <= value <= _SORTED_MAX:
        return bytes([value + _SORTED_ZERO])
    if value > _SORTED_MAX:
        magnitude = value - _SORTED_MAX - 1
        size = max(1, (magnitude.bit_length() + 7) // 8)
        return bytes([_SORTED_POSITIVE_ABOVE + size]) + magnitude.to_bytes(size)
    # Below -119 the bytes are the two's complement without leading FF bytes.
    rest = value - _SORTED_MIN
    size = max(1, ((-rest - 1).bit_length() + 7) // 8)
    return bytes([_SORTED_NEGATIVE_BELOW - size]) + (rest + (1 << 8 * size)).to_bytes(size)


def _to_modified_utf8(text: str) -> bytes:
    units = text.encode("utf-16-be", "surrogatepass")
    chars = "".join(chr(unit) for (unit,) in struct.iter_unpack(">H", units))
    return chars.encode("utf-8", "surrogatepass").replace(b"\0", b"\xc0\x80")


def _from_modified_utf8(data: bytes, start: int) -> str:
    try:
        chars = data.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise TupleError("not modified UTF-8", start + error.start) from error
    units = b"".join(struct.pack(">H", ord(char)) for char in chars if ord(char) <= 0xFFFF)
    if len(units) != 2 * len(chars):
        raise TupleError("a character of four bytes, which modified UTF-8 encodes in six", start)
    return units.decode("utf-16-be", "surrogatepass")


def decode_whole(data: bytes, read: Callable[[TupleReader], T]) -> T:
    """Return the one value in `data`; raise TupleError if bytes are left."""
    reader = TupleReader(data)
    value = read(reader)
    check_end(reader)
    return value


def check_end(reader: TupleReader) -> None:
    """Raise TupleError if bytes are left."""
    if reader.left:
        raise TupleError(f"{reader.left} bytes too many", reader.at)


def read_count(reader: TupleReader) -> range:
    """Return a range with the next number as its length; each item takes at least one byte."""
    count = reader.packed()
    if not 0 <= count <= reader.left:
        raise TupleError(f"{count} numbers do not fit {reader.left} bytes", reader.at)
    return range(count)


def read_ascending(reader: TupleReader) -> tuple[int, ...]:
    """Read a count, then as many ascending numbers, stored as differences."""
    values = []
    value = 0
    for _ in read_count(reader):
        value += reader.packed()
        values.append(value)
    return tuple(values)


def write_ascending(writer: TupleWriter, values: Sequence[int]) -> None:
    """Write ascending numbers as `read_ascending` reads them."""
    writer.packed(len(values))
    before = 0
    for value in values:
        writer.packed(value - before)
        before = value
