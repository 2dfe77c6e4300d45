"""Record identities: keyed digests of (database, key), and the newest row of each.

A 126-bit digest (HalfSipHash-1-3, twice) under a secret of the run stands for a key, so that
millions of keys need not be stored. It is meaningless outside the run.

Source: SipHash: a fast short-input PRF, Aumasson and Bernstein, 2012.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from je_tools.formats import _native
from je_tools.formats.spans import Spans

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.files.source import Bytes

SEED_SIZE = 8
"""Number of 32-bit words of a secret."""

Seed = npt.NDArray[np.uint32]


def new_seed() -> Seed:
    """Return a secret: uint32 (SEED_SIZE,)."""
    return np.frombuffer(os.urandom(4 * SEED_SIZE), np.uint32)


def identities(
    data: Bytes, starts: Ints, sizes: Ints, db_ids: Ints, seed: Seed
) -> tuple[Ints, Ints]:
    """Return digests of keys: two int64 (n,), 63 bits each; 0 for a null key.

    Args:
        data: the buffer of the keys.
        starts, sizes: int64 (n,); a negative size is null.
        db_ids: int64 (n,).
        seed: secret of this run.
    """
    return _native.identify(Spans(data, starts, sizes), db_ids, seed)


def newest_of(first: Ints, second: Ints, wanted: Mask, threads: int = 1) -> Mask:
    """Return a mask of the wanted rows that are the last of their identity.

    Args:
        first, second: int64 (n,), as `identities` returns them. Numbers that a log could choose
            might all collide in the hash table.
        wanted: bool (n,).
        threads: number of threads; each handles its own share of the identities.
    """
    return _native.mark_newest(first, second, wanted, threads)
