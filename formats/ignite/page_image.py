"""Pages of one file as they are, or as physical recovery would leave them."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from je_tools.formats import _native

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints
    from je_tools.formats.files.source import Bytes
    from je_tools.formats.ignite.pages import PageFileHeader


class PageFault(IntEnum):
    """Reason why a page of an image cannot be read."""

    ABSENT = 1
    """The file ends before the page."""
    ZERO = 2
    """All bytes are zero."""
    CUT = 3
    """The file ends inside the page."""
    CHECKSUM = 4
    MISPLACED = 5
    """The checksum is right, and the id is that of another place."""
    ENCRYPTED = 6
    PACKED = 7
    """The page does not unpack."""


class ChangedPages(Struct, frozen=True):
    """Pages of one file that were changed in memory, without checksums.

    Attributes:
        page_size: bytes of a page.
        indexes: int64 (n,), indexes of the pages, ascending.
        starts: int64 (n + 1,), start of each page in `data`, and the end of the last one.
        data: uint8, the pages: plain, or packed if they have fewer bytes than a page.
    """

    page_size: int
    indexes: Ints
    starts: Ints
    data: Bytes

    @classmethod
    def none(cls, page_size: int) -> ChangedPages:
        """Return no pages."""
        return cls(page_size, np.empty(0, np.int64), np.zeros(1, np.int64), np.empty(0, np.uint8))

    @classmethod
    def plain(cls, indexes: Ints, pages: npt.NDArray[np.uint8]) -> ChangedPages:
        """Return plain pages, uint8 (n, page size)."""
        count, size = pages.shape
        return cls(size, indexes, np.arange(count + 1) * size, pages.reshape(-1))


class PageImage(Struct, frozen=True):
    """The pages of one file, of which some may have been changed in memory.

    Attributes:
        base: the bytes of the file, mapped or in memory; empty for a file that is only in memory.
        header_size: bytes before the first page.
        page_size: bytes of a page.
        is_big: True if the writer's numbers have the highest byte first.
        partition: partition in the ids of the pages.
        changed: pages that were changed.
    """

    base: Bytes
    header_size: int
    page_size: int
    is_big: bool
    partition: int
    changed: ChangedPages

    @property
    def page_count(self) -> int:
        """Number of pages, of which the last in the file may be cut."""
        stored = -(-max(len(self.base) - self.header_size, 0) // self.page_size)
        indexes = self.changed.indexes
        changed = int(indexes[-1]) + 1 if len(indexes) else 0
        return max(stored, changed)


def page_image(
    base: Bytes,
    header: PageFileHeader,
    partition: int,
    changed: ChangedPages | None = None,
) -> PageImage:
    """Return the image of a file.

    Args:
        base: its bytes, as in `PageImage`.
        header: its header.
        partition: partition in the ids of its pages.
        changed: pages that were changed; None for the file as it is.
    """
    size = header.page_size
    changed = changed or ChangedPages.none(size)
    return PageImage(base, header.size, size, header.is_big, partition, changed)


def read_image_pages(
    image: PageImage, indexes: Ints
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """Return pages of an image, whole and plain.

    The checksum and the place of a page are checked unless it was changed in memory.

    Returns:
        uint8 (n, page_size), zeros in place of pages that cannot be read; uint8 (n,), a
        `PageFault` for each page, or 0.
    """
    return _native.image_pages(image, indexes)
