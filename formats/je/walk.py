"""Kernels that step from entry to entry, sum them, and find the way back after damage.

All of them look at one buffer that holds bytes [base, base + len) of a file, check bounds before
every load, never raise and never size anything by a number read from the log. Offsets in their
results are offsets in the file.

Source: je-log.md "Entries" and "Where a log ends, and what damage costs";
FileReader.readNextEntry, ChecksumValidator, JE 7.5.11 and 25.3.
"""

from __future__ import annotations

import zlib
from enum import IntEnum
from typing import Any

import numpy as np

from je_tools.formats.adler import adler32
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


SURVEYED_BAD, SURVEYED_FLAGS, SURVEY_SIZE = 256, 257, 258
"""Places behind those of the types in the survey of a walk, and how many there are in all."""

NEVER_ERASED = 256
"""As the number of the type without checksum: no entry has it."""

_MIN_HEADER = h.MIN_HEADER_SIZE
_MAX_HEADER = h.MAX_HEADER_SIZE
_FILE_HEADER_NO = FILE_HEADER_NO
_LIMIT, _NEED_MORE, _BAD_HEADER, _CHAIN, _ROWS = (int(stop) for stop in Stop)
_SURVEYED_BAD, _SURVEYED_FLAGS = SURVEYED_BAD, SURVEYED_FLAGS
_BAD, _OK, _NONE = int(Checksum.BAD), int(Checksum.OK), int(Checksum.NONE)


def erased_no(version: int) -> int:
    """The type number whose checksum means nothing in files of this log version."""
    return ERASED_NO if version >= ENTRY_TYPES[ERASED_NO].first_version else NEVER_ERASED


@kernel
def walk(
    buf: Any,
    base: int,
    at: int,
    limit: int,
    file_size: int,
    expected_prev: int,
    shift: int,
    vlsn_mask: int,
    check: int,
    flags_mask: int,
    erased: int,
    offsets: Any,
    prev_offsets: Any,
    sums: Any,
    item_sizes: Any,
    vlsns: Any,
    types: Any,
    flags: Any,
    header_sizes: Any,
    states: Any,
    survey: Any,
) -> tuple[int, int, int]:
    """Step over entries from offset `at` while they begin before `limit`.

    With `check` each is summed when the one behind it has been taken, as its bytes are in the
    core's cache then; before that its size may be wild.

    Args:
        buf: bytes [base, base + len(buf)) of the file.
        base: offset in the file of the first byte of `buf`.
        at: offset in the file of an entry.
        limit: first offset at which no entry is begun.
        file_size: bytes of the whole file; an entry that would end behind it is a bad header.
        expected_prev: what the first header's prevOffset must be, or NO_OFFSET for anything.
        shift: how much further back than they are entries name the ones before them; not 0 where
            bytes were inserted or are missing.
        vlsn_mask: header flags of which any means that a VLSN follows.
        check: not 0 to fill `states` of all entries but the last.
        flags_mask, erased: as for `check_sums`.
        offsets, prev_offsets, sums, item_sizes, vlsns, types, flags, header_sizes, states:
            outputs, one element an entry, of the dtypes of ROW_DTYPE.
        survey: int64 (SURVEY_SIZE,), to which the summed entries are added: how many there are of
            each type, how many are BAD, the flags that any has.

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
        if expected_prev != -1 and prev != expected_prev:
            return n, at, _CHAIN
        if after - base > size:
            return n, at, _NEED_MORE
        if check != 0 and n > 0:
            start = i - header_sizes[n - 1] - item_sizes[n - 1]
            if types[n - 1] == erased:
                states[n - 1] = _NONE
            else:
                right = adler32(buf, start + 4, i, flags_mask) == sums[n - 1]
                states[n - 1] = _OK if right else _BAD
                survey[_SURVEYED_BAD] += 0 if right else 1
            survey[types[n - 1]] += 1
            survey[_SURVEYED_FLAGS] |= flags[n - 1]
        offsets[n] = at
        prev_offsets[n] = prev
        sums[n] = load_u32(buf, i)
        item_sizes[n] = item_size
        vlsns[n] = load_i64(buf, i + _MIN_HEADER) if header_size == _MAX_HEADER else -1
        types[n] = type_no
        flags[n] = flag
        header_sizes[n] = header_size
        n += 1
        expected_prev = at - shift
        at = after


@kernel
def check_sums(
    buf: Any,
    base: int,
    flags_mask: int,
    erased: int,
    n: int,
    offsets: Any,
    header_sizes: Any,
    item_sizes: Any,
    types: Any,
    sums: Any,
    states: Any,
) -> None:
    """Fill `states[:n]` with OK, BAD or NONE.

    `flags_mask` clears the flag that the checksum does not cover, `erased` is `erased_no` of the
    file's version. The entries lie in `buf`.
    """
    for row in range(n):
        if types[row] == erased:
            states[row] = _NONE
            continue
        start = np.int64(offsets[row]) - base
        stop = start + header_sizes[row] + item_sizes[row]
        right = adler32(buf, start + 4, stop, flags_mask) == sums[row]
        states[row] = _OK if right else _BAD


def check_sums_plain(
    buf: memoryview,
    base: int,
    flags_mask: int,
    erased: int,
    n: int,
    offsets: Any,
    header_sizes: Any,
    item_sizes: Any,
    types: Any,
    sums: Any,
    states: Any,
) -> None:
    """`check_sums` on a memoryview, with zlib's Adler-32."""
    for row in range(n):
        if types[row] == erased:
            states[row] = _NONE
            continue
        start = int(offsets[row]) - base
        stop = start + int(header_sizes[row]) + int(item_sizes[row])
        head = bytes((buf[start + 4], buf[start + 5] & flags_mask))
        right = zlib.adler32(buf[start + 6 : stop], zlib.adler32(head)) == sums[row]
        states[row] = _OK if right else _BAD
