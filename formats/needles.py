"""Searches for byte strings: literals, regular expressions, and strings known only by hashes.

A hashed needle is known by its size, 24 bits of a hash of its first bytes, and 32 bits of a hash of
all. Both hashes depend on a secret seed. Wherever they fit, the caller compares a digest: the
hashes alone would also fit other bytes. They are short, because all bits of a hash would give
away a short needle.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from je_tools.formats import _native

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints

CONTEXT = 4
"""Bytes before a range that a regular expression may read, for word boundaries."""

PATTERN_REACH_MAX = 1 << 16
"""Largest number of bytes of a hit of a regular expression."""

WIDTH_MAX = 8
"""Largest number of first bytes that are hashed."""


class HashedColumns(Struct, frozen=True):
    """Hashed needles as columns.

    Attributes:
        seed: 64-bit number.
        width: number of first bytes that `firsts` covers, 1 to WIDTH_MAX; no needle is shorter.
        sizes: int64; sizes in bytes.
        firsts, wholes: uint32; see `hash_needles`.
    """

    seed: int
    width: int
    sizes: Ints
    firsts: npt.NDArray[np.uint32]
    wholes: npt.NDArray[np.uint32]


class Hits(Struct, frozen=True):
    """Hits of a search.

    Attributes:
        start: int64; offset of each hit, of which only the first are kept.
        size: int64; bytes of each hit.
        needle: int64; number of its needle: literals, then patterns, then hashed needles.
        counts: int64 (needles,); number of all hits of each needle, also of those not kept.
    """

    start: Ints
    size: Ints
    needle: Ints
    counts: Ints

    def __len__(self) -> int:
        return len(self.start)

    @property
    def not_kept(self) -> int:
        """Number of hits beyond those that were kept."""
        return int(self.counts.sum()) - len(self)

    def select(self, keep: npt.NDArray[np.bool_]) -> Hits:
        """Return the hits of a mask; the others no longer count."""
        dropped = np.bincount(self.needle[~keep], minlength=len(self.counts))
        return Hits(self.start[keep], self.size[keep], self.needle[keep], self.counts - dropped)


def hash_needles(
    values: Sequence[bytes], seed: int, width: int
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
    """Return the columns `firsts` and `wholes` of needles; none is shorter than `width`."""
    firsts, wholes = _native.needle_hashes(list(values), seed, width)
    return firsts.astype(np.uint32), wholes.astype(np.uint32)
