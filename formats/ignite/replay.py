"""Physical recovery: changes of pages in the log, applied in their order.

A page begins with a record that gives it its whole content. The extension applies the deltas after
it as the engine does, byte for byte. A delta that does not fit its page is noted, and the page is
broken until the next record that gives it its whole content.

Source: GridCacheDatabaseSharedManager.performBinaryMemoryRestore, the classes of
internal.pagemem.wal.record.delta, CheckpointRecoveryFile, Ignite 2.18.0.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from je_tools.formats import _native
from je_tools.formats.ignite.page_image import ChangedPages
from je_tools.formats.ignite.types import RECORD_TYPES, TYPE_COUNT

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.files.source import Bytes, Source
    from je_tools.formats.ignite.walk import RecordRows

PAGE_LAST = (1 << 32) - 1
"""Largest index of a page."""

MISFITS_KEPT = 1000
"""Largest number of misfits to keep; the others are counted."""

RECOVERY_HEADER_SIZE = 22
"""Bytes before the image in a record of a recovery file."""

_WINDOW = 4 << 20
"""Bytes of a recovery file that are read at once."""


class MisfitReason(IntEnum):
    """Reason why a record could not be applied."""

    NO_BASE = 0
    """No record before it gives the page its content."""
    BROKEN = 1
    """The page is broken by a record before it."""
    FIELDS = 2
    """The fields do not decode."""
    TYPE = 3
    """The record changes pages of another type."""
    CONTENT = 4
    """The change does not fit the content of the page."""
    UNSUPPORTED = 5
    """The engine's recovery has no such change."""
    ENCRYPTED = 6
    """The record is encrypted."""
    FULL = 7
    """There are more pages than may be kept."""


class Misfit(Struct, frozen=True):
    """A record that could not be applied.

    Attributes:
        segment: segment of the record; -1 for a recovery file.
        offset: offset of the record.
        type_no: type of the record.
        reason: why it could not be applied.
        group_id: group of the page; 0 if unknown.
        page_id: id of the page; 0 if unknown.
    """

    segment: int
    offset: int
    type_no: int
    reason: MisfitReason
    group_id: int
    page_id: int


class ReplayedPlaces(Struct, frozen=True):
    """Places of pages, in order; int64 (n,) each.

    Attributes:
        group_id: cache group.
        partition: partition; that of an index is INDEX_PARTITION.
        index: index in the file.
        is_broken: bool (n,); pages with a record that could not be applied.
    """

    group_id: Ints
    partition: Ints
    index: Ints
    is_broken: Mask


class PageReplayRules(Struct, frozen=True):
    """Facts that the extension needs."""

    page_size: int
    pages_max: int
    codings: list[bytes]


class PageReplay:
    """A replay: the pages that records have changed, and what could not be applied.

    It keeps at most `pages_max` pages. It packs them before they have many more bytes than the log
    that was read.
    """

    def __init__(self, page_size: int, pages_max: int) -> None:
        """Make a replay without pages."""
        self.page_size = page_size
        types = (RECORD_TYPES.get(no) for no in range(TYPE_COUNT))
        codings = [bytes(f.coding for f in each.fields) if each else b"" for each in types]
        self._replay = _native.PageReplay(PageReplayRules(page_size, pages_max, codings))

    def apply(self, rows: RecordRows) -> None:
        """Apply records of a segment in their order; those that change no page are skipped."""
        header = rows.header
        self._replay.apply(rows.data, rows.base, rows.columns, header.segment, header.is_big)

    def take_recovered(self, source: Source, *, is_big: bool) -> int:
        """Apply the pages of a recovery file; return the number of bytes that could be read."""
        at, needed = 0, RECOVERY_HEADER_SIZE
        while needed and at + needed <= source.size:
            data = source.read(at, min(at + max(_WINDOW, needed), source.size))
            size, needed = self._replay.take_recovered(data, at, is_big)
            at += size
        return at

    @property
    def applied(self) -> npt.NDArray[np.uint64]:
        """Number of applied records of each type, by type."""
        return self._replay.applied()

    def misfits(self) -> tuple[list[Misfit], int]:
        """Return the first records that could not be applied, and the number of all."""
        rows, count = self._replay.misfits()
        found = [
            Misfit(segment, offset, type_no, MisfitReason(reason), group, page)
            for segment, offset, type_no, reason, group, page in rows
        ]
        return found, count

    def destroyed(self) -> list[tuple[int, int]]:
        """Return the groups and partitions that are to be destroyed."""
        return self._replay.destroyed()

    def places(self) -> ReplayedPlaces:
        """Return the places of all pages, by group, partition and index."""
        return ReplayedPlaces(*self._replay.places())

    def whole_pages(self, group_id: int, partition: int) -> Ints:
        """Return the indexes of the whole pages of a partition, ascending."""
        return self._replay.whole_pages(group_id, partition)

    def pages_of(
        self, group_id: int, partition: int, first: int = 0, last: int = PAGE_LAST
    ) -> tuple[Ints, Bytes]:
        """Return whole pages of a partition: indexes (n,) and bytes (n, page size).

        The pages are uncompressed, and have their checksums.

        Args:
            group_id: cache group.
            partition: partition.
            first, last: first and last index of the pages to return.
        """
        return self._replay.plain_pages(group_id, partition, first, last)

    def page(self, group_id: int, partition: int, index: int) -> Bytes | None:
        """Return a whole page, uint8 (page size,); None if there is none."""
        _, pages = self.pages_of(group_id, partition, index, index)
        return pages[0] if len(pages) else None

    def changed_pages(self, group_id: int, partition: int) -> ChangedPages:
        """Return the whole pages of a partition as an image has them."""
        return ChangedPages(self.page_size, *self._replay.packed_pages(group_id, partition))
