"""Bytes that expire, summed by hour.

Source: ExpirationTracker.track, JE 18.3.12.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from je_tools.formats.je.expirations import HOUR_MS, NEVER

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints
    from je_tools.formats.je.btree.nodes import Nodes


def by_hour(expires_ms: Ints, sizes: Ints) -> Counter[int]:
    """Sum bytes by the hour since 1970 in which they expire.

    Args:
        expires_ms: int64; time of expiration, 0 for never.
        sizes: int64; bytes of each.
    """
    some = np.flatnonzero(expires_ms != NEVER)
    hours, place = np.unique(expires_ms[some] // HOUR_MS, return_inverse=True)
    sums = np.bincount(place, weights=sizes[some], minlength=len(hours)).astype(np.int64)
    return Counter(dict(zip(hours.tolist(), sums.tolist(), strict=True)))


def share_of_slots(nodes: Nodes, sizes: Ints) -> Counter[int]:
    """Sum bytes of BINs by the hour in which their slots expire.

    Each slot counts with an equal share of its node.

    Args:
        nodes: BINs or deltas.
        sizes: int64; bytes of each node's entry.
    """
    counts = np.diff(nodes.first)
    return by_hour(nodes.slots.expires_ms, np.repeat(sizes // np.maximum(counts, 1), counts))
