"""Keys: two-part arrays of key and data, slot keys without their prefix, and key order.

This module handles one key at a time; `slots` splits the keys of many nodes as columns.

Source: je-log.md "Nodes"; DupKeyData, IN.getKey, JE 7.5.11 and 25.3.17.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from je_tools.formats.je.flags import SlotState
from je_tools.formats.packed import encode_packed, read_packed

_PACKED_MAX = 9
_PREFIX_ONLY = -1


class NotTwoPartError(ValueError):
    """Bytes that are not a two-part key."""


def split_two_part(data: bytes) -> tuple[bytes, bytes | None]:
    """Return key and data of a two-part array; data is None if the array is a search key.

    The array ends with the length of the key, a packed number with its bytes in reverse order.

    Raises:
        NotTwoPartError: `data` does not end with such a number, or is shorter than that length.
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
    """Return the two-part array of a key and its data; without data, the search key."""
    if data is None:
        return key + encode_packed(_PREFIX_ONLY)
    return key + data + encode_packed(len(key))[::-1]


def slot_parts(slot: Mapping[str, Any]) -> tuple[bytes, bytes | None]:
    """Return the key (without the node's prefix) and the embedded data of a decoded slot.

    Data is None if the record is not embedded, and empty if it is embedded and has no data. If a
    two-part key is malformed, all its bytes are the key, as in `slots.split_embedded`.
    """
    key: bytes = slot["key"] or b""
    state = slot["state"]
    if not state & SlotState.EMBEDDED:
        return key, None
    if state & SlotState.NO_DATA:
        return key, b""
    try:
        suffix, data = split_two_part(key)
    except NotTwoPartError:
        return key, None
    return (key, None) if data is None else (suffix, data)
