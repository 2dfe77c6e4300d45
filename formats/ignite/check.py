"""Structure of the pages of a file: trees, rows, lists, counts, and pages that nothing names.

Source: PagePartitionMetaIO, PageMetaIO, BPlusTree, PagesList, AbstractDataPageIO, Ignite 2.18.0.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.formats import _native
from je_tools.formats.ignite.page_image import PageFault
from je_tools.formats.ignite.pages import PageState

if TYPE_CHECKING:
    import numpy.typing as npt

    from je_tools.formats.ignite.page_image import PageImage

POWERS = 17
"""Powers of two that are tried as the number of partitions, 2^0 and more."""


class DefectKind(IntEnum):
    """Kind of a defect."""

    PAGE = 0
    """A page that is needed cannot be read; the value is its `PageFault`."""
    TYPE = 1
    """A page has a type that does not belong there; the value is the type."""
    COUNT = 2
    """A page states more items than it has room for."""
    TWICE = 3
    """Two links lead to a page."""
    ELSEWHERE = 4
    """A link leads to another partition."""
    CHAIN = 5
    """A page links to another page than the level above names; the value is the one named."""
    LOST = 6
    """The pages after this one in its level are not known."""
    ORDER = 7
    """The items of a page are not in order; the value is the place of the first."""
    BOUNDS = 8
    """The items of a page are not between those beside the link to it; the value is the page
    above."""
    ROW = 9
    """The link of an item does not lead to a row; the value is the fault."""
    ITEMS = 10
    """The items of a data page overlap, or lie outside of it."""
    FREE = 11
    """A data page states a wrong number of free bytes; the value is the right one."""
    UNNAMED = 12
    """No tree leads to an item of a data page; the value is the item."""
    EXPIRY = 13
    """An item of an expiry tree has no row; the value is its link."""
    LIST = 14
    """A list and its pages do not name each other; the value is the page."""
    ROWS = 15
    """The meta page states a wrong number of rows; the value is that number."""
    CACHE_ROWS = 16
    """The stated number of rows of a cache is wrong; page: the cache, value: the number."""
    ORPHAN = 17
    """Nothing leads to a page that was written."""
    CACHES = 18
    """There are more caches than are counted; the value is the number of those that are."""


class Defect(Struct, frozen=True):
    """One defect: its kind, the page, and a value that depends on the kind."""

    kind: DefectKind
    page: int
    value: int


class Structure(Struct, frozen=True):
    """Findings of one file.

    Attributes:
        defects: the first of each kind.
        counts: number of all defects by kind.
        trees: number of trees.
        rows: number of rows that can be read.
        expected_rows: number of rows by the meta page; -1 for a file without.
        places: by cache (-1 for that of the file): the number of rows, and for each power of two,
            the number of rows whose key belongs to this partition if there are that many
            partitions.
        missing: pages, ascending, that something leads to, and that are zeros or after the end of
            the file; the first 65,536.
    """

    defects: list[Defect]
    counts: dict[DefectKind, int]
    trees: int
    rows: int
    expected_rows: int
    places: dict[int, list[int]]
    missing: list[int]


def _verdicts() -> npt.NDArray[np.uint8]:
    """Return the `PageFault` of each `PageState`, 0 for those that can be read."""
    faults = np.full(len(PageState), PageFault.CHECKSUM, np.uint8)
    faults[[PageState.GOOD, PageState.UNSUMMED]] = 0
    faults[PageState.ZERO] = PageFault.ZERO
    faults[PageState.ENCRYPTED] = PageFault.ENCRYPTED
    faults[PageState.CUT] = PageFault.CUT
    faults[PageState.MISPLACED] = PageFault.MISPLACED
    return faults


_VERDICTS = _verdicts()


def check_structure(image: PageImage, states: npt.NDArray[np.uint8]) -> Structure:
    """Check what the first page of an image leads to, and what nothing leads to.

    Args:
        image: the pages of a partition, an index or the metastorage.
        states: uint8, a `PageState` for each page that was judged; others are judged here.
    """
    found = _native.check_pages(image, _VERDICTS[states])
    defects, counts, trees, rows, expected, places, missing = found
    return Structure(
        [Defect(DefectKind(kind), page, value) for kind, page, value in defects],
        {kind: counts[kind] for kind in DefectKind if counts[kind]},
        trees,
        rows,
        expected,
        dict(places),
        missing,
    )
