"""Blanks: the bytes of a file's entries that become zeros, and the new checksums."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from je_tools.erase.entries_to_erase import EntriesToErase
from je_tools.erase.judging import rows_to_erase
from je_tools.formats.je.header import MAX_HEADER_SIZE, MIN_HEADER_SIZE
from je_tools.formats.je.write.blanking import blanking_of
from je_tools.log.file_scan import FilePiece

if TYPE_CHECKING:
    from je_tools.erase.judging import ErasureRules
    from je_tools.formats.arrays import Ints
    from je_tools.formats.je.log.entry_rows import Rows
    from je_tools.log.log_files import LogFile
    from je_tools.log.scan import Scanner

RANGES_MAX = 1 << 17
"""Largest number of ranges that are kept together, except those of a single entry."""

_ENTRY = np.dtype(
    [
        ("offset", "<u4"),
        ("header_size", "u1"),
        ("type", "u1"),
        ("item_size", "<u4"),
        ("checksum", "<u4"),
        ("range_count", "<u4"),
    ]
)
_RANGE = np.dtype([("start", "<u4"), ("size", "<u4")])


class Blanks(Struct, frozen=True):
    """Entries of one file that become blank, ascending.

    Attributes:
        entries: the entries.
        checksum: uint32 (n,); their checksums afterwards.
        start, size: int64 (m,); ranges of the file that become zeros, ascending.
        first: int64 (n + 1,); the ranges of entry i are [first[i], first[i + 1]).
    """

    entries: EntriesToErase
    checksum: npt.NDArray[np.uint32]
    start: Ints
    size: Ints
    first: Ints

    @classmethod
    def of(cls, rows: Rows, duplicates_ids: Ints) -> Blanks:
        """Return the blanks of entries; see `blanking_of`."""
        blanking = blanking_of(rows, duplicates_ids)
        ranges = blanking.ranges
        return cls(
            EntriesToErase.of(rows),
            blanking.checksums(),
            ranges.starts + rows.base,
            ranges.sizes,
            blanking.first,
        )

    def __len__(self) -> int:
        return len(self.entries)

    def batches(self) -> Iterator[Blanks]:
        """Yield entries with about RANGES_MAX ranges at a time."""
        start = 0
        while start < len(self):
            most = int(self.first[start]) + RANGES_MAX
            stop = max(int(np.searchsorted(self.first, most, side="right")) - 1, start + 1)
            yield self._part(start, stop)
            start = stop

    def _part(self, start: int, stop: int) -> Blanks:
        first = self.first[start : stop + 1]
        ranges = slice(int(first[0]), int(first[-1]))
        return Blanks(
            self.entries.part(slice(start, stop)),
            self.checksum[start:stop],
            self.start[ranges],
            self.size[ranges],
            first - first[0],
        )

    def encode(self) -> bytes:
        """Encode the blanks; the bytes hold no key or data of a record."""
        entries = np.empty(len(self), _ENTRY)
        for name in ("offset", "header_size", "type", "item_size"):
            entries[name] = getattr(self.entries, name)
        entries["checksum"] = self.checksum
        entries["range_count"] = np.diff(self.first)
        ranges = np.empty(len(self.start), _RANGE)
        # The distance to the entry has fewer different bytes, so it is compressed better.
        ranges["start"] = self.start - np.repeat(self.entries.offset, np.diff(self.first))
        ranges["size"] = self.size
        return entries.tobytes() + ranges.tobytes()

    @classmethod
    def decode(cls, data: bytes, entry_count: int) -> Blanks:
        """Decode the bytes that `encode` returns.

        Args:
            data: the bytes, which may be damaged.
            entry_count: number of entries.

        Raises:
            ValueError: they are no blanks.
        """
        split = entry_count * _ENTRY.itemsize
        if not 0 < entry_count <= len(data) // _ENTRY.itemsize:
            raise ValueError("too few bytes")
        entries = np.frombuffer(data[:split], _ENTRY)
        if (len(data) - split) % _RANGE.itemsize:
            raise ValueError("a part of a range")
        ranges = np.frombuffer(data[split:], _RANGE)
        counts = entries["range_count"].astype(np.int64)
        first = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))
        if first[-1] != len(ranges):
            raise ValueError("another number of ranges")
        offset = entries["offset"].astype(np.int64)
        found = cls(
            EntriesToErase(
                offset,
                entries["header_size"].astype(np.int64),
                entries["item_size"].astype(np.int64),
                entries["type"].copy(),
            ),
            entries["checksum"].copy(),
            ranges["start"].astype(np.int64) + np.repeat(offset, counts),
            ranges["size"].astype(np.int64),
            first,
        )
        found.check()
        return found

    def check(self) -> None:
        """Check that entries follow each other, and that ranges lie in their entries.

        Raises:
            ValueError: an entry or a range is out of place.
        """
        entries = self.entries
        ends = entries.offset + entries.size
        known = (entries.header_size == MIN_HEADER_SIZE) | (entries.header_size == MAX_HEADER_SIZE)
        if not known.all() or (entries.offset[1:] < ends[:-1]).any():
            raise ValueError("entries that overlap, or have a wrong header")
        owner = np.repeat(np.arange(len(self)), np.diff(self.first))
        stop = self.start + self.size
        outside = (self.start < entries.item_offset[owner]) | (stop > ends[owner])
        if outside.any() or (self.size <= 0).any() or (self.start[1:] < stop[:-1]).any():
            raise ValueError("ranges that overlap, or leave their entry")


def find_blanks(file: LogFile, scanner: Scanner, rules: ErasureRules) -> Iterator[Blanks]:
    """Yield the entries of a file to overwrite in kind, in batches.

    Raises:
        StoppedError: the file shrank, vanished or was replaced.
        InputError: it cannot be read.
    """

    def collect(rows: Rows) -> Blanks:
        return Blanks.of(rows_to_erase(rows.without_damaged(), rules), rules.duplicates_ids)

    for part in scanner.scan_piece(FilePiece(file), collect):
        for blanks in part.results:
            yield from blanks.batches()
