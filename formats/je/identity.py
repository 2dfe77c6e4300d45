"""Which records are the same: keyed digests of (database, key), and the newest row of each.

A digest of 126 bits under a secret of the run stands for a key, so that millions of keys need not
be kept: HalfSipHash-1-3 twice. It means nothing outside of the run.

Source: SipHash: a fast short-input PRF, Aumasson and Bernstein, 2012.
"""

from __future__ import annotations

import os

import numpy as np
import numpy.typing as npt

from je_tools.formats import _native
from je_tools.formats.arrays import Ints, Mask
from je_tools.formats.source import Bytes
from je_tools.formats.spans import Spans

SEED_SIZE = 8
"""32-bit words of a secret."""

Seed = npt.NDArray[np.uint32]


def new_seed() -> Seed:
    """Return a secret: uint32 (SEED_SIZE,)."""
    return np.frombuffer(os.urandom(4 * SEED_SIZE), np.uint32)


def identities(
    data: Bytes, starts: Ints, sizes: Ints, db_ids: Ints, seed: Seed
) -> tuple[Ints, Ints]:
    """Return digests of keys: two int64 (n,), 63 bits each; 0 where a key is null.

    Args:
        data: the bytes that the keys lie in.
        starts, sizes: int64 (n,); a size below 0 is null.
        db_ids: int64 (n,).
        seed: of this run.
    """
    return _native.identify(Spans(data, starts, sizes), db_ids, seed)


def newest_of(first: Ints, second: Ints, wanted: Mask, threads: int = 1) -> Mask:
    """Return which wanted rows are the last of their identity.

    Args:
        first, second: int64 (n,), as `identities` gives them: of numbers that a log might choose
            many could be looked for in one place.
        wanted: bool (n,).
        threads: how many look at it, each at identities of its own.
    """
    return _native.mark_newest(first, second, wanted, threads)
