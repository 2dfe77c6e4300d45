"""Spans of a buffer as columns: copied one after the other, written as text, searched.

A column of byte strings is two int64 arrays, `starts` and `sizes`, over a uint8 buffer; a size
below 0 is null.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from je_tools.formats import _native
from je_tools.formats.arrays import Ints, Mask
from je_tools.formats.source import Bytes

Offsets = npt.NDArray[np.int32]

GATHERED_MAX = (1 << 31) - (1 << 27)
"""Bytes of all values of a column: Arrow counts them in int32, and lines are longer than values."""


class Spans(Struct, frozen=True):
    """Byte strings as a column.

    Attributes:
        data: the bytes they lie in.
        starts, sizes: int64 (n,); a size below 0 is null.
    """

    data: Bytes
    starts: Ints
    sizes: Ints

    @classmethod
    def of(cls, values: Sequence[bytes | None]) -> Spans:
        """Return byte strings one after the other; None is null."""
        sizes = np.array([-1 if value is None else len(value) for value in values], np.int64)
        ends = np.cumsum(np.maximum(sizes, 0), dtype=np.int64)
        joined = np.frombuffer(b"".join(value or b"" for value in values), np.uint8)
        return cls(joined, ends - np.maximum(sizes, 0), sizes)

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, row: int) -> bytes | None:
        """Return one of them, as bytes of its own."""
        size = int(self.sizes[row])
        if size < 0:
            return None
        start = int(self.starts[row])
        return self.data[start : start + size].tobytes()

    def take(self, keep: npt.NDArray[Any] | slice) -> Spans:
        """Return those of a mask, of an index array in its order, or of a slice."""
        return Spans(self.data, self.starts[keep], self.sizes[keep])

    def packed(self) -> Spans:
        """Return the same strings one after the other in an array of their own, read-only."""
        offsets, data = gather(self.data, self.starts, self.sizes)
        data.flags.writeable = False
        return Spans(data, offsets[:-1].astype(np.int64), self.sizes)


class TooLongError(Exception):
    """Values too long to be put one after the other."""


def gather(data: Bytes, starts: Ints, sizes: Ints) -> tuple[Offsets, Bytes]:
    """Return the bytes of all spans one after the other: offsets int32 (n + 1,), bytes uint8.

    Raises:
        TooLongError: they come to more than GATHERED_MAX bytes.
    """
    return _known(_native.gather(Spans(data, starts, sizes), GATHERED_MAX))


def gather_hex(data: Bytes, starts: Ints, sizes: Ints) -> tuple[Offsets, Bytes]:
    """Return the same as `gather`, each byte as two lower-case hexadecimal digits."""
    return _known(_native.gather_hex(Spans(data, starts, sizes), GATHERED_MAX))


def gather_printable(data: Bytes, starts: Ints, sizes: Ints, most: int) -> tuple[Offsets, Bytes]:
    """Return at most `most` bytes of each span as printable ASCII.

    `.` stands for other bytes, and `~` for the last one where a span was cut.
    """
    return _known(_native.gather_printable(Spans(data, starts, sizes), most, GATHERED_MAX))


def spell_lsns(lsns: Ints) -> tuple[Offsets, Bytes]:
    """Return LSNs as `0x3/0x1a2f`: offsets int32 (n + 1,), ASCII bytes uint8."""
    return _known(_native.lsn_texts(lsns, GATHERED_MAX))


def _known(strings: tuple[Offsets, Bytes] | None) -> tuple[Offsets, Bytes]:
    if strings is None:
        raise TooLongError(f"more than {GATHERED_MAX:,} bytes")
    return strings


def starts_with(data: Bytes, starts: Ints, sizes: Ints, needle: bytes, *, whole: bool) -> Mask:
    """Return which spans begin with `needle`, or with `whole` are equal to it."""
    return _native.starts_with(Spans(data, starts, sizes), needle, whole=whole)


def contains(data: Bytes, starts: Ints, sizes: Ints, needle: bytes) -> Mask:
    """Return which spans hold `needle` somewhere."""
    return _native.contains(Spans(data, starts, sizes), needle)
