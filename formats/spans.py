"""Columns of byte strings as spans of a buffer: copied, formatted, searched.

A column is two int64 arrays, `starts` and `sizes`, over a uint8 buffer; a negative size is null.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from je_tools.formats import _native

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.files.source import Bytes

Offsets = npt.NDArray[np.int32]

GATHERED_MAX = (1 << 31) - (1 << 27)
"""Largest total size of a column: Arrow's offsets are int32, and lines are longer than values."""


class Spans(Struct, frozen=True):
    """Byte strings as a column.

    Attributes:
        data: the buffer.
        starts, sizes: int64 (n,); a negative size is null.
    """

    data: Bytes
    starts: Ints
    sizes: Ints

    @classmethod
    def of(cls, values: Sequence[bytes | None]) -> Spans:
        """Return a column of byte strings, copied one after the other; None is null."""
        sizes = np.array([-1 if value is None else len(value) for value in values], np.int64)
        ends = np.cumsum(np.maximum(sizes, 0), dtype=np.int64)
        joined = np.frombuffer(b"".join(value or b"" for value in values), np.uint8)
        return cls(joined, ends - np.maximum(sizes, 0), sizes)

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, row: int) -> bytes | None:
        """Return a copy of one byte string, or None for null."""
        size = int(self.sizes[row])
        if size < 0:
            return None
        start = int(self.starts[row])
        return self.data[start : start + size].tobytes()

    def select(self, keep: npt.NDArray[Any] | slice) -> Spans:
        """Select rows by a mask, by an index array in its order, or by a slice."""
        return Spans(self.data, self.starts[keep], self.sizes[keep])

    def packed(self) -> Spans:
        """Return the same strings, copied one after the other into a new read-only array."""
        offsets, data = gather(self.data, self.starts, self.sizes)
        data.flags.writeable = False
        return Spans(data, offsets[:-1].astype(np.int64), self.sizes)


class TooLongError(Exception):
    """Values or rows whose total size is too large."""


def gather(data: Bytes, starts: Ints, sizes: Ints) -> tuple[Offsets, Bytes]:
    """Return the bytes of all spans one after the other: offsets int32 (n + 1,), bytes uint8.

    Raises:
        TooLongError: the spans exceed GATHERED_MAX bytes.
    """
    return _known(_native.gather(Spans(data, starts, sizes), GATHERED_MAX))


def gather_hex(data: Bytes, starts: Ints, sizes: Ints) -> tuple[Offsets, Bytes]:
    """Return the same as `gather`, with each byte as two lower-case hexadecimal digits."""
    return _known(_native.gather_hex(Spans(data, starts, sizes), GATHERED_MAX))


def gather_printable(data: Bytes, starts: Ints, sizes: Ints, most: int) -> tuple[Offsets, Bytes]:
    """Return at most `most` bytes of each span as printable ASCII.

    `.` replaces any other byte, and `~` replaces the last byte of a span that was cut.
    """
    return _known(_native.gather_printable(Spans(data, starts, sizes), most, GATHERED_MAX))


def format_lsns(lsns: Ints) -> tuple[Offsets, Bytes]:
    """Format LSNs as `0x3/0x1a2f`; return offsets, int32 (n + 1,), and ASCII bytes, uint8."""
    return _known(_native.lsn_texts(lsns, GATHERED_MAX))


def _known(strings: tuple[Offsets, Bytes] | None) -> tuple[Offsets, Bytes]:
    if strings is None:
        raise TooLongError(f"more than {GATHERED_MAX:,} bytes")
    return strings


def starts_with(data: Bytes, starts: Ints, sizes: Ints, needle: bytes, *, whole: bool) -> Mask:
    """Return a mask of the spans that begin with `needle` or, if `whole`, equal it."""
    return _native.starts_with(Spans(data, starts, sizes), needle, whole=whole)


def contains(data: Bytes, starts: Ints, sizes: Ints, needle: bytes) -> Mask:
    """Return a mask of the spans that contain `needle`."""
    return _native.contains(Spans(data, starts, sizes), needle)


def fill_spans(data: Bytes, starts: Ints, sizes: Ints, value: int) -> None:
    """Set the bytes of all byte strings to a value; null ones have none.

    Raises:
        ValueError: a byte string lies outside the data.
    """
    _native.fill_spans(data, starts, sizes, value)


def are_zero(spans: Spans) -> Mask:
    """Return a mask of the byte strings whose bytes are all zero, or that are null.

    Raises:
        ValueError: a byte string lies outside the data.
    """
    return _native.are_zero(spans)


def joined_spans(parts: Sequence[Spans]) -> Spans:
    """Concatenate columns of byte strings; copy their bytes unless they share one buffer."""
    if not parts:
        return Spans(np.empty(0, np.uint8), np.empty(0, np.int64), np.empty(0, np.int64))
    sizes = np.concatenate([part.sizes for part in parts])
    if all(part.data is parts[0].data for part in parts):
        return Spans(parts[0].data, np.concatenate([part.starts for part in parts]), sizes)
    packed = [part.packed() for part in parts]
    bases = np.cumsum([0, *(len(part.data) for part in packed)])
    starts = [part.starts + base for part, base in zip(packed, bases, strict=False)]
    data = np.concatenate([part.data for part in packed])
    data.flags.writeable = False
    return Spans(data, np.concatenate(starts), sizes)
