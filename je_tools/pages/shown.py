"""Values from logs and file systems in the form in which a page shows them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from je_tools.core.escaping import clean_text, printable

TEXT_MAX = 500
"""Maximum characters of a text that are shown."""

NAME_MAX = 200
"""Maximum characters of a name."""

_DIGITS = re.compile("([0-9]+)")
_EXACT = 2**53 - 1
# In a script element these end it, begin another, or count as markup for old parsers.
_MARKUP = {ord(character): f"\\u{ord(character):04x}" for character in "<>&'"}


def shown(text: str, limit: int | None = TEXT_MAX) -> str:
    """Return a text on one line without unprintable characters, cut if it is very long.

    Characters that reorder a line (bidi overrides and the like) count as unprintable.
    """
    plain = printable(clean_text(text))
    if limit is None or len(plain) <= limit:
        return plain
    return f"{plain[:limit]}… ({len(plain):,} characters)"


def second_text(time_ms: int) -> str:
    """Return a time in UTC to the second."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def distinct(names: Iterable[str], mark: str = "~{}") -> list[str]:
    """Return the names made unique: all but the first of several equal ones get a number.

    Args:
        names: names in order.
        mark: format of the number after a name.
    """
    listed = list(names)
    if len(set(listed)) == len(listed):
        return listed
    taken, given = set(listed), set[str]()
    numbers: dict[str, int] = {}
    different = []
    for plain in listed:
        name, number = plain, numbers.get(plain, 1)
        # A new name must not be one that is in the list.
        while name in given or (name != plain and name in taken):
            number += 1
            name = plain + mark.format(number)
        numbers[plain] = number
        given.add(name)
        different.append(name)
    return different


def natural_key(text: str) -> list[tuple[int, str]]:
    """Return a key that sorts texts by the numbers in them: `node2` comes before `node10`.

    Only the digits 0 to 9 count. They are not converted, since a name may have any number of them.
    """
    parts = [part.lstrip("0") if i % 2 else part for i, part in enumerate(_DIGITS.split(text))]
    return [(len(part) if i % 2 else 0, part) for i, part in enumerate(parts)]


def natural_bytes(text: str) -> bytes:
    """Return bytes that sort as `(natural_key(text), text)` does, and take less memory."""
    key = b"".join(
        (size + 1).to_bytes(4, "big") + part.encode() if i % 2 else _escaped(part)
        for i, (size, part) in enumerate(natural_key(text))
    )
    # A key that continues does so with the size of a number, which is not zero.
    return key + bytes(4) + _escaped(text)


def _escaped(text: str) -> bytes:
    """Return a text that a size can follow: its bytes sort before all those of a longer text."""
    return text.encode("utf-8", "surrogatepass").replace(b"\0", b"\0\xff")


def exact(number: int | None) -> int | str | None:
    """Return a number for a script, as text if a script's numbers would round it."""
    return number if number is None or abs(number) <= _EXACT else str(number)


def script_json(value: Any) -> str:
    """Return JSON that can stand inside a script element: ASCII, and no markup characters."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).translate(_MARKUP)
