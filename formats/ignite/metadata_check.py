"""Checks of files of `binary_meta`: they have no checksum, but hashes that damage makes wrong.

Source: BinaryMetadata, BinaryArrayIdentityResolver, BinaryUtils.schemaId, Ignite 2.18.0, and the
files of nodes of 2.17 and 2.18.
"""

from __future__ import annotations

import struct
from itertools import pairwise

import numpy as np

from je_tools.formats.ignite.ids import java_hash
from je_tools.formats.ignite.values import METADATA_MAX, read_metadata

_HEAD = struct.Struct("<BBHiiiii")
"""Tag, version of the coding, flags, type, hash of the content, size, schema, and its footer."""

_CLASS_ID = java_hash("binarymetadata")
_HAS_SCHEMA, _OFFSETS_1, _OFFSETS_2 = 2, 8, 16
_FLAGS = (_HAS_SCHEMA, _HAS_SCHEMA | _OFFSETS_1, _HAS_SCHEMA | _OFFSETS_2)
"""Flags that the engine writes."""

_FIXED = {3: 4, 8: 1, 101: 0}
"""Bytes of values after their tag: an integer, a boolean, null."""

_SIZED = (9, 12, 0xFE)
"""Tags of values with a number of bytes: a string, bytes, an object that Java serialized."""

_VALUES = {24: 1, 25: 2}
"""Values for each element of a collection, and of a map."""

_FIELDS_MAX = 64
"""Number of fields from which an object of metadata is not checked; the engine writes eight."""


def metadata_fault(data: bytes, type_id: int) -> str | None:
    """Return what is wrong with a file of `binary_meta`, in words; None if nothing is.

    Args:
        data: the file.
        type_id: id in its name.
    """
    if len(data) > METADATA_MAX:
        return f"over {METADATA_MAX:,} bytes"
    found = read_metadata(data)
    if found is None:
        return "no description of a type"
    if found.type_id != type_id:
        return f"the description of type {found.type_id}"
    _, _, flags, class_id, stored, size, schema, footer = _HEAD.unpack_from(data)
    if flags not in _FLAGS:
        return f"flags {flags:#06x}"
    if class_id != _CLASS_ID:
        return f"an object of type {class_id}; expected {_CLASS_ID}"
    if size != len(data):
        return f"{len(data):,} bytes; its header says {size:,}"
    if stored != _content_hash(data[_HEAD.size : footer]):
        return "the hash of its content is wrong"
    entry = 4 + (1 if flags & _OFFSETS_1 else 2 if flags & _OFFSETS_2 else 4)
    count = (size - footer) // entry
    if count > _FIELDS_MAX:
        return f"{count:,} fields"
    entries = [data[at : at + entry] for at in range(footer, footer + count * entry, entry)]
    if schema != _schema_id(b"".join(each[:4] for each in entries)):
        return "the ids of its fields are not those of its schema"
    places = [int.from_bytes(each[4:], "little") for each in entries]
    fields = pairwise([*places, footer])
    if places[:1] != [_HEAD.size] or not all(_is_value(data, *ends) for ends in fields):
        return "its fields do not follow each other"
    return None


def _is_value(data: bytes, at: int, stop: int) -> bool:
    """Return True if bytes [at, stop) are a value; one of an unknown kind may have any size."""
    left = 1
    while left and at < stop:
        tag = data[at]
        number = int.from_bytes(data[at + 1 : at + 5], "little")
        left -= 1
        if tag in _FIXED:
            at += 1 + _FIXED[tag]
        elif tag in _SIZED:
            at += 5 + number
        elif tag in _VALUES:
            # The kind of the values follows their number.
            at += 6
            left += number * _VALUES[tag]
        else:
            return True
    return not left and at == stop


def _content_hash(content: bytes) -> int:
    """Return the hash of the bytes as Java's `Arrays.hashCode` makes it."""
    powers = np.full(len(content) + 1, 31, np.uint32)
    powers[0] = 1
    powers = np.cumprod(powers, dtype=np.uint32)[::-1]
    signed = np.frombuffer(content, np.int8).astype(np.int32).view(np.uint32)
    total = int(powers[0]) + int((signed * powers[1:]).sum(dtype=np.uint32))
    return _signed(total)


def _schema_id(ids: bytes) -> int:
    found = 0x811C9DC5
    for byte in ids:
        found = (found ^ byte) * 0x01000193 & 0xFFFFFFFF
    return _signed(found)


def _signed(number: int) -> int:
    return (number + (1 << 31)) % (1 << 32) - (1 << 31)
