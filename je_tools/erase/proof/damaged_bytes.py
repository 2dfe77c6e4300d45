"""Damaged bytes of a log file: they are searched, but nodes in them may not be found.

Any damaged entry may have been a node, whatever its type is now, because its type, its size or its
prefix may be damaged. A search of bytes misses keys that a prefix cuts in two. Bytes that are all
zeros hide nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field

from je_tools.core.escaping import counted

_SHOWN = 3
_MEANING = (
    "their bytes were searched, but there may have been a node in them, and keys that its prefix "
    "cuts in two are not found there"
)
_NEXT = "`je-tools verify` says what is damaged; search a copy without the damage"
_NEXT_OF_TAIL = (
    "after a crash, the engine or `je-tools recover --apply` cuts them off the last file; then "
    "search again"
)


class DamagedBytes(Struct):
    """Damaged byte ranges of one kind in a file.

    Attributes:
        count: number of the ranges.
        size: bytes in them.
        ranges: the first of them, half-open.
    """

    count: int = 0
    size: int = 0
    ranges: list[tuple[int, int]] = field(default_factory=list)

    @classmethod
    def of(cls, ranges: Iterable[tuple[int, int]]) -> DamagedBytes:
        """Count ranges and their bytes."""
        found = cls()
        for start, stop in ranges:
            found.count += 1
            found.size += stop - start
            if len(found.ranges) < _SHOWN:
                found.ranges.append((start, stop))
        return found

    def merge(self, other: DamagedBytes) -> None:
        """Add the ranges of a later part of the file."""
        self.count += other.count
        self.size += other.size
        self.ranges += other.ranges[: _SHOWN - len(self.ranges)]

    @property
    def text(self) -> str:
        """The size of the ranges, and the first of them."""
        shown = ", ".join(f"{start:,} to {stop:,}" for start, stop in self.ranges)
        more = self.count - len(self.ranges)
        return f"{counted(self.size, 'byte')}: {shown}{f' and {more:,} more' if more else ''}"


def entries_problem(found: DamagedBytes) -> str:
    """Return the problem that entries with a wrong checksum are for the search."""
    what = counted(found.count, "wrong checksum")
    return f"{what} of entries ({found.text}): {_MEANING}; {_NEXT}"


def gaps_problem(found: DamagedBytes) -> str:
    """Return the problem that unreadable bytes between entries are for the search."""
    return f"bytes that are no readable entries ({found.text}): {_MEANING}; {_NEXT}"


def tail_problem(found: DamagedBytes) -> str:
    """Return the problem that unreadable bytes after the last entry are for the search."""
    return f"bytes after the last readable entry ({found.text}): {_MEANING}; {_NEXT_OF_TAIL}"
