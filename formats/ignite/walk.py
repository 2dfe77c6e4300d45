"""Records of a segment in columns, and the bytes between them that are no records.

The extension walks from record to record. It trusts a record that names its own segment and
offset, and whose checksum is right. After damage, it searches for the next such record.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from je_tools.formats import _native

if TYPE_CHECKING:
    from je_tools.formats.files.source import Bytes
    from je_tools.formats.ignite.segments import SegmentHeader

HEADER_SIZE = 17
"""Bytes before the payload of a record: type, segment index, offset, length."""

MIN_SIZE = 21
"""Bytes of a record without payload: its header and its checksum."""

GAPS_KEPT = 1000
"""Largest number of gaps kept per segment: a file of nothing else could have millions."""

WINDOW = 2 << 20
"""Bytes that are read at once: they stay in the core's cache until they are decoded."""

ROOM = 0
"""The columns are full."""

NOTHING = -1
"""The segment has been read."""

NO_TYPE = 255
"""Type of a `Stop` whose bytes name none."""


class Cause(IntEnum):
    """Reason why no record can be trusted at an offset."""

    FILE_END = 0
    ZERO = 1
    """A byte of zero: the end of what was written."""
    SWITCH = 2
    """The record that ends a segment."""
    POINTER = 3
    """The record names another segment or offset."""
    TYPE = 4
    """No engine writes a record of this type."""
    LENGTH = 5
    """The length is less than that of a record without payload."""
    CUT = 6
    """The file ends inside the record."""
    CHECKSUM = 7


class Stop(Struct, frozen=True):
    """The place where trusted records end.

    Attributes:
        at: offset in the file.
        cause: reason.
        type_no: index of the type that the bytes name; NO_TYPE for none.
        length: length that the bytes name; 0 for none.
        segment: segment that the bytes name; -1 for none.
        stored, computed: the two checksums, if they are the reason.
    """

    at: int
    cause: Cause
    type_no: int
    length: int
    segment: int
    stored: int
    computed: int


class RecordGap(Struct, frozen=True):
    """Bytes without a trusted record, up to the next one.

    Attributes:
        stop: their start, and why no record can be trusted there.
        end: offset of the next record.
        is_zero: True if all of them are zero.
    """

    stop: Stop
    end: int
    is_zero: bool


class SegmentTail(Struct, frozen=True):
    """The bytes after the last record of a segment.

    Attributes:
        stop: its start, and why no record can be trusted there.
        is_zero: True if all bytes from there are zero.
        stale: number of records of other segments there, at most 16. A reused file has them.
        stale_segment: segment of the first of them.
        unsearched: offset from which the bytes were not searched for records, because too many
            candidates were wrong; the size of the file if all were searched.
    """

    stop: Stop
    is_zero: bool
    stale: int
    stale_segment: int
    unsearched: int


class SegmentRules(Struct, frozen=True):
    """Facts of a segment that the extension needs; see `SegmentHeader`."""

    segment: int
    is_big: bool
    compacted: bool
    summed: bool
    size: int


class RecordColumns(Struct, frozen=True):
    """Headers of records, one element each.

    Attributes:
        at: offset in the file.
        offset: offset in the segment as it was written; differs from `at` if it is compacted.
        length: bytes with header and checksum.
        type_no: index of the type.
    """

    at: npt.NDArray[np.uint32]
    offset: npt.NDArray[np.uint32]
    length: npt.NDArray[np.uint32]
    type_no: npt.NDArray[np.uint8]

    @staticmethod
    def empty(rows: int) -> RecordColumns:
        """Return uninitialized columns of this length."""
        at, offset, length = (np.empty(rows, np.uint32) for _ in range(3))
        return RecordColumns(at, offset, length, np.empty(rows, np.uint8))

    def __len__(self) -> int:
        return len(self.at)

    def select(self, keep: npt.NDArray[np.generic] | slice) -> RecordColumns:
        """Select rows by a mask, by an index array, or by a slice."""
        return RecordColumns(
            self.at[keep], self.offset[keep], self.length[keep], self.type_no[keep]
        )


class RecordRows(Struct, frozen=True):
    """Records of one window of a segment, valid until the next rows are read.

    Attributes:
        header: header of the segment.
        columns: headers of the records.
        data: bytes of the window.
        base: offset of the first byte of `data`.
    """

    header: SegmentHeader
    columns: RecordColumns
    data: Bytes
    base: int

    def __len__(self) -> int:
        return len(self.columns)

    def select(self, keep: npt.NDArray[np.generic] | slice) -> RecordRows:
        """Select rows by a mask, by an index array, or by a slice."""
        return RecordRows(self.header, self.columns.select(keep), self.data, self.base)

    def payload(self, row: int) -> bytes:
        """Return the payload of a record: the bytes between header and checksum."""
        start = int(self.columns.at[row]) - self.base
        stop = start + int(self.columns.length[row])
        return self.data[start + HEADER_SIZE : stop - MIN_SIZE + HEADER_SIZE].tobytes()


class Readable(Protocol):
    """Bytes of a segment, at rest or unpacked."""

    @property
    def size(self) -> int:
        """Number of bytes."""

    def read(self, start: int, stop: int) -> Bytes:
        """Return bytes [start, stop), valid until the next call."""


class SegmentReader:
    """Reader of the records of one segment.

    Attributes:
        gaps: gaps found so far, the first GAPS_KEPT of them.
        gap_count, gap_bytes: number of all gaps, and of their bytes.
        tail: what follows the last record, once all rows have been read.
    """

    def __init__(self, source: Readable, header: SegmentHeader, size: int | None = None) -> None:
        """Make a reader of the first `size` bytes, by default all."""
        self._source = source
        self._header = header
        self._size = source.size if size is None else size
        self.gaps: list[RecordGap] = []
        self.gap_count = 0
        self.gap_bytes = 0
        self.tail: SegmentTail | None = None

    def __iter__(self) -> Iterator[RecordRows]:
        """Yield the records in order; `tail` is set at the end."""
        header, size = self._header, self._size
        rules = SegmentRules(header.segment, header.is_big, header.compacted, header.summed, size)
        walker = _native.SegmentWalker(rules)
        columns = RecordColumns.empty(WINDOW // MIN_SIZE + 1)
        needed = WINDOW
        while needed != NOTHING:
            base = walker.position()
            data = self._source.read(base, min(base + max(needed, WINDOW), size))
            rows, needed = walker.step(data, base, columns)
            if rows:
                yield RecordRows(header, columns.select(slice(0, rows)), data, base)
        self.gaps = [_gap(*each) for each in walker.gaps()]
        self.gap_count, self.gap_bytes = walker.gap_totals()
        tail = walker.tail()
        if tail is not None:
            self.tail = SegmentTail(_stop(*tail[0]), *tail[1:])


def _stop(at: int, cause: int, *rest: int) -> Stop:
    return Stop(at, Cause(cause), *rest)


def _gap(stop: tuple[int, ...], end: int, is_zero: bool) -> RecordGap:
    return RecordGap(_stop(*stop), end, is_zero)
