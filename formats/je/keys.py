"""Keys: two-part arrays of key and data, slot keys behind their prefix, and key order.

One key at a time; the slots of many nodes are split in columns by `slots`.

Source: je-log.md "Nodes"; DupKeyData, IN.getKey, JE 7.5.11 and 25.3.17.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from je_tools.formats.je.layout import SLOT_EMBEDDED, SLOT_NO_DATA
from je_tools.formats.packed import encode_packed, read_packed

_PACKED_MAX = 9
_PREFIX_ONLY = -1


class NotTwoPartError(ValueError):
    """Bytes that are not a two-part key."""


def split_two_part(data: bytes) -> tuple[bytes, bytes | None]:
    """Key and data of a two-part array; data is None where the array is a key to search by.

    The array ends with the length of the key, a packed number whose bytes run backwards.

    Raises:
        NotTwoPartError: `data` does not end with such a number, or is shorter than it says.
    """
    tail = data[: -_PACKED_MAX - 1 : -1]
    length, tail_size = read_packed(tail, 0, len(tail))
    if tail_size < 0:
        raise NotTwoPartError("the key's length is not a packed number")
    parts = data[: len(data) - tail_size]
    if length == _PREFIX_ONLY:
        return parts, None
    if not 0 <= length <= len(parts):
        raise NotTwoPartError(f"a key of {length} bytes in {len(parts)}")
    return parts[:length], parts[length:]


def join_two_part(key: bytes, data: bytes | None) -> bytes:
    """The two-part array of a key and its data; without data, the array to search the key by."""
    if data is None:
        return key + encode_packed(_PREFIX_ONLY)
    return key + data + encode_packed(len(key))[::-1]


def slot_parts(slot: Mapping[str, Any]) -> tuple[bytes, bytes | None]:
    """The key (behind the node's prefix) and the embedded data of a decoded slot.

    Data is None where the record is not in the slot, and empty where it is and has none. A slot
    whose two-part key is not one keeps all its bytes as the key, as `slots.split_embedded` does.
    """
    key: bytes = slot["key"] or b""
    state = slot["state"]
    if not state & SLOT_EMBEDDED:
        return key, None
    if state & SLOT_NO_DATA:
        return key, b""
    try:
        suffix, data = split_two_part(key)
    except NotTwoPartError:
        return key, None
    return (key, None) if data is None else (suffix, data)


def order_of(key: bytes, *, two_part: bool = False) -> tuple[bytes, int, bytes]:
    """What keys of a database without comparators of its own sort by.

    Bytes as unsigned numbers, then length; with `two_part` (a database with duplicates) the key
    first, then the data, and a key to search by in front of all data of its key.

    Raises:
        NotTwoPartError: `two_part` is set and `key` is not a two-part array.
    """
    if not two_part:
        return key, 0, b""
    first, data = split_two_part(key)
    return (first, 0, b"") if data is None else (first, 1, data)
