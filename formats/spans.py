"""Spans of a buffer as columns: copied behind each other, spelled in hexadecimal, searched.

A column of byte strings is two int64 arrays, `starts` and `sizes`, over a uint8 buffer; a size
below 0 is null.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from je_tools.formats.arrays import Ints, Mask
from je_tools.formats.kernels import compiled, kernel
from je_tools.formats.source import Bytes, as_plain

Offsets = npt.NDArray[np.int32]

GATHERED_MAX = (1 << 31) - (1 << 27)
"""Bytes of all values of a column: Arrow counts them in int32, and lines are longer than values."""

_LSN_TEXT_MAX = len("0xffffffff/0xffffffff")


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
        """Byte strings behind each other; None is null."""
        sizes = np.array([-1 if value is None else len(value) for value in values], np.int64)
        ends = np.cumsum(np.maximum(sizes, 0), dtype=np.int64)
        joined = np.frombuffer(b"".join(value or b"" for value in values), np.uint8)
        return cls(joined, ends - np.maximum(sizes, 0), sizes)

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, row: int) -> bytes | None:
        """One of them, as bytes of its own."""
        size = int(self.sizes[row])
        if size < 0:
            return None
        start = int(self.starts[row])
        return self.data[start : start + size].tobytes()

    def take(self, keep: npt.NDArray[Any] | slice) -> Spans:
        """Those of a mask, of an index array in its order, or of a slice."""
        return Spans(self.data, self.starts[keep], self.sizes[keep])

    def packed(self, *, fast: bool = True) -> Spans:
        """The same strings behind each other in an array of their own, read-only."""
        offsets, data = gather(self.data, self.starts, self.sizes, fast=fast)
        data.flags.writeable = False
        return Spans(data, offsets[:-1].astype(np.int64), self.sizes)


class TooLongError(Exception):
    """Values too long to be put behind each other."""


@kernel
def _gather(buf: Any, starts: Any, sizes: Any, n: int, offsets: Any, out: Any) -> None:
    for row in range(n):
        start = starts[row]
        at = offsets[row]
        for i in range(sizes[row]):
            out[at + i] = buf[start + i]


@kernel
def _gather_hex(buf: Any, starts: Any, sizes: Any, n: int, offsets: Any, out: Any) -> None:
    for row in range(n):
        start = starts[row]
        at = offsets[row]
        for i in range(sizes[row]):
            byte = buf[start + i]
            high = byte >> 4
            low = byte & 15
            out[at + 2 * i] = high + (48 if high < 10 else 87)
            out[at + 2 * i + 1] = low + (48 if low < 10 else 87)


@kernel
def _spell_lsns(lsns: Any, n: int, offsets: Any, out: Any) -> None:
    at = 0
    for row in range(n):
        for half in range(2):
            number = (lsns[row] >> 32 if half == 0 else lsns[row]) & 4294967295
            if half == 1:
                out[at] = 47
                at += 1
            out[at] = 48
            out[at + 1] = 120
            at += 2
            shift = 28
            while shift > 0 and number >> shift == 0:
                shift -= 4
            while shift >= 0:
                digit = number >> shift & 15
                out[at] = digit + (48 if digit < 10 else 87)
                at += 1
                shift -= 4
        offsets[row + 1] = at


@kernel
def _starts_with(
    buf: Any, starts: Any, sizes: Any, n: int, needle: Any, whole: int, out: Any
) -> None:
    length = len(needle)
    for row in range(n):
        size = sizes[row]
        same = size == length if whole else size >= length
        if same:
            start = starts[row]
            for i in range(length):
                if buf[start + i] != needle[i]:
                    same = False
                    break
        out[row] = same


@kernel
def _contains(buf: Any, starts: Any, sizes: Any, n: int, needle: Any, out: Any) -> None:
    length = len(needle)
    for row in range(n):
        found = length == 0 and sizes[row] >= 0
        at = starts[row]
        last = at + sizes[row] - length
        while not found and at <= last:
            i = 0
            while i < length and buf[at + i] == needle[i]:
                i += 1
            found = i == length
            at += 1
        out[row] = found


@kernel
def _add_up(sizes: Any, n: int, unit: int, offsets: Any) -> int:
    at = 0
    for row in range(n):
        size = sizes[row]
        at += size * unit if size > 0 else 0
        if at > GATHERED_MAX:
            return at
        offsets[row + 1] = at
    return at


def offsets_of(sizes: Ints, unit: int = 1, *, fast: bool) -> Offsets:
    """Where each span begins when all are copied behind each other: int32 (n + 1,).

    Args:
        sizes: int64 (n,); below 0 takes no room.
        unit: bytes of output for a byte of a span.
        fast: use the compiled kernel.

    Raises:
        TooLongError: they come to more than GATHERED_MAX bytes.
    """
    offsets = np.zeros(len(sizes) + 1, np.int32)
    if fast:
        total = compiled(_add_up)(np.ascontiguousarray(sizes), len(sizes), unit, offsets)
    else:
        ends = np.cumsum(np.maximum(sizes, 0)) * unit
        total = int(ends[-1]) if len(ends) else 0
        offsets[1:] = np.minimum(ends, GATHERED_MAX)
    if total > GATHERED_MAX:
        raise TooLongError(f"more than {GATHERED_MAX:,} bytes")
    return offsets


def gather(data: Bytes, starts: Ints, sizes: Ints, *, fast: bool) -> tuple[Offsets, Bytes]:
    """The bytes of all spans behind each other: offsets int32 (n + 1,), bytes uint8."""
    offsets = offsets_of(sizes, fast=fast)
    if not fast:
        view = as_plain(data)
        pieces = (
            view[a : a + max(n, 0)] for a, n in zip(starts.tolist(), sizes.tolist(), strict=True)
        )
        return offsets, np.frombuffer(b"".join(pieces), np.uint8)
    out = np.empty(int(offsets[-1]), np.uint8)
    compiled(_gather)(data, starts, sizes, len(starts), offsets, out)
    return offsets, out


def gather_hex(data: Bytes, starts: Ints, sizes: Ints, *, fast: bool) -> tuple[Offsets, Bytes]:
    """As `gather`, each byte as two lower-case hexadecimal digits."""
    offsets = offsets_of(sizes, 2, fast=fast)
    if not fast:
        view = as_plain(data)
        pieces = (
            view[a : a + max(n, 0)].hex()
            for a, n in zip(starts.tolist(), sizes.tolist(), strict=True)
        )
        return offsets, np.frombuffer("".join(pieces).encode(), np.uint8)
    out = np.empty(int(offsets[-1]), np.uint8)
    compiled(_gather_hex)(data, starts, sizes, len(starts), offsets, out)
    return offsets, out


def spell_lsns(lsns: Ints, *, fast: bool) -> tuple[Offsets, Bytes]:
    """LSNs as `0x3/0x1a2f`: offsets int32 (n + 1,), ASCII bytes uint8."""
    if not fast:
        texts = [f"0x{v >> 32 & 0xFFFFFFFF:x}/0x{v & 0xFFFFFFFF:x}" for v in lsns.tolist()]
        sizes = np.fromiter(map(len, texts), np.int64, len(texts))
        return offsets_of(sizes, fast=fast), np.frombuffer("".join(texts).encode(), np.uint8)
    offsets = np.zeros(len(lsns) + 1, np.int32)
    out = np.empty(len(lsns) * _LSN_TEXT_MAX, np.uint8)
    compiled(_spell_lsns)(lsns, len(lsns), offsets, out)
    return offsets, out[: offsets[-1]]


def starts_with(
    data: Bytes, starts: Ints, sizes: Ints, needle: bytes, *, whole: bool, fast: bool
) -> Mask:
    """Which spans begin with `needle`, or with `whole` are equal to it."""
    out = np.zeros(len(starts), np.bool_)
    wanted = np.frombuffer(needle, np.uint8)
    run = compiled(_starts_with) if fast else _starts_with
    buf = data if fast else as_plain(data)
    run(buf, starts, sizes, len(starts), wanted, int(whole), out)
    return out


def contains(data: Bytes, starts: Ints, sizes: Ints, needle: bytes, *, fast: bool) -> Mask:
    """Which spans hold `needle` somewhere."""
    if not fast:
        view = as_plain(data)
        pairs = zip(starts.tolist(), sizes.tolist(), strict=True)
        return np.array([n >= 0 and needle in bytes(view[a : a + n]) for a, n in pairs], np.bool_)
    out = np.zeros(len(starts), np.bool_)
    wanted = np.frombuffer(needle, np.uint8)
    compiled(_contains)(data, starts, sizes, len(starts), wanted, out)
    return out


@kernel
def _gather_printable(
    buf: Any, starts: Any, sizes: Any, n: int, most: int, offsets: Any, out: Any
) -> None:
    for row in range(n):
        start = starts[row]
        at = offsets[row]
        for i in range(offsets[row + 1] - at):
            byte = buf[start + i]
            out[at + i] = byte if 32 <= byte < 127 else 46
        if sizes[row] > most:
            out[offsets[row + 1] - 1] = 126


def gather_printable(
    data: Bytes, starts: Ints, sizes: Ints, most: int, *, fast: bool
) -> tuple[Offsets, Bytes]:
    """At most `most` bytes of each span as printable ASCII, `.` for others, `~` where cut."""
    offsets = offsets_of(np.minimum(sizes, most), fast=fast)
    out = np.empty(int(offsets[-1]), np.uint8)
    run = compiled(_gather_printable) if fast else _gather_printable
    run(data if fast else as_plain(data), starts, sizes, len(starts), most, offsets, out)
    return offsets, out
