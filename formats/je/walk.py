"""Kernels that step from entry to entry, sum them, and find the way back after damage.

All of them look at one buffer that holds bytes [base, base + len) of a file, check bounds before
every load, never raise and never size anything by a number read from the log. Offsets in their
results are offsets in the file.

Source: je-log-format 3 and 8.2; FileReader.readNextEntry, ChecksumValidator, JE 7.5.11 and 25.3.
"""

from __future__ import annotations

import zlib
from enum import IntEnum
from typing import Any

import numpy as np

from je_tools.formats.je import header as h
from je_tools.formats.je.types import ENTRY_TYPES, ERASED_NO, FILE_HEADER_NO
from je_tools.formats.kernels import kernel
from je_tools.formats.packed import load_i32, load_i64, load_u32

ROW_DTYPE = np.dtype(
    [
        ("offset", "<u4"),
        ("prev_offset", "<u4"),
        ("stored_checksum", "<u4"),
        ("item_size", "<i4"),
        ("vlsn", "<i8"),
        ("type", "u1"),
        ("flags", "u1"),
        ("header_size", "u1"),
        ("checksum", "u1"),
    ]
)
"""One row an entry. `vlsn` is -1 where none is stored; `checksum` is a `Checksum`."""


class Checksum(IntEnum):
    """What is known of an entry's checksum."""

    BAD = 0
    OK = 1
    NONE = 2
    """An erased entry: the stored value is that of the bytes before."""
    UNCHECKED = 3


CHECKSUM_NAMES = ("bad", "ok", "none", "unchecked")
"""How each `Checksum` is spelled in every output."""


class Stop(IntEnum):
    """Why `walk` stopped."""

    LIMIT = 0
    """The next entry begins at or behind the limit."""
    NEED_MORE = 1
    """The next header or entry does not end inside the buffer."""
    BAD_HEADER = 2
    """Type 0, a negative size, or a size that no file can hold."""
    CHAIN = 3
    """The next header's prevOffset is not the offset of the entry before it."""
    ROWS = 4
    """The output arrays are full."""


NO_OFFSET = -1
"""No offset: nothing found, or nothing known of the entry before."""

_MIN_HEADER = h.MIN_HEADER_SIZE
_MAX_HEADER = h.MAX_HEADER_SIZE
_FILE_HEADER_NO = FILE_HEADER_NO
_ERASED_NO = ERASED_NO
_LIMIT, _NEED_MORE, _BAD_HEADER, _CHAIN, _ROWS = (int(stop) for stop in Stop)
_BAD, _OK, _NONE = int(Checksum.BAD), int(Checksum.OK), int(Checksum.NONE)
_TYPE_NO_MAX = max(ENTRY_TYPES)
_ADLER_BASE = 65521
_ADLER_BLOCK = 5552


@kernel
def walk(
    buf: Any,
    base: int,
    at: int,
    limit: int,
    file_size: int,
    expected_prev: int,
    vlsn_mask: int,
    offsets: Any,
    prev_offsets: Any,
    sums: Any,
    item_sizes: Any,
    vlsns: Any,
    types: Any,
    flags: Any,
    header_sizes: Any,
) -> tuple[int, int, int]:
    """Step over entries from offset `at` while they begin before `limit`.

    Args:
        buf: bytes [base, base + len(buf)) of the file.
        base: offset in the file of the first byte of `buf`.
        at: offset in the file of an entry.
        limit: first offset at which no entry is begun.
        file_size: bytes of the whole file; an entry that would end behind it is a bad header.
        expected_prev: what the first header's prevOffset must be, or NO_OFFSET for anything.
        vlsn_mask: header flags of which any means that a VLSN follows.
        offsets, prev_offsets, sums, item_sizes, vlsns, types, flags, header_sizes: outputs, one
            element an entry, of the dtypes of ROW_DTYPE.

    Returns:
        Entries found, offset of the first entry not taken, a `Stop`.
    """
    size = len(buf)
    rows = len(offsets)
    n = 0
    while True:
        if at >= limit:
            return n, at, _LIMIT
        if n >= rows:
            return n, at, _ROWS
        i = at - base
        if i + _MIN_HEADER > size:
            return n, at, _NEED_MORE
        type_no = buf[i + 4]
        flag = buf[i + 5]
        prev = load_u32(buf, i + 6)
        item_size = load_i32(buf, i + 10)
        if type_no == 0 or item_size < 0:
            return n, at, _BAD_HEADER
        header_size = _MIN_HEADER
        if flag & vlsn_mask and type_no != _FILE_HEADER_NO:
            header_size = _MAX_HEADER
        after = at + header_size + item_size
        if after > file_size:
            return n, at, _BAD_HEADER
        if expected_prev >= 0 and prev != expected_prev:
            return n, at, _CHAIN
        if after - base > size:
            return n, at, _NEED_MORE
        offsets[n] = at
        prev_offsets[n] = prev
        sums[n] = load_u32(buf, i)
        item_sizes[n] = item_size
        vlsns[n] = load_i64(buf, i + _MIN_HEADER) if header_size == _MAX_HEADER else -1
        types[n] = type_no
        flags[n] = flag
        header_sizes[n] = header_size
        n += 1
        expected_prev = at
        at = after


@kernel
def adler32(buf: Any, start: int, stop: int, first_masked: int) -> int:
    """Adler-32 of buf[start:stop], the second byte first taken through the mask `first_masked`.

    Sums run in blocks short enough for 32 bits, which LLVM turns into vector code.
    """
    low = 1 + buf[start]
    high = low
    low += buf[start + 1] & first_masked
    high += low
    at = start + 2
    while at < stop:
        n = min(stop - at, _ADLER_BLOCK)
        block = buf[at : at + n]
        total = np.uint32(0)
        weighted = np.uint32(0)
        for i in range(n):
            byte = np.uint32(block[i])
            total += byte
            weighted += np.uint32(i) * byte
        high = (high + n * (low + np.int64(total)) - np.int64(weighted)) % _ADLER_BASE
        low = (low + np.int64(total)) % _ADLER_BASE
        at += n
    return high << 16 | low


@kernel
def check_sums(
    buf: Any,
    base: int,
    flags_mask: int,
    n: int,
    offsets: Any,
    header_sizes: Any,
    item_sizes: Any,
    types: Any,
    sums: Any,
    states: Any,
) -> int:
    """Fill `states[:n]` with OK, BAD or NONE; the number of entries that are BAD.

    `flags_mask` clears the flag that the checksum does not cover. The entries lie in `buf`.
    """
    bad = 0
    for row in range(n):
        if types[row] == _ERASED_NO:
            states[row] = _NONE
            continue
        start = np.int64(offsets[row]) - base
        stop = start + header_sizes[row] + item_sizes[row]
        if adler32(buf, start + 4, stop, flags_mask) == sums[row]:
            states[row] = _OK
        else:
            states[row] = _BAD
            bad += 1
    return bad


def check_sums_plain(
    buf: memoryview,
    base: int,
    flags_mask: int,
    n: int,
    offsets: Any,
    header_sizes: Any,
    item_sizes: Any,
    types: Any,
    sums: Any,
    states: Any,
) -> int:
    """`check_sums` on a memoryview, with zlib's Adler-32."""
    bad = 0
    for row in range(n):
        if types[row] == ERASED_NO:
            states[row] = _NONE
            continue
        start = int(offsets[row]) - base
        stop = start + int(header_sizes[row]) + int(item_sizes[row])
        head = bytes((buf[start + 4], buf[start + 5] & flags_mask))
        right = zlib.adler32(buf[start + 6 : stop], zlib.adler32(head)) == sums[row]
        states[row] = _OK if right else _BAD
        bad += not right
    return bad


@kernel
def find_header(
    buf: Any, base: int, at: int, limit: int, file_size: int, lost_from: int, vlsn_mask: int
) -> int:
    """The first offset in [at, limit) where a plausible entry begins, or NO_OFFSET.

    Plausible: a type number that is taken, a size that fits the file, prevOffset before it and,
    where `lost_from` is known, not before that. The caller checks the sum: this only sieves.
    """
    size = len(buf)
    low = lost_from if lost_from >= 0 else 0
    while at < limit:
        i = at - base
        if i + _MIN_HEADER > size:
            return -1
        type_no = buf[i + 4]
        if 0 < type_no <= _TYPE_NO_MAX and type_no != _FILE_HEADER_NO:
            item_size = load_i32(buf, i + 10)
            if item_size >= 0:
                header_size = _MAX_HEADER if buf[i + 5] & vlsn_mask else _MIN_HEADER
                prev = load_u32(buf, i + 6)
                if at + header_size + item_size <= file_size and low <= prev < at:
                    return at
        at += 1
    return -1


@kernel
def count_zeros(buf: Any, start: int) -> int:
    """Number of zero bytes from `start` up to the first other byte or the end of `buf`."""
    at = start
    size = len(buf)
    while at < size and buf[at] == 0:
        at += 1
    return at - start
