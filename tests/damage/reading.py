"""Reading a damaged log: entries, gaps and ends as plain numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from je_tools.formats.je.log.entry_rows import Rows
from je_tools.formats.je.log.places import ChainBreak, Gap
from je_tools.formats.je.log.walk import Checksum
from je_tools.log.file_scan import ScanPart
from je_tools.log.opening import open_environment
from je_tools.log.scan import Scanner

Spans = tuple[list[tuple[int, int]], list[tuple[int, int]]]


@dataclass
class Seen:
    """Entries and damage of one file.

    Attributes:
        good, bad: entries (start, stop) with a right and with a wrong checksum.
        gaps, breaks: those of all parts of the file.
        tail, size: end of the last entry, and of the file.
        is_whole: True if the whole file was read.
    """

    good: list[tuple[int, int]] = field(default_factory=list)
    bad: list[tuple[int, int]] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    breaks: list[ChainBreak] = field(default_factory=list)
    tail: int = 0
    size: int = 0
    is_whole: bool = False

    def damaged(self) -> list[tuple[int, int]]:
        """Return all ranges that are not good, and the tail, in order."""
        ranges = self.bad + [(gap.start, gap.stop) for gap in self.gaps]
        if self.tail < self.size:
            ranges.append((self.tail, self.size))
        return sorted(ranges)

    def assert_covers_every_byte(self) -> None:
        """Assert that every byte of the file lies in exactly one entry, gap or tail."""
        at = 0
        for start, stop in sorted(self.good + self.damaged()):
            assert start == at, (start, at)
            assert stop > start
            at = stop
        assert at == self.size


def spans_of(rows: Rows) -> Spans:
    """Return the places of entries with a right, and with a wrong checksum."""
    spans = list(zip(rows.offset.tolist(), (rows.offset + rows.size).tolist(), strict=True))
    is_bad = (rows.checksum == Checksum.BAD).tolist()
    good = [span for span, bad in zip(spans, is_bad, strict=True) if not bad]
    return good, [span for span, bad in zip(spans, is_bad, strict=True) if bad]


def take(seen: list[Seen], part: ScanPart[Any], spans: Sequence[Spans]) -> None:
    """Merge a part of a log into the results of its files."""
    if not seen or seen[-1].is_whole:
        seen.append(Seen())
    for good, bad in spans:
        seen[-1].good += good
        seen[-1].bad += bad
    seen[-1].gaps += part.gaps
    seen[-1].breaks += part.chain_breaks
    if part.end:
        seen[-1].tail, seen[-1].size, seen[-1].is_whole = part.end.tail, part.end.size, True


def read_log(path: Path, *, check: bool = True, threads: int = 2) -> list[Seen]:
    """Read every file of a log, in order."""
    seen: list[Seen] = []
    environment = open_environment([path])
    for part in Scanner(check=check, threads=threads).scan(environment, spans_of):
        take(seen, part, part.results)
    return seen
