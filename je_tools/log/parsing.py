"""Values as users write them in options: keys, bytes to search for, LSNs and entry types."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.errors import UsageError
from je_tools.formats.je.tuples import int_key, long_key, string_key
from je_tools.formats.je.types import ENTRY_TYPES, Group
from je_tools.formats.spans import starts_with

if TYPE_CHECKING:
    from je_tools.formats.arrays import Mask
    from je_tools.log.entry_table import EntryTable

_LSN = re.compile(r"0[xX]([0-9a-fA-F]{1,8})/0[xX]([0-9a-fA-F]{1,8})")
_NUMBER_KEYS: dict[str, tuple[Callable[[int], bytes], int]] = {
    "int": (int_key, 32),
    "long": (long_key, 64),
}


class KeyPattern(Struct, frozen=True):
    """Bytes that a key must equal, or begin with."""

    needle: bytes
    whole: bool

    def found_in(self, table: EntryTable) -> Mask:
        """Return a mask of the entries that have such a key."""
        spans = (table.key_start, table.key_size)
        return starts_with(table.rows.data, *spans, self.needle, whole=self.whole)


def parse_key(text: str, option: str = "--key") -> KeyPattern:
    """Parse a key as users write it: text, `hex:…`, `hex:…*` for a prefix, or a binding's form.

    `long:N` and `int:N` are LongBinding and IntegerBinding, big endian with the sign bit flipped,
    as StarRocks and Doris key their journals; `str:…` is StringBinding, Java's UTF-8 and a zero
    byte. Text stands for the bytes that the shell passed, whether UTF-8 or not.

    Raises:
        UsageError: not a number, or not hexadecimal; the message begins with `option`.
    """
    kind, colon, rest = text.partition(":")
    if colon and kind in _NUMBER_KEYS:
        encode, bits = _NUMBER_KEYS[kind]
        return KeyPattern(encode(_whole_number(option, text, rest, bits)), whole=True)
    if colon and kind == "hex":
        digits = rest.removesuffix("*")
        return KeyPattern(_hex(option, text, digits), whole=not rest.endswith("*"))
    if colon and kind == "str":
        return KeyPattern(string_key(rest), whole=True)
    return KeyPattern(_bytes(text), whole=True)


def parse_bytes(text: str) -> bytes:
    """Parse bytes to search for: text, or `hex:…`.

    Raises:
        UsageError: empty, or not hexadecimal.
    """
    is_hex = text.startswith("hex:")
    needle = _hex("--grep", text, text.removeprefix("hex:")) if is_hex else _bytes(text)
    if not needle:
        raise UsageError("--grep: no bytes to search for; write text, or hex:0a1b")
    return needle


def _whole_number(option: str, text: str, digits: str, bits: int) -> int:
    try:
        number = int(digits)
    except ValueError:
        raise UsageError(f"{option} {text}: {digits!r} is not a whole number") from None
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise UsageError(f"{option} {text}: does not fit {bits} bits")
    return number


def _bytes(text: str) -> bytes:
    """Return the bytes that the shell passed; an argument that is not UTF-8 holds surrogates."""
    return text.encode("utf-8", "surrogateescape")


def _hex(option: str, text: str, digits: str) -> bytes:
    try:
        return bytes.fromhex(digits)
    except ValueError:
        raise UsageError(
            f"{option} {text}: {digits!r} is not pairs of hexadecimal digits, such as hex:0a1b"
        ) from None


def parse_lsn(text: str) -> int:
    """Parse an LSN as the engine writes it, `0x3/0x1a2f`.

    Raises:
        UsageError: not two hexadecimal numbers of at most 8 digits.
    """
    match = _LSN.fullmatch(text)
    if match is None:
        raise UsageError(f"{text}: an LSN is written 0xFILE/0xOFFSET, such as 0x3/0x1a2f")
    return int(match[1], 16) << 32 | int(match[2], 16)


def parse_types(names: Iterable[str]) -> frozenset[int]:
    """Return the entry type numbers of type names and of groups: LN, IN, TXN, CKPT, REP.

    `LN` and `IN` are also names of types; here they are the groups, which hold these types.

    Raises:
        UsageError: no such type or group; the message names similar ones.
    """
    chosen: set[int] = set()
    by_name = {t.name.lower(): t for t in ENTRY_TYPES.values()}
    groups = {group.value.lower(): group for group in Group}
    for name in names:
        low = name.lower()
        if low in groups:
            chosen |= {t.no for t in ENTRY_TYPES.values() if groups[low] in t.groups}
        elif low in by_name:
            chosen.add(by_name[low].no)
        else:
            raise UsageError(_unknown_type(name))
    return frozenset(chosen)


def _unknown_type(name: str) -> str:
    import difflib

    names = [*(g.value for g in Group), *(t.name for t in ENTRY_TYPES.values())]
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f"; did you mean {', '.join(near)}?" if near else ""
    return f"--type {name}: no such entry type or group{hint} (`je-tools explain type:` lists all)"
