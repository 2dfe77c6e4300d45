"""Sets of keys that columns of keys are compared with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.formats.je.btree.keysort import equal_keys, search_sorted
from je_tools.formats.spans import Spans

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints

NOT_IN_SET = -1
"""Rank of a key that a set does not have."""


class KeySet(Struct, frozen=True):
    """Distinct keys.

    Attributes:
        keys: the keys, ascending by their bytes.
    """

    keys: Spans

    @classmethod
    def of(cls, keys: Iterable[bytes]) -> KeySet:
        """Return the set of some keys."""
        return cls(Spans.of(sorted(set(keys))))

    def __len__(self) -> int:
        return len(self.keys)

    def ranks(self, keys: Spans) -> Ints:
        """Return the rank of each key in the set, or NOT_IN_SET; a null key is in no set."""
        found = np.full(len(keys), NOT_IN_SET, np.int64)
        rows = np.flatnonzero(keys.sizes >= 0)
        if len(self) and len(rows):
            known = keys.select(rows)
            rank = search_sorted(self.keys, known, two_part=False)
            rank = np.minimum(rank, len(self) - 1)
            same = equal_keys(self.keys.select(rank), known)
            found[rows[same]] = rank[same]
        return found
