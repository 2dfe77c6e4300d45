"""The write-ahead log of a node: one readable copy of each segment, and its records."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.errors import InputError
from je_tools.formats.files.source import Source
from je_tools.ignite.segment_files import SegmentFile, Status, opened_segment, segment_reader

if TYPE_CHECKING:
    from pathlib import Path

    from je_tools.formats.ignite.walk import RecordGap, RecordRows, SegmentTail
    from je_tools.ignite.store import Node


_ENTRY = b"PK\x03\x04"


class SegmentCopies(Struct, frozen=True):
    """The files that hold one segment.

    Attributes:
        index: absolute index.
        files: its copies, the one to read first: archived, in the ring, compacted.
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


def last_archived(node: Node) -> int:
    """Return the index of the newest segment of the archive; -1 for none.

    The engine reads it from the header. It passes over files that have none, whatever their names.

    Source: FileWriteAheadLogManager.scan, Ignite 2.18.0, and starts of a node on such archives.
    """
    headers = (each.header for each in node.archive)
    return max((header.segment for header in headers if header is not None), default=-1)


def in_the_way(node: Node) -> list[SegmentFile]:
    """Return the files without a header that have the names of segments to be archived.

    At its start, the node archives each complete segment of the ring, and does not start if a file
    has its name. It halts later if a file has the name of the segment that it writes, or of one
    after that; see `is_due`.

    Source: starts of a node of 2.18 on such archives.
    """
    last = last_archived(node)
    return [
        each
        for each in node.archive
        if each.number > last and each.header is None and not each.is_packed
    ]


def is_due(node: Node, file: SegmentFile) -> bool:
    """Return True if a node archives the segment with the name of a file when it starts."""
    ring = _ring(node)
    return file.number in ring and file.number < max(ring)


def may_be_only_copy(node: Node, file: SegmentFile) -> bool:
    """Return True if a file of `in_the_way` may have records that no other file has.

    It may, unless it is all zeros, or the ring has the segment with its name.

    Raises:
        StoppedError: it shrank, vanished or was replaced while it was read.
    """
    if file.number in _ring(node):
        return False
    try:
        with opened_segment(file.path, is_packed=False) as source:
            return not (isinstance(source, Source) and source.is_blank(0, source.size))
    except InputError:
        return True


def is_after_ring(node: Node, file: SegmentFile) -> bool:
    """Return True if a file has the name of a segment that comes after those of the ring."""
    ring = _ring(node)
    return bool(ring) and file.number > max(ring)


def _ring(node: Node) -> set[int]:
    """Return the segments of the ring that can be read."""
    return {each.header.segment for each in node.work if each.header is not None}


def without_entry(node: Node) -> list[SegmentFile]:
    """Return the ZIPs of the archive that do not begin with an entry; no node starts with one.

    Source: starts of a node of 2.18 on an empty ZIP, and on one of other bytes.
    """
    return [
        each
        for each in node.archive
        if each.is_packed and each.header is None and not _begins_with_entry(each.path)
    ]


def _begins_with_entry(path: Path) -> bool:
    try:
        with opened_segment(path, is_packed=False) as source:
            start = source.read(0, min(len(_ENTRY), source.size)).tobytes()
    except InputError:
        # Another finding says that it cannot be read.
        return True
    return start == _ENTRY


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
