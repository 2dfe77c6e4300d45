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
_OFFSETS_1, _OFFSETS_2 = 8, 16
_FIELDS_MAX = 64
"""Fields of an object of metadata from which it is not checked; the engine writes eight."""


def metadata_fault(data: bytes, type_id: int) -> str | None:
    """Return what is wrong with a file of `binary_meta`, in words; None if nothing is.

    The hash of the content does not cover the places of the fields, so some damage of a bit in
    them is not found.

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
    if places[:1] != [_HEAD.size] or any(a >= b for a, b in pairwise([*places, footer])):
        return "its fields do not follow each other"
    return None


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
