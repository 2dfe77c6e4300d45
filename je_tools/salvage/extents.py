"""Readable extents of a log: runs of whole entries with gaps between them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec import Struct

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.je.log.entry_rows import Rows

NO_TYPE = 0
"""Type of the entry beside a gap if there is none."""

Ordered = npt.NDArray[np.uint64]
"""LSNs that compare in log order: as int64, those of files from 0x80000000 on are negative."""


def ordered(lsns: Ints) -> Ordered:
    """Return LSNs as numbers that compare in log order, without a copy."""
    return lsns.view(np.uint64)


class RangeExtents(Struct, frozen=True):
    """Readable extents of one scanned range: runs of adjacent good entries.

    Attributes:
        file_no: number of the file.
        start, stop: int64 (n,); offsets in the file.
        first, last: uint8 (n,); types of the first and the last entry of each run.
    """

    file_no: int
    start: Ints
    stop: Ints
    first: npt.NDArray[np.uint8]
    last: npt.NDArray[np.uint8]


def range_extents(rows: Rows, mask: Mask) -> RangeExtents:
    """Return the runs of adjacent entries among the rows that a mask selects, in log order."""
    good = np.flatnonzero(mask)
    start = rows.offset[good].astype(np.int64)
    stop = start + rows.size[good]
    begins = np.ones(len(good), np.bool_)
    begins[1:] = start[1:] != stop[:-1]
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(good))[: len(first)] - 1
    types = rows.type[good]
    return RangeExtents(rows.file_no, start[first], stop[last], types[first], types[last])


class ReadableExtents(Struct, frozen=True):
    """Readable extents of a whole log, in log order.

    Attributes:
        start, stop: int64 (n,); LSNs.
        first, last: uint8 (n,); types of the first and the last entry of each run.
    """

    start: Ints
    stop: Ints
    first: npt.NDArray[np.uint8]
    last: npt.NDArray[np.uint8]

    @classmethod
    def of(cls, parts: Iterable[RangeExtents]) -> ReadableExtents:
        """Combine the runs of all ranges, given in log order; adjacent runs become one."""
        every = list(parts)
        none = np.empty(0, np.int64)
        no_types = np.empty(0, np.uint8)
        base = [np.int64(part.file_no) << np.int64(32) for part in every]
        pairs = list(zip(base, every, strict=True))
        start = np.concatenate([none, *(part.start | file for file, part in pairs)])
        # A file that is full to its last possible byte ends where the next file begins.
        stop = np.concatenate([none, *(part.stop + file for file, part in pairs)])
        first = np.concatenate([no_types, *(part.first for part in every)])
        last = np.concatenate([no_types, *(part.last for part in every)])
        begins = np.ones(len(start), np.bool_)
        begins[1:] = start[1:] != stop[:-1]
        ends = np.append(begins[1:], True)[: len(begins)]
        return cls(start[begins], stop[ends], first[begins], last[ends])

    @property
    def ends(self) -> Ints:
        """LSNs at which a gap between two runs of a file begins: int64, in log order."""
        followed: Ints = self.stop[:-1][self.stop[:-1] >> 32 == self.start[1:] >> 32]
        return followed

    def is_lost(self, lsns: Ints) -> Mask:
        """Return a mask of the LSNs that cannot be read or do not exist."""
        if not len(self.start):
            return np.ones(len(lsns), np.bool_)
        start, stop = self.start, self.stop
        if (start[1:] < start[:-1]).any():
            # LSNs of files from 0x80000000 on are negative.
            order = np.argsort(start)
            start, stop = start[order], stop[order]
        run = np.searchsorted(start, lsns, side="right") - 1
        inside = (run >= 0) & (lsns < stop[np.maximum(run, 0)])
        return ~inside
