"""Values from logs and file systems as a page shows them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from je_tools.plain import clean_text, printable

TEXT_MAX = 500
"""Characters of a text that are shown."""

NAME_MAX = 200
"""Of a name."""

_EXACT = 2**53 - 1
# In a script element these would end it, begin another, or be taken for markup by old parsers.
_MARKUP = {ord(character): f"\\u{ord(character):04x}" for character in "<>&'"}


def shown(text: str, limit: int | None = TEXT_MAX) -> str:
    """A text on one line without anything that does not print, cut where it is very long.

    Characters that reorder a line (bidi overrides and the like) do not print either.
    """
    plain = printable(clean_text(text))
    if limit is None or len(plain) <= limit:
        return plain
    return f"{plain[:limit]}… ({len(plain):,} characters)"


def distinct(names: Iterable[str], mark: str = "~{}") -> list[str]:
    """The same names, all different: of several that are equal the later ones get a number.

    Args:
        names: in their order.
        mark: how a number is spelled behind a name.
    """
    listed = list(names)
    taken, given = set(listed), set[str]()
    numbers: dict[str, int] = {}
    different = []
    for plain in listed:
        name, number = plain, numbers.get(plain, 1)
        # One that is there anyway stays as it is.
        while name in given or (name != plain and name in taken):
            number += 1
            name = plain + mark.format(number)
        numbers[plain] = number
        given.add(name)
        different.append(name)
    return different


def exact(number: int | None) -> int | str | None:
    """A number for a script; as text where a script's numbers would round it."""
    return number if number is None or abs(number) <= _EXACT else str(number)


def script_json(value: Any) -> str:
    """JSON that can stand inside a script element: ASCII, and no character of markup."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).translate(_MARKUP)
