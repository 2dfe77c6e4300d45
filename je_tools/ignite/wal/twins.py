"""Copies of one segment that hold different records, each of them whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from je_tools.findings import Severity
from je_tools.formats.ignite.segments import SEGMENT_HEADER_SIZE
from je_tools.ignite.node_findings import NodeFinding
from je_tools.ignite.segment_files import open_segment_bytes

if TYPE_CHECKING:
    from je_tools.ignite.wal.segment_judge import FileJudge, SegmentVerdict

_PIECE = 1 << 20


def differing_twins(verdicts: Sequence[SegmentVerdict], judge: FileJudge) -> Iterator[NodeFinding]:
    """Yield segments whose copies differ in bytes that are trusted records in both.

    Compacted copies are not compared. Gaps are findings of their own, and so is an early end.

    Raises:
        StoppedError: a file shrank, vanished or was replaced while it was read.
    """
    by_segment: dict[int, list[SegmentVerdict]] = {}
    for verdict in verdicts:
        header, end = verdict.file.header, verdict.end
        is_known = end.tail is not None and end.gap_count == len(end.gaps)
        if header is not None and is_known and not verdict.file.is_packed:
            by_segment.setdefault(header.segment, []).append(verdict)
    for index, copies in sorted(by_segment.items()):
        first = copies[0]
        for other in copies[1:]:
            found = _difference(first, other)
            if found is not None:
                offset, count = found
                yield NodeFinding(
                    "wal-copies-differ",
                    Severity.ERROR,
                    judge.node,
                    judge.path(other.file),
                    index,
                    offset=offset,
                    expected=f"the records in {judge.path(first.file)}",
                    found=f"{count:,} other bytes in records with right checksums",
                )


def _difference(first: SegmentVerdict, second: SegmentVerdict) -> tuple[int, int] | None:
    """Return the offset of the first byte that differs, and the number of them; None for none."""
    offset, count = None, 0
    with (
        open_segment_bytes(first.file.path, is_packed=False) as one,
        open_segment_bytes(second.file.path, is_packed=False) as two,
    ):
        for start, stop in _common(first, second):
            for at in range(start, stop, _PIECE):
                end = min(at + _PIECE, stop)
                # A read is valid until this thread reads again, of whatever file.
                copied = one.read(at, end).copy()
                differ = np.flatnonzero(copied != two.read(at, end))
                if len(differ):
                    offset = at + int(differ[0]) if offset is None else offset
                    count += len(differ)
    return None if offset is None else (offset, count)


def _common(first: SegmentVerdict, second: SegmentVerdict) -> Iterator[tuple[int, int]]:
    """Yield the half-open ranges that are trusted records in both copies."""
    assert first.end.tail is not None
    assert second.end.tail is not None
    stop = min(first.end.tail.stop.at, second.end.tail.stop.at)
    gaps = sorted((gap.stop.at, gap.end) for each in (first, second) for gap in each.end.gaps)
    reached = SEGMENT_HEADER_SIZE
    edges = [(0, reached), *gaps, (stop, stop)]
    for (_, before), (after, _) in pairwise(edges):
        reached = max(reached, before)
        if reached < min(after, stop):
            yield reached, min(after, stop)
