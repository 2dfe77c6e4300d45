"""Forms of keys and values in texts for people: options such as `--key` take these forms."""

from __future__ import annotations

import re

_TEXT = re.compile(rb"[!-~]([ -~]*[!-~])?")
_PREFIXED = re.compile(rb"(hex|long|int|str):")
_STRING = re.compile(rb"[ -~]+\x00")
_NUMBERS = {8: ("long", 1 << 63), 4: ("int", 1 << 31)}
_SMALL = (b"\x80\x00", b"\x7f\xff")
"""Upper two bytes of numbers that LongBinding or IntegerBinding probably wrote."""


def key_form(key: bytes) -> str:
    """Return a key as users write it: text, `str:…`, `long:…`, `int:…` or `hex:…`.

    Only ASCII is text. Numbers are those whose upper two bytes hold nothing but the sign: larger
    ones are ambiguous. `parse_key` returns the same bytes.
    """
    if _TEXT.fullmatch(key) and not _PREFIXED.match(key):
        return key.decode("ascii")
    if _STRING.fullmatch(key):
        return f"str:{key[:-1].decode('ascii')}"
    if len(key) in _NUMBERS and key[:2] in _SMALL:
        kind, zero = _NUMBERS[len(key)]
        return f"{kind}:{int.from_bytes(key) - zero}"
    return f"hex:{key.hex()}"


def value_form(value: bytes) -> str:
    """Return a value of a record: text if all of it is printable UTF-8, else `hex:…`."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = ""
    is_text = bool(text) and text.isprintable() and not text.startswith("hex:")
    return text if is_text else f"hex:{value.hex()}"
