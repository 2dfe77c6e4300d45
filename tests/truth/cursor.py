"""Parsing of printed text from its beginning to its end, without gaps."""

from __future__ import annotations

import functools
import re
from datetime import datetime, timedelta

NULL_LSN = "0xffffffff/0xffffffff"
_EPOCH = datetime(1970, 1, 1)
_TIME = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\.(\d{1,3})(?: UTC)?")


class Cursor:
    """A position in a text. Patterns match exactly there and advance it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.place = 0

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Return the match here and advance; without a match, return None and stay."""
        match = pattern.match(self.text, self.place)
        if match is not None:
            self.place = match.end()
        return match

    def need(self, pattern: re.Pattern[str]) -> re.Match[str]:
        """Return the match here, and advance.

        Raises:
            ValueError: the text does not match.
        """
        match = self.take(pattern)
        if match is None:
            raise ValueError(f"not {pattern.pattern!r}: {self.text[self.place :][:120]!r}")
        return match

    def end(self) -> None:
        """Check that the whole text has been read.

        Raises:
            ValueError: some text is left.
        """
        if self.place != len(self.text):
            raise ValueError(f"not understood: {self.text[self.place :][:200]!r}")


def byte_text(printed: str) -> str:
    """Return bytes in hexadecimal; the engines print each in decimal, followed by a space."""
    return bytes(map(int, printed.split())).hex()


def truth(printed: str) -> bool:
    """Parse a Java boolean."""
    return {"true": True, "false": False}[printed]


def time_ms(printed: str) -> int:
    """Return milliseconds since 1970 of a time in UTC; older engines drop trailing zeros."""
    match = _TIME.fullmatch(printed)
    if match is None:
        raise ValueError(f"not a time: {printed!r}")
    return _second(match[1]) * 1000 + int(match[2].ljust(3, "0"))


@functools.lru_cache(maxsize=1024)
def _second(text: str) -> int:
    return (datetime.fromisoformat(text) - _EPOCH) // timedelta(seconds=1)


def hour_text(days: int = 0, hours: int = 0) -> str:
    """Format the time `days` and `hours` after 1970 as the engines print expirations."""
    return (_EPOCH + timedelta(days=days, hours=hours)).strftime("%Y-%m-%d.%H")


def snake_case(name: str) -> str:
    """Return `totalINCount` as `total_in_count`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
