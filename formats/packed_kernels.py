"""The primitive codings as numba kernels, for the kernels that are not in the extension yet.

`buf` is a sequence of unsigned bytes: a `memoryview` in plain Python, a read-only uint8 array
when compiled. The plain loads do no bounds check: the caller has compared `at` with the end.
"""

from __future__ import annotations

from collections.abc import Sequence

from je_tools.formats.kernels import kernel


@kernel
def load_u32(buf: Sequence[int], at: int) -> int:
    """Little-endian unsigned 32-bit integer at `at`."""
    # Products and not shifts: numba makes the shift of a byte unsigned, and then mixes to float.
    return buf[at] + buf[at + 1] * 256 + buf[at + 2] * 65536 + buf[at + 3] * 16777216


@kernel
def load_i32(buf: Sequence[int], at: int) -> int:
    """Little-endian signed 32-bit integer at `at`."""
    value = load_u32(buf, at)
    return value - 4294967296 if value >= 2147483648 else value


@kernel
def load_i64(buf: Sequence[int], at: int) -> int:
    """Little-endian signed 64-bit integer at `at`."""
    return load_i32(buf, at + 4) << 32 | load_u32(buf, at)


@kernel
def read_packed(buf: Sequence[int], at: int, end: int) -> tuple[int, int]:
    """Packed int or long at `at`: (value, offset behind it), or (0, -1) if it is not one.

    Not one: it does not end before `end`, its length byte is out of range, or its value does not
    fit 64 bits.
    Source: PackedInteger.readLong, JE 7.5.11.
    """
    if at >= end:
        return 0, -1
    first = buf[at] - 256 if buf[at] >= 128 else buf[at] - 0
    if -119 <= first <= 119:
        return first, at + 1
    size = abs(first) - 119
    if size > 8 or at + 1 + size > end:
        return 0, -1
    magnitude = 0
    for i in range(size):
        byte = buf[at + 1 + i] - 0
        if i == 7 and byte >= 128:
            return 0, -1
        magnitude |= byte << (8 * i)
    if first > 0:
        if magnitude > 9223372036854775688:
            return 0, -1
        return magnitude + 119, at + 1 + size
    if magnitude > 9223372036854775689:
        return 0, -1
    return -magnitude - 119, at + 1 + size
