"""Sets of keys, and masks of the keys of a column that are in a set or begin with a member."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.formats.je.btree.keysort import equal_keys, search_sorted
from je_tools.formats.spans import Spans

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints, Mask

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


class PrefixSet(Struct, frozen=True):
    """Prefixes of keys, none of which begins with another one.

    Attributes:
        prefixes: the prefixes.
    """

    prefixes: KeySet

    @classmethod
    def of(cls, prefixes: Iterable[bytes]) -> PrefixSet:
        """Return the set of some prefixes, without those that begin with another one."""
        shortest: list[bytes] = []
        for prefix in sorted(prefixes):
            if not shortest or not prefix.startswith(shortest[-1]):
                shortest.append(prefix)
        return cls(KeySet.of(shortest))

    def begin(self, keys: Spans) -> Mask:
        """Return a mask of the keys that begin with a prefix; no key is null."""
        if not len(self.prefixes):
            return np.zeros(len(keys), np.bool_)
        sorted_prefixes = self.prefixes.keys
        # Keys with one prefix are adjacent, and no other prefix sorts between them.
        last = np.maximum(search_sorted(sorted_prefixes, keys, two_part=False) - 1, 0)
        heads = Spans(keys.data, keys.starts, np.minimum(keys.sizes, sorted_prefixes.sizes[last]))
        begin: Mask = equal_keys(sorted_prefixes.select(last), heads)
        begin |= self.prefixes.ranks(keys) != NOT_IN_SET
        return begin
