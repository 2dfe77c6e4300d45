"""The log of a node as recovery reads it: the copy of each segment that the engine opens.

Source: SegmentRouter.findSegment, FileWriteAheadLogManager, Ignite 2.18.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.core.ordered import map_in_order
from je_tools.formats.ignite.segments import SEGMENT_HEADER_SIZE, SEGMENT_SIZE_MAX
from je_tools.formats.ignite.walk import Cause
from je_tools.ignite.segment_files import Status
from je_tools.ignite.wal.archive import last_archived
from je_tools.ignite.wal.segment_judge import FileJudge
from je_tools.ignite.wal.segment_reading import copies_of, read_segment

if TYPE_CHECKING:
    import numpy.typing as npt

    from je_tools.formats.ignite.walk import Stop
    from je_tools.ignite.segment_files import SegmentFile
    from je_tools.ignite.store import Node
    from je_tools.ignite.wal.segment_judge import SegmentVerdict


class SegmentDamage(Struct, frozen=True):
    """Bytes of a segment that the engine reads, and that are no records.

    Attributes:
        index: index of the segment.
        start, end: half-open range of the bytes.
        stop: why no record can be trusted at their start; None if the segment's header is damaged.
        is_tail: True if no record of the segment follows, and a later segment does.
        problem: why the damage cannot be examined closely, in words; None if it can.
    """

    index: int
    start: int
    end: int
    stop: Stop | None = None
    is_tail: bool = False
    problem: str | None = None


class SegmentState(Struct, frozen=True):
    """A segment, and its files.

    Attributes:
        index: index of the segment.
        is_archived: True if the engine looks for it in the archive.
        read: the file that the engine reads; None if it finds none.
        copies: all files that hold the segment, that one included.
    """

    index: int
    is_archived: bool
    read: SegmentVerdict | None
    copies: tuple[SegmentVerdict, ...]

    @property
    def others(self) -> list[SegmentVerdict]:
        """Copies besides the one that is read, whose every byte can be used."""
        return [
            each
            for each in self.copies
            if each is not self.read
            and not each.file.is_packed
            and each.file.status is Status.READABLE
            and each.end.tail is not None
        ]


class LogState(Struct, frozen=True):
    """The segments of a node from one on.

    Attributes:
        segments: by index; the first of consecutive segments in no file has no copies, and stands
            for all of them.
        last_archived: index of the newest segment of the archive; -1 for none.
    """

    segments: tuple[SegmentState, ...]
    last_archived: int

    @property
    def last(self) -> int:
        """Index of the last segment; -1 for none."""
        return self.segments[-1].index if self.segments else -1

    def damages(self) -> list[SegmentDamage]:
        """Return what recovery cannot read, in the order of the log."""
        return [each for segment in self.segments for each in _damages(segment, self.last)]


def read_log_state(node: Node, first: int, threads: int) -> LogState:
    """Read all files of the segments of a node from `first` on.

    Raises:
        StoppedError: a file shrank, vanished or was replaced while it was read.
    """
    archived = last_archived(node)
    copies = [each for each in copies_of(node) if each.index >= first]
    last = copies[-1].index if copies else -1
    judge = FileJudge(node.name, "", last)
    files = [file for each in copies for file in each.files]
    verdicts = dict(zip(files, map_in_order(judge.judge, files, threads), strict=True))
    by_index = {each.index: each.files for each in copies}
    segments = [
        _segment(node, index, by_index.get(index, ()), verdicts, index <= archived)
        for index in _indexes(by_index, max(first, 0))
    ]
    return LogState(tuple(segments), archived)


def _indexes(known: Iterable[int], first: int) -> Iterator[int]:
    """Yield known indexes in order, and the first missing one of each gap between them.

    A damaged header can name any index, so that a gap can be longer than any list.
    """
    expected = first
    for index in sorted(known):
        if index > expected:
            yield expected
        yield index
        expected = index + 1


def _segment(
    node: Node,
    index: int,
    files: tuple[SegmentFile, ...],
    verdicts: dict[SegmentFile, SegmentVerdict],
    is_archived: bool,
) -> SegmentState:
    place = node.archive if is_archived else node.work
    read = next((verdicts[file] for file in files if file in place), None)
    return SegmentState(index, is_archived, read, tuple(verdicts[file] for file in files))


def _damages(segment: SegmentState, last: int) -> list[SegmentDamage]:
    read = segment.read
    if read is None:
        text = "the segment is in no file that the engine reads"
        return [SegmentDamage(segment.index, 0, SEGMENT_SIZE_MAX, problem=text)]
    if read.end.tail is None:
        text = read.file.problem or "the file cannot be read"
        return [SegmentDamage(segment.index, 0, read.file.size, problem=text)]
    found = []
    if read.file.status is Status.BAD_HEADER:
        found.append(SegmentDamage(segment.index, 0, SEGMENT_HEADER_SIZE))
    problem = "the device did not deliver all bytes" if read.end.unreadable else None
    found += [
        SegmentDamage(segment.index, gap.stop.at, gap.end, gap.stop, problem=problem)
        for gap in read.end.gaps
    ]
    if read.end.gap_count > len(read.end.gaps):
        problem = f"the segment has {read.end.gap_count:,} gaps, too many to repair"
    tail, size = read.end.tail, read.end.size
    if tail.unsearched < size:
        found.append(
            SegmentDamage(
                segment.index, tail.stop.at, size, tail.stop, problem="it was not searched"
            )
        )
    elif segment.index < last and not _is_end(tail.stop, size):
        found.append(
            SegmentDamage(
                segment.index, tail.stop.at, size, tail.stop, is_tail=True, problem=problem
            )
        )
    return found


def _is_end(stop: Stop, size: int) -> bool:
    """Return True if a segment may end so, and be followed by another."""
    is_marked = stop.cause in (Cause.FILE_END, Cause.SWITCH)
    return is_marked or (stop.cause is Cause.ZERO and size - stop.at <= 1)


def record_bounds(file: SegmentFile) -> npt.NDArray[np.int64]:
    """Return the offsets of all records of a file, and that after the last one, ascending."""
    starts = [np.empty(0, np.int64)]
    with read_segment(file) as (rows, end):
        for some in rows:
            at = some.columns.at.astype(np.int64)
            starts += [at, at + some.columns.length]
    assert end.tail is not None
    return np.unique(np.concatenate([*starts, [SEGMENT_HEADER_SIZE]]))
