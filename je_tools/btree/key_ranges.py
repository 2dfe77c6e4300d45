"""Ranges of keys, as users write them and as searches of B-trees use them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.errors import UsageError
from je_tools.formats.je.btree.keys import join_two_part

if TYPE_CHECKING:
    from je_tools.log.parsing import KeyPattern

_BETWEEN = ".."


class KeyRange(Struct, frozen=True):
    """Keys from `low` up to but not including `high`, in byte order; a bound of None is open."""

    low: bytes | None = None
    high: bytes | None = None

    @property
    def is_empty(self) -> bool:
        """True if no key can lie in it."""
        return self.low is not None and self.high is not None and self.low >= self.high

    def intersection(self, other: KeyRange) -> KeyRange:
        """Return the keys that are in both ranges; see `is_empty`."""
        lows = [each.low for each in (self, other) if each.low is not None]
        highs = [each.high for each in (self, other) if each.high is not None]
        return KeyRange(max(lows, default=None), min(highs, default=None))

    def of_two_parts(self) -> KeyRange:
        """Return the same range over the two-part keys of a database with duplicates."""
        low, high = (
            None if bound is None else join_two_part(bound, b"") for bound in (self.low, self.high)
        )
        return KeyRange(low, high)


def range_of(pattern: KeyPattern) -> KeyRange:
    """Return the range of a pattern: one key, or all keys that begin with its bytes."""
    return KeyRange(pattern.needle, _after(pattern))


def parse_key_range(option: str, text: str) -> KeyRange:
    """Parse `FROM..TO`: two keys, both inclusive, of which one may be left out.

    A prefix (`hex:0a*`) stands for all keys that begin with it.

    Raises:
        UsageError: no `..`, an invalid key, or no key can lie in the range.
    """
    from je_tools.log.parsing import parse_key

    first, between, last = text.partition(_BETWEEN)
    if not between:
        raise UsageError(
            f"{option} {text}: a range is written FROM{_BETWEEN}TO, such as long:1..long:9"
        )
    low = parse_key(first, option).needle if first else None
    high = _after(parse_key(last, option)) if last else None
    chosen = KeyRange(low, high)
    if chosen.is_empty:
        raise UsageError(f"{option} {text}: no key lies between the first and the second")
    return chosen


def _after(pattern: KeyPattern) -> bytes | None:
    """Return the first key after all keys of a pattern, or None if there can be none."""
    if pattern.whole:
        return pattern.needle + b"\0"
    stem = pattern.needle.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else None
