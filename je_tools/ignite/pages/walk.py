"""Walking the trees, lists and rows of files of pages, as recovery would leave them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.core.ordered import map_in_order
from je_tools.errors import StoppedError
from je_tools.formats.ignite.check import Structure, check_structure
from je_tools.formats.ignite.ids import cache_id
from je_tools.formats.ignite.pages import PageState
from je_tools.ignite.pages.images import mapped_image

if TYPE_CHECKING:
    from je_tools.formats.ignite.replay import PageReplay
    from je_tools.ignite.pages.files import PageFile
    from je_tools.ignite.pages.scan import PageFileScan

_HOLLOW_PAGES = 1 << 20
_HOLLOW_SHARE = 64
"""A file of more pages is not walked if it is this many times as large as what is stored of it.

A walk needs up to 36 bytes for each page. Of a compressed page, a quarter is stored at least.
"""

HOLLOW = "most of it is a hole, which no node leaves"
"""Reason not to walk a file."""

CacheRows = dict[str, Counter[int]]
"""Rows by group and cache; -1 for the cache of a group that has one only."""

Walked = tuple["PageFileScan", "Structure | str | None"]
"""Pages of a file; what they lead to, why that was not checked, or None if there is nothing."""


class LostPages(Struct, frozen=True):
    """Consecutive pages that something leads to, and that are gone from the end of a file.

    Attributes:
        page: index of the first page.
        pages: number of pages.
        is_absent: True if they are after the end of the file; False if they are zeros at its end.
    """

    page: int
    pages: int
    is_absent: bool


def add_rows(rows: CacheRows, file: PageFile, structure: Structure) -> None:
    """Add the rows of a file to those of others."""
    own = rows.setdefault(file.group, Counter())
    own.update({cache: counts[0] for cache, counts in structure.places.items()})


def lost_pages(scan: PageFileScan, structure: Structure) -> Iterator[LostPages]:
    """Yield the pages that a file has lost at its end, in order.

    No node makes a file shorter, and it writes each page before another one leads to it.
    """
    gone = np.array([each for each in structure.missing if each >= scan.written], np.int64)
    in_file = int(np.searchsorted(gone, scan.file.pages))
    for some, is_absent in ((gone[:in_file], False), (gone[in_file:], True)):
        for run in np.split(some, np.flatnonzero(np.diff(some) != 1) + 1):
            if len(run):
                yield LostPages(int(run[0]), len(run), is_absent)


class Walk:
    """Walk through the files of one node."""

    def __init__(self, threads: int, problem: str | None, replay: PageReplay | None = None) -> None:
        """Make a walk.

        Args:
            threads: number of files to read at once.
            problem: why no file can be walked; None if files can.
            replay: pages that recovery writes; None if it writes none.
        """
        self.threads = threads
        self._problem = problem
        self._replay = replay

    def files(self, scans: Iterable[PageFileScan]) -> Iterator[Walked]:
        """Yield files in their order, with what their pages lead to.

        Raises:
            StoppedError: a file shrank, vanished or was replaced while it was read.
        """
        return map_in_order(self._walked, scans, self.threads)

    def _walked(self, scan: PageFileScan) -> Walked:
        file = scan.file
        if file.header is None or not file.pages:
            return scan, None
        if self._problem is not None:
            return scan, self._problem
        if scan.states[PageState.ENCRYPTED]:
            return scan, "its pages are encrypted"
        if scan.problem is not None or scan.states[PageState.UNREADABLE]:
            return scan, "the device did not deliver its pages"
        if _is_hollow(file):
            return scan, HOLLOW
        if scan.has_unread_trees:
            return scan, "trees of multi-version caches, or of the oldest layout, are not read"
        changed = None
        if self._replay is not None:
            changed = self._replay.changed_pages(cache_id(file.group), file.partition)
        with mapped_image(file, changed) as image:
            return scan, check_structure(image, np.concatenate(scan.page_states))


def _is_hollow(file: PageFile) -> bool:
    """Return True if nearly all of a large file is a hole.

    Some file systems do not tell what is stored, and say zero.
    """
    try:
        stored = file.path.stat().st_blocks * 512
    except OSError as error:
        raise StoppedError(f"{file.path}: {error.strerror}") from error
    return file.pages > _HOLLOW_PAGES and file.size > stored * _HOLLOW_SHARE > 0
