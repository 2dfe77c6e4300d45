"""Gaps of a log: ranges that cannot be read, each with its cause."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from je_tools.salvage.extents import NO_TYPE, ordered

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.log.environment import Environment
    from je_tools.salvage.content import Content
    from je_tools.salvage.extents import Ordered

_FILE = 1 << 32
_LARGEST = (1 << 64) - 1


class GapKind(StrEnum):
    """Cause of a gap."""

    DAMAGED = "damaged"
    """Bytes between entries that are no entry, or an entry with a wrong checksum."""
    END_OF_FILE = "end-of-file"
    """Bytes after the last entry of a file that another file follows."""
    TAIL = "tail"
    """Bytes after the last entry of the log: the writer died, or they were never written."""
    WHOLE_FILE = "whole-file"
    """A file without a single good entry."""
    NO_FILE = "no-file"
    """Files that do not exist: lost, or deleted by the cleaner."""
    UNREADABLE = "unreadable-file"
    """A file that the system cannot open."""


class LogGap(Struct, frozen=True):
    """A gap: a range of the log that cannot be read.

    Attributes:
        kind: the cause.
        start, stop: LSNs, in the same file unless files are missing.
        before, after: types of the entries around it; NO_TYPE if there is none.
        dangling: number of distinct entries in it that the rest of the log names.
        keys: number of lost records whose newest version was in it.
        held: number of records that come back although their newest version was in it.
        reason: error of the system for a file that cannot be opened.
    """

    kind: GapKind
    start: int
    stop: int
    before: int
    after: int
    dangling: int = 0
    keys: int = 0
    held: int = 0
    reason: str | None = None

    @property
    def is_damage(self) -> bool:
        """True if an intact log would not have this gap.

        Files that do not exist are damage only if the log names records in them, since the cleaner
        deletes files. Bytes after the end of the log are damage only if an entry names one there,
        since a crash leaves such bytes.
        """
        if self.kind is GapKind.NO_FILE:
            return self.keys + self.held > 0
        return self.kind is not GapKind.TAIL or self.dangling > 0

    @property
    def file_count(self) -> int:
        """Number of files in it; 0 for a range of a file that can be opened."""
        if self.kind is GapKind.UNREADABLE:
            return 1
        return (self.stop - self.start) >> 32 if self.kind is GapKind.NO_FILE else 0


def find_gaps(environment: Environment, content: Content) -> list[LogGap]:
    """Return every gap, in log order."""
    gaps = [*_absent(environment), *_inside(environment, content)]
    return sorted(gaps, key=lambda gap: gap.start)


def _absent(environment: Environment) -> Iterator[LogGap]:
    """Yield the gaps of files that do not exist or cannot be opened."""
    for file in environment.unreadable:
        start = file.file_no * _FILE
        stop = start + max(file.size, 1)
        yield LogGap(GapKind.UNREADABLE, start, stop, NO_TYPE, NO_TYPE, reason=file.reason)
    if not environment.is_directory:
        return
    expected = 0
    for number in environment.numbers:
        if number > expected:
            yield LogGap(GapKind.NO_FILE, expected * _FILE, number * _FILE, NO_TYPE, NO_TYPE)
        expected = number + 1


def _inside(environment: Environment, content: Content) -> Iterator[LogGap]:
    """Yield the gaps inside files that can be opened."""
    readable = content.readable
    run = 0
    ends = environment.ends
    for i, state in enumerate(content.states):
        file_no = state.file.file_no
        base = file_no * _FILE
        at, before, found = base, NO_TYPE, False
        while run < len(readable.start) and readable.start[run] >> 32 & 0xFFFFFFFF == file_no:
            start = int(readable.start[run]) & _LARGEST
            if start > at:
                yield LogGap(GapKind.DAMAGED, at, start, before, int(readable.first[run]))
            at, before, found = int(readable.stop[run]) & _LARGEST, int(readable.last[run]), True
            run += 1
        if at < base + state.size:
            yield LogGap(_end_kind(i in ends, found), at, base + state.size, before, NO_TYPE)


def _end_kind(is_end: bool, found: bool) -> GapKind:
    if is_end:
        return GapKind.TAIL
    return GapKind.END_OF_FILE if found else GapKind.WHOLE_FILE


class GapCounter:
    """Counts of what is in each gap, added up over the partitions of a log."""

    def __init__(self, gaps: Sequence[LogGap]) -> None:
        self._gaps = gaps
        self._first = np.array([gap.start for gap in gaps], np.uint64)
        self._last = np.array([gap.stop - 1 for gap in gaps], np.uint64)
        self._named, self._keys, self._held = np.zeros((3, len(gaps)), np.int64)

    def add_named(self, lsns: Ints) -> None:
        """Count the distinct unreadable LSNs that the log names; each LSN is in one call only."""
        self._named += self._in_gaps(np.unique(ordered(lsns)))

    def add_records(self, lsns: Ints, comes_back: Mask) -> None:
        """Count lost records by the LSN of their newest version."""
        self._keys += self._in_gaps(np.sort(ordered(lsns[~comes_back])))
        self._held += self._in_gaps(np.sort(ordered(lsns[comes_back])))

    def gaps(self) -> list[LogGap]:
        """Return the gaps with their counts."""
        counts = (self._named.tolist(), self._keys.tolist(), self._held.tolist())
        return [
            replace(gap, dangling=named, keys=keys, held=held)
            for gap, named, keys, held in zip(self._gaps, *counts, strict=True)
        ]

    def _in_gaps(self, lsns: Ordered) -> Ints:
        stops = np.searchsorted(lsns, self._last, side="right")
        return stops - np.searchsorted(lsns, self._first)
