"""Sets of transaction ids, with about one bit for each: a log may have a thousand million."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints, Mask

PENDING_MAX = 1 << 22
"""Number of ids that are collected before they become bits."""

_DENSE = 16
"""Largest ratio of the range of values to their number for which a lookup table is built."""

_PAGE_BITS = 16
_PAGE_SIZE = 1 << _PAGE_BITS - 3
"""Bytes of the bits of one page of ids."""

_PAGE_MIN = _PAGE_SIZE // 8
"""Fewest ids of a page that becomes bits: the bits of fewer would be larger than the ids."""


class TransactionIds:
    """A set of transaction ids to which ids are added.

    Ids are nearly consecutive, so pages of bits hold them. Ids that lie apart are kept as numbers.

    Attributes:
        count: number of ids that were added, including repeated ones.
    """

    def __init__(self) -> None:
        self.count = 0
        self._new: list[Ints] = []
        self._new_count = 0
        self._apart: Ints = np.empty(0, np.int64)
        self._pages: dict[int, np.ndarray[tuple[int], np.dtype[np.uint8]]] = {}
        self._bits = np.empty(0, np.uint8)
        self._numbers: Ints = np.empty(0, np.int64)

    def add(self, ids: Ints) -> None:
        """Add ids."""
        self.count += len(ids)
        self._new.append(ids)
        self._new_count += len(ids)
        # The ids that lie apart are sorted again, so wait until there are as many new ones.
        if self._new_count > max(PENDING_MAX, len(self._apart)):
            self._fold()

    def finish(self) -> None:
        """Prepare for `contains`. Add nothing afterwards."""
        self._apart = np.sort(np.concatenate([self._apart, *self._new]))
        self._new.clear()
        self._numbers = np.array(sorted(self._pages), np.int64)
        if self._pages:
            self._bits = np.concatenate([self._pages[page] for page in self._numbers.tolist()])
            self._pages.clear()

    def contains(self, values: Ints) -> Mask:
        """Return a mask of the values that are in the set; fast if they mostly ascend."""
        found = is_in(values, self._apart)
        if not len(self._numbers):
            return found
        page = values >> _PAGE_BITS
        at = np.minimum(np.searchsorted(self._numbers, page), len(self._numbers) - 1)
        inside = values & (1 << _PAGE_BITS) - 1
        # The bits of a byte are in the order of `packbits`, the highest first.
        is_set = self._bits[at * _PAGE_SIZE + (inside >> 3)] << (inside & 7).astype(np.uint8) & 0x80
        found |= (self._numbers[at] == page) & (is_set != 0)
        return found

    def _fold(self) -> None:
        """Move ids that lie near each other to bits."""
        ids = np.sort(np.concatenate([self._apart, *self._new]))
        self._new.clear()
        self._new_count = 0
        page = ids >> _PAGE_BITS
        first = np.flatnonzero(np.append(True, page[1:] != page[:-1])[: len(page)])
        counts = np.diff(np.append(first, len(ids)))
        numbers = page[first]
        known = np.array(list(self._pages), np.int64)
        is_dense = (counts >= _PAGE_MIN) | np.isin(numbers, known)
        for number, start, count in zip(
            numbers[is_dense].tolist(), first[is_dense].tolist(), counts[is_dense], strict=True
        ):
            mask = np.zeros(1 << _PAGE_BITS, np.bool_)
            mask[ids[start : start + count] & (1 << _PAGE_BITS) - 1] = True
            bits = self._pages.setdefault(number, np.zeros(_PAGE_SIZE, np.uint8))
            bits |= np.packbits(mask)
        self._apart = ids[np.repeat(~is_dense, counts)]


def is_in(values: Ints, known: Ints) -> Mask:
    """Return a mask of the values that are in a sorted array; fast if they mostly ascend."""
    if not len(known):
        return np.zeros(len(values), np.bool_)
    least, most = int(known[0]), int(known[-1])
    if most - least < _DENSE * len(known):
        # Transaction ids are nearly consecutive, so the table is small.
        table = np.zeros(most - least + 3, np.bool_)
        table[known - least + 1] = True
        # Values outside the range land on one of the two ends, even if the difference overflows.
        places = values - known[0]
        places += 1
        found: Mask = table[np.clip(places, 0, len(table) - 1, out=places)]
        return found
    found = np.minimum(np.searchsorted(known, values), len(known) - 1)
    is_known: Mask = known[found] == values
    return is_known
