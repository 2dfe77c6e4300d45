"""Hashes of rows, which the engine's check of idle partitions adds up.

Source: IdleVerifyUtility.calculatePartitionHash, GridCacheVersion.hashCode,
KeyCacheObjectImpl.hashCode, Ignite 2.18.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from je_tools.formats import _native

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.spans import Spans


def key_hashes(keys: Spans) -> tuple[Ints, Mask]:
    """Return Java's hash of each key, int64, and a mask of those whose hash is known.

    Known are numbers, decimals, strings, booleans, UUIDs, times and binary objects.
    """
    hashes, known = _native.key_hashes(keys)
    return hashes.astype(np.int64), known


def value_digests(values: Spans) -> Ints:
    """Return a digest of the bytes of each value, int64.

    The lowest 32 bits are Java's hash of the bytes, the others their CRC-32.
    """
    return _native.value_digests(values)


def version_hashes(topology: Ints, node: Ints, order: Ints) -> Ints:
    """Return Java's hash of versions, int64, of which the lowest 32 bits count."""
    folded = order ^ (order.view(np.uint64) >> np.uint64(32)).view(np.int64)
    return (topology * 31 + node) * 31 + folded


def wrapped(total: int) -> int:
    """Return a sum of hashes as Java's int."""
    return ((total + (1 << 31)) & 0xFFFF_FFFF) - (1 << 31)
