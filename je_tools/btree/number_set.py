"""Sets of numbers that grow: which nodes of a tree were visited, which places were counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, field

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints, Mask


class NumberSet(Struct):
    """A set of numbers: sorted arrays, each at most half as long as the one before."""

    arrays: list[Ints] = field(default_factory=list)

    def first_times(self, numbers: Ints) -> Mask:
        """Return a mask of the numbers that come for the first time, and add them to the set."""
        fresh, rows = np.unique(numbers, return_index=True)
        new = np.ones(len(fresh), np.bool_)
        for array in self.arrays:
            at = np.minimum(np.searchsorted(array, fresh), len(array) - 1)
            new &= array[at] != fresh
        if new.any():
            self.arrays.append(fresh[new])
        while len(self.arrays) > 1 and len(self.arrays[-2]) < 2 * len(self.arrays[-1]):
            last = self.arrays.pop()
            self.arrays[-1] = np.sort(np.concatenate((self.arrays[-1], last)))
        first = np.zeros(len(numbers), np.bool_)
        first[rows[new]] = True
        return first
