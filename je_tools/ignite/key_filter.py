"""Keys of caches as users write them, and the rows that have them.

Source: GridBinaryMarshaller, BinaryUtils, CacheObjectImpl, Ignite 2.18.0.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np
from msgspec import Struct

from je_tools.core.escaping import printable
from je_tools.errors import UsageError
from je_tools.formats.spans import starts_with

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.files.source import Bytes

_NUMBERS = {"byte": (1, "<b"), "short": (2, "<h"), "int": (3, "<i"), "long": (4, "<q")}
"""Tag and layout of whole numbers, which have the lowest byte first on every machine."""

_FORMS = "text, int:5, long:5, short:5, byte:5, bool:true, uuid:…, hex:0a1b, hex:0a* (prefix)"


class KeyFilter(Struct, frozen=True):
    """Keys, one of which a row must have.

    Attributes:
        needles: bytes of keys, and whether a key must equal them, or only begin with them.
    """

    needles: tuple[tuple[bytes, bool], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.needles)

    def found_in(self, data: Bytes, starts: Ints, sizes: Ints) -> Mask:
        """Return a mask of the keys, spans of `data`, that match one of these; null never does."""
        found = np.zeros(len(starts), np.bool_)
        for needle, whole in self.needles:
            found |= starts_with(data, starts, sizes, needle, whole=whole)
        return found


def parse_keys(texts: Sequence[str]) -> KeyFilter:
    """Return a filter for keys that a user wrote.

    A text is a string, unless it begins with one of the forms that `ignite wal dump --help` shows,
    or is JSON as in the column `key_json`. Of objects, only `hex:` and their bytes are known.

    Raises:
        UsageError: a key has none of the forms.
    """
    return KeyFilter(tuple(map(_parse, texts)))


def _parse(text: str) -> tuple[bytes, bool]:
    kind, colon, rest = text.partition(":")
    try:
        if colon and kind == "hex":
            return bytes.fromhex(rest.removesuffix("*")), not rest.endswith("*")
        if colon and kind in _OF_WORDS:
            return _OF_WORDS[kind](rest), True
        if text.startswith(("{", '"')):
            return _of_json(text), True
    except (ValueError, TypeError, LookupError, struct.error):
        raise UsageError(
            f"--key {printable(text)}: no key has this form, or it is out of range. Write "
            f"{_FORMS}, or JSON of a simple value as in `key_json`; a text that begins like one of "
            "these as str:…"
        ) from None
    return _string(text), True


def _of_json(text: str) -> bytes:
    """Return the bytes of a value as JSON names it.

    Raises:
        ValueError, TypeError, LookupError: it is no value of a simple type.
    """
    value = json.loads(text)
    if isinstance(value, str):
        return _string(value)
    ((kind, content),) = value.items()
    return _OF_JSON[kind](content)


def _string(text: str) -> bytes:
    data = text.encode("utf-8", "surrogateescape")
    return b"\x09" + struct.pack("<i", len(data)) + data


def _uuid(text: str) -> bytes:
    high, low = divmod(UUID(text).int, 1 << 64)
    return b"\x0a" + struct.pack("<QQ", high, low)


def _number(name: str) -> Callable[[Any], bytes]:
    tag, layout = _NUMBERS[name]
    return lambda value: bytes([tag]) + struct.pack(layout, int(value))


def _bits(tag: int) -> Callable[[str], bytes]:
    return lambda digits: bytes([tag]) + bytes.fromhex(digits)[::-1]


def _boolean(text: str) -> bytes:
    return b"\x08" + bytes([("false", "true").index(text.lower())])


def _timestamp(parts: Sequence[int]) -> bytes:
    return b"\x21" + struct.pack("<qi", *parts)


_OF_WORDS: Mapping[str, Callable[[str], bytes]] = {
    **{name: _number(name) for name in _NUMBERS},
    "str": _string,
    "uuid": _uuid,
    "bool": _boolean,
}
_OF_JSON: Mapping[str, Callable[[Any], bytes]] = {
    **{name: _number(name) for name in _NUMBERS},
    "uuid": _uuid,
    "char": lambda unit: b"\x07" + struct.pack("<H", unit),
    "floatBits": _bits(5),
    "doubleBits": _bits(6),
    "date": lambda ms: b"\x0b" + struct.pack("<q", ms),
    "time": lambda ms: b"\x24" + struct.pack("<q", ms),
    "timestamp": _timestamp,
}
