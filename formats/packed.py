"""Primitive codings shared by the formats, for single values.

`buf` is any buffer of bytes: `bytes`, a `memoryview` or a uint8 array.
"""

from __future__ import annotations

import struct
from typing import Any

from je_tools.formats import _native

SINGLE_BYTE_MAX = 119
"""Largest magnitude of a packed integer that takes one byte."""

_SIZE_MAX = 9
"""Size of the longest packed integer, in bytes."""

_U32, _I32, _I64 = struct.Struct("<I"), struct.Struct("<i"), struct.Struct("<q")


def load_u32(buf: Any, at: int) -> int:
    """Return the little-endian unsigned 32-bit integer at `at`."""
    value: int = _U32.unpack_from(buf, at)[0]
    return value


def load_i32(buf: Any, at: int) -> int:
    """Return the little-endian signed 32-bit integer at `at`."""
    value: int = _I32.unpack_from(buf, at)[0]
    return value


def load_i64(buf: Any, at: int) -> int:
    """Return the little-endian signed 64-bit integer at `at`."""
    value: int = _I64.unpack_from(buf, at)[0]
    return value


def read_packed(buf: Any, at: int, end: int) -> tuple[int, int]:
    """Return the packed integer at `at` and the offset after it, or (0, -1) if there is none.

    There is none if it does not end before `end`, or if its value does not fit 64 bits.
    """
    found = _native.read_packed(bytes(buf[at : min(end, at + _SIZE_MAX)]))
    return (0, -1) if found is None else (found[0], at + found[1])


def encode_packed(value: int) -> bytes:
    """Return the shortest packed form of a signed 64-bit `value`, as the engine writes it."""
    return _native.encode_packed(value)
