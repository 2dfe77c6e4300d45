"""Sums of the parts of what is appended to a file, by which it is known again.

A device writes sectors as a whole or not at all, but a write that is stopped may end anywhere. So a
sum is kept of each 64 bytes, padded with zeros. What is less, at the end of a file, is less than an
engine writes when it opens a log, and is taken for ours.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

PART = 64
"""Bytes of which there is one sum; the first part begins with the file."""

_WORDS = PART // 8
_FACTORS = np.array([pow(0x9E3779B97F4A7C15, i + 1, 1 << 64) for i in range(_WORDS)], np.uint64)
"""Odd, and of no pattern: the upper half of the sum of products tells words and places apart."""


def part_count(offset: int, size: int) -> int:
    """How many parts a span of a file touches; it is not empty."""
    return (offset + size - 1) // PART - offset // PART + 1


def part_sums(offset: int, data: bytes) -> npt.NDArray[np.uint32]:
    """Sums of the parts of a span of a file, in order.

    Args:
        offset: where in the file it begins.
        data: what it holds; of a part in which it begins or ends, only that counts.
    """
    before = offset % PART
    padded = np.zeros((before + len(data) + PART - 1) // PART * PART, np.uint8)
    padded[before : before + len(data)] = np.frombuffer(data, np.uint8)
    sums = padded.view("<u8").reshape(-1, _WORDS) @ _FACTORS
    return (sums >> np.uint64(32)).astype("<u4")
