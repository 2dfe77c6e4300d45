"""Sums of 64-byte parts of appended data, by which undo recognises it.

A device writes sectors as a whole or not at all, but a write that is stopped may end anywhere. So
each part has its own sum. A part that data covers only in part is padded with zeros. If a write
stopped inside a part, undo takes the bytes there for the operation's: an engine that opened the log
would have written more.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

PART = 64
"""Number of bytes of a part; the first part begins with the file."""

_WORDS = PART // 8
_FACTORS = np.array([pow(0x9E3779B97F4A7C15, i + 1, 1 << 64) for i in range(_WORDS)], np.uint64)
"""Odd factors without a pattern, so that a sum depends on the words and on their order."""


def part_count(offset: int, size: int) -> int:
    """Return the number of parts that a non-empty span of a file touches."""
    return (offset + size - 1) // PART - offset // PART + 1


def part_sums(offset: int, data: bytes) -> npt.NDArray[np.uint32]:
    """Return the sums of the parts of a span of a file, in order.

    Args:
        offset: offset of the span in the file.
        data: bytes of the span; a part that it covers only in part is padded with zeros.
    """
    before = offset % PART
    padded = np.zeros((before + len(data) + PART - 1) // PART * PART, np.uint8)
    padded[before : before + len(data)] = np.frombuffer(data, np.uint8)
    sums = padded.view("<u8").reshape(-1, _WORDS) @ _FACTORS
    return (sums >> np.uint64(32)).astype("<u4")
