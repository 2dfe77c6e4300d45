"""Sets of pages, by which runs of pages are split."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from je_tools.formats.ignite.page_ids import index_of, partition_of

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints


class PageSet:
    """Pages of a node: the indexes of those in each partition."""

    def __init__(self, places: Iterable[tuple[int, int]]) -> None:
        """Make a set from ids of groups, each with the bits of a page id that `place_id` keeps."""
        found: dict[tuple[int, int], list[int]] = {}
        for group, page_id in places:
            found.setdefault((group, partition_of(page_id)), []).append(index_of(page_id))
        self._indexes = {key: np.array(sorted(some), np.int64) for key, some in found.items()}

    def split(
        self, group: int, partition: int, start: int, stop: int
    ) -> Iterator[tuple[int, int, bool]]:
        """Yield the half-open parts of a range of pages, and whether their pages are in the set."""
        indexes = self._indexes.get((group, partition))
        if indexes is None:
            indexes = np.empty(0, np.int64)
        inside = indexes[np.searchsorted(indexes, start) : np.searchsorted(indexes, stop)]
        for first, after in _ranges(inside):
            if start < first:
                yield start, first, False
            yield first, after, True
            start = after
        if start < stop:
            yield start, stop, False


def _ranges(indexes: Ints) -> Iterator[tuple[int, int]]:
    """Yield half-open ranges of consecutive indexes, which ascend."""
    if len(indexes):
        borders = np.flatnonzero(np.diff(indexes) != 1)
        firsts = indexes[np.append(0, borders + 1)].tolist()
        lasts = indexes[np.append(borders, len(indexes) - 1)].tolist()
        yield from ((first, last + 1) for first, last in zip(firsts, lasts, strict=True))
