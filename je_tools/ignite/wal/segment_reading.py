"""The write-ahead log of a node: one readable copy of each segment, and its records."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.ignite.segment_files import SegmentFile, Status, segment_reader

if TYPE_CHECKING:
    from je_tools.formats.ignite.walk import RecordGap, RecordRows, SegmentTail
    from je_tools.ignite.store import Node


class SegmentCopies(Struct, frozen=True):
    """The files that hold one segment.

    Attributes:
        index: absolute index.
        files: its copies, the best first: archived, then in the ring, then compacted.
    """

    index: int
    files: tuple[SegmentFile, ...]

    @property
    def chosen(self) -> SegmentFile:
        """The copy that is read."""
        return self.files[0]


def has_records(segment: SegmentFile) -> bool:
    """Return True if the records of a file can be read, even if its header is damaged."""
    return segment.header is not None and segment.status in (Status.READABLE, Status.BAD_HEADER)


def copies_of(node: Node) -> list[SegmentCopies]:
    """Return the segments of a node that can be read, in the order of their indexes."""
    by_index: dict[int, list[SegmentFile]] = {}
    for segment in node.segments:
        if has_records(segment) and segment.header is not None:
            by_index.setdefault(segment.header.segment, []).append(segment)
    return [
        # A packed copy has fewer records, and a derived header may be wrong.
        SegmentCopies(
            index, tuple(sorted(files, key=lambda each: (each.is_packed, each.is_derived)))
        )
        for index, files in sorted(by_index.items())
    ]


class SegmentEnd(Struct):
    """Gaps and end of a segment that has been read; empty before that.

    Attributes:
        gaps: gaps between records, the first 1,000 of them.
        gap_count, gap_bytes: number of all gaps, and of their bytes.
        tail: what follows the last record; None before the end.
        size: bytes of the segment, unpacked.
        unreadable: half-open ranges that the device could not deliver.
        problem: why a compacted segment could not be unpacked to its end.
        directory_problem: what is wrong with its directory, which the engine does not read.
    """

    gaps: list[RecordGap] = []
    gap_count: int = 0
    gap_bytes: int = 0
    tail: SegmentTail | None = None
    size: int = 0
    unreadable: list[tuple[int, int]] = []
    problem: str | None = None
    directory_problem: str | None = None


@contextmanager
def read_segment(segment: SegmentFile) -> Iterator[tuple[Iterator[RecordRows], SegmentEnd]]:
    """Open a segment: its records, and an object that is filled once they have been read.

    Raises:
        InputError: the file cannot be read.
        StoppedError: it shrank, vanished or was replaced while it was read.
    """
    end = SegmentEnd()
    with segment_reader(segment) as (reader, source):

        def rows() -> Iterator[RecordRows]:
            yield from reader
            end.gaps = reader.gaps
            end.gap_count, end.gap_bytes = reader.gap_count, reader.gap_bytes
            end.tail, end.size = reader.tail, source.size
            end.unreadable = sorted(getattr(source, "unreadable", ()))
            end.problem = getattr(source, "problem", None)
            end.directory_problem = getattr(source, "directory_problem", None)

        yield rows(), end
