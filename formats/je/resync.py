"""Kernels that find the way on behind damage, by the bytes of one buffer.

`find_entry` looks at headers and sums alone. `read_damaged` weighs what is found and reads on, from
gap to gap: what `search.Searcher` and `reader.RangeReader` do in Python, which know the reasons.
"""

from __future__ import annotations

import zlib
from enum import IntEnum
from typing import Any

import numpy as np

from je_tools.formats.adler import adler32
from je_tools.formats.je import header as h
from je_tools.formats.je import places
from je_tools.formats.je.types import ENTRY_TYPES, FILE_HEADER_NO
from je_tools.formats.je.walk import NO_OFFSET, Checksum
from je_tools.formats.kernels import kernel
from je_tools.formats.packed_kernels import load_i32, load_i64, load_u32


class Found(IntEnum):
    """What `find_entry` has to say of the offset that it gives."""

    NOTHING = 0
    """No entry begins before it."""
    ENTRY = 1
    """A plausible header, and the checksum is right."""
    ASK = 2
    """A plausible header; the sum cannot be told here: it is erased, or ends behind `buf`."""
    NEED_MORE = 3
    """The header there does not end inside `buf`."""


ALWAYS_SUMMED = 4096
"""Bytes up to which a candidate is summed when the budget for the search is used up."""


class Cursor(IntEnum):
    """Places in the array that tells `read_damaged` where reading stands."""

    AT = 0
    """Where the next entry begins, or where the next one is looked for."""
    LOST = 1
    """Where the gap begins behind which one is looked for; NO_OFFSET outside of gaps."""
    EXPECTED = 2
    """What the next entry must name as the one before it; NO_OFFSET for anything."""
    LAST = 3
    """Offset of the last entry; NO_OFFSET before the first."""
    SHIFT = 4
    """As for `walk`."""
    BUDGET = 5
    """Bytes that may still be summed in vain."""
    ROWS = 6
    GAPS = 7
    BREAKS = 8
    """How much of the outputs is filled."""
    BASE = 9
    """Offset in the file of the first byte of the buffer. From here on nothing is written."""
    LIMIT = 10
    """First offset at which no entry is begun."""
    FILE_SIZE = 11
    VLSN_MASK = 12
    FLAGS_MASK = 13
    ERASED = 14
    """These as for `find_entry`."""
    RELAXED = 15
    """As in `reader.Place`."""
    CHECK = 16
    """Whether entries are summed that the one behind them names."""
    LOOK_COST = 17
    """What a look at a header outside of the buffer takes from the budget."""


SUMS_KEPT = 64
"""Long entries whose sums are remembered: the last one is asked about twice."""

ERASED_STEPS = 4096
"""How many erased entries, which have no sum, must agree to be believed."""

_MIN_HEADER = h.MIN_HEADER_SIZE
_MAX_HEADER = h.MAX_HEADER_SIZE
_FILE_HEADER_NO = FILE_HEADER_NO
_TYPE_NO_MAX = max(ENTRY_TYPES)
_NOTHING, _ENTRY, _ASK, _FIND_MORE = (int(found) for found in Found)
_BAD, _OK, _NONE, _UNCHECKED = (int(state) for state in Checksum)
_AT, _LOST, _EXPECTED, _LAST, _SHIFT, _BUDGET, _ROWS, _GAPS, _BREAKS = range(9)
_BASE, _LIMIT, _FILE_SIZE, _VLSN_MASK, _FLAGS_MASK, _ERASED = range(9, 15)
_RELAXED, _CHECK, _LOOK_COST = range(15, 18)
_SINGLE, _INSERTED = places.SINGLE, places.INSERTED
_NO, _YES, _OUTSIDE = 0, 1, -1
_NO_OFFSET, _FAR, _LOST_ENTRY = NO_OFFSET, -2, -3
_OFFSETS = 1 << 32
_ALWAYS = ALWAYS_SUMMED
_SUMS_KEPT = SUMS_KEPT
_ERASED_STEPS = ERASED_STEPS
_PLAIN_BLOCK = 4096


@kernel
def find_entry(
    buf: Any,
    base: int,
    at: int,
    limit: int,
    file_size: int,
    low: int,
    high: int,
    vlsn_mask: int,
    flags_mask: int,
    erased: int,
    budget: int,
) -> tuple[int, int, int]:
    """The first offset in [at, limit) where a good entry begins, or one may.

    Plausible is a header with a known type, a size that fits the file, and a prevOffset in
    [low, its own offset + high). Its checksum must be right.

    Args:
        buf, base, at, limit, file_size, vlsn_mask: as for `walk`.
        low, high: what a prevOffset may be.
        flags_mask, erased: as for `check_sums`.
        budget: bytes of candidates longer than ALWAYS_SUMMED that may still be summed, so that
            bytes made to look like headers cannot stall the search.

    Returns:
        An offset, a `Found` that tells what is there, the budget that is left.
    """
    size = len(buf)
    while at < limit:
        i = at - base
        if i + _MIN_HEADER > size:
            return at, _FIND_MORE, budget
        type_no = buf[i + 4]
        if 0 < type_no <= _TYPE_NO_MAX and type_no != _FILE_HEADER_NO:
            item_size = load_i32(buf, i + 10)
            if item_size >= 0:
                total = item_size + _MIN_HEADER
                if buf[i + 5] & vlsn_mask:
                    total = item_size + _MAX_HEADER
                prev = load_u32(buf, i + 6)
                if low <= prev < at + high and at + total <= file_size:
                    if type_no == erased or i + total > size:
                        return at, _ASK, budget
                    if total <= _ALWAYS or total <= budget:
                        if total > _ALWAYS:
                            budget -= total
                        if adler32(buf, i + 4, i + total, flags_mask) == load_u32(buf, i):
                            return at, _ENTRY, budget
        at += 1
    return at, _NOTHING, budget


def find_entry_plain(
    buf: memoryview,
    base: int,
    at: int,
    limit: int,
    file_size: int,
    low: int,
    high: int,
    vlsn_mask: int,
    flags_mask: int,
    erased: int,
    budget: int,
) -> tuple[int, int, int]:
    """`find_entry` on a memoryview, with numpy's comparisons and zlib's Adler-32."""
    data = np.frombuffer(buf, np.uint8)
    whole_headers = base + len(data) - _MIN_HEADER + 1
    # Most gaps end soon, and a search goes on behind each entry that it has to ask about.
    block = _PLAIN_BLOCK // 16
    while at < limit:
        stop = min(at + block, limit, whole_headers)
        block = _PLAIN_BLOCK
        if at >= stop:
            return at, _FIND_MORE, budget
        starts = _plausible(data, base, at, stop, file_size, low, high, vlsn_mask)
        for start, total in starts:
            i = start - base
            type_no = buf[i + 4]
            if type_no == erased or i + total > len(data):
                return start, _ASK, budget
            if total <= _ALWAYS or total <= budget:
                if total > _ALWAYS:
                    budget -= total
                head = bytes((type_no, buf[i + 5] & flags_mask))
                if zlib.adler32(buf[i + 6 : i + total], zlib.adler32(head)) == load_u32(buf, i):
                    return start, _ENTRY, budget
        at = stop
    return at, _NOTHING, budget


def _plausible(
    data: Any,
    base: int,
    at: int,
    stop: int,
    file_size: int,
    low: int,
    high: int,
    vlsn_mask: int,
) -> list[tuple[int, int]]:
    """Offsets in [at, stop) of plausible headers, and the sizes of their entries."""
    first = at - base
    types = data[first + 4 : stop - base + 4]
    i = first + np.flatnonzero((types - 1 < _TYPE_NO_MAX) & (types != _FILE_HEADER_NO))
    items = _load_u32s(data, i + 10)
    i, items = i[items < 1 << 31], items[items < 1 << 31]
    totals = items + np.where(data[i + 5] & vlsn_mask, _MAX_HEADER, _MIN_HEADER)
    prevs = _load_u32s(data, i + 6)
    in_chain = (low <= prevs) & (prevs < i + base + high)
    keep = in_chain & (i + base + totals <= file_size)
    return list(zip((i[keep] + base).tolist(), totals[keep].tolist(), strict=True))


def _load_u32s(data: Any, at: Any) -> Any:
    """Little-endian numbers at each offset of the array `at`, int64."""
    return sum(data[at + place].astype(np.int64) << 8 * place for place in range(4))


@kernel
def _end_of(buf: Any, s: Any, at: int) -> int:
    """Where the entry at `at` ends; NO_OFFSET where none can be, _FAR if its header is not here."""
    if at < 0 or at + _MIN_HEADER > s[_FILE_SIZE]:
        return _NO_OFFSET
    i = at - s[_BASE]
    if i < 0 or i + _MIN_HEADER > len(buf):
        return _FAR
    item_size = load_i32(buf, i + 10)
    if buf[i + 4] == 0 or item_size < 0:
        return _NO_OFFSET
    end = at + _MIN_HEADER + item_size
    if (buf[i + 5] & s[_VLSN_MASK]) != 0 and buf[i + 4] != _FILE_HEADER_NO:
        end += _MAX_HEADER - _MIN_HEADER
    return end if end <= s[_FILE_SIZE] else _NO_OFFSET


@kernel
def _leads_on(buf: Any, s: Any, at: int, behind: int) -> int:
    """Whether the entry at `behind` names the one at `at` as the one before it."""
    if behind < 0 or behind + _MIN_HEADER > s[_FILE_SIZE]:
        return _NO
    i = behind - s[_BASE]
    if i < 0 or i + _MIN_HEADER > len(buf):
        return _NO if s[_BUDGET] < s[_LOOK_COST] else _OUTSIDE
    if buf[i + 4] == 0 or load_i32(buf, i + 10) < 0:
        return _NO
    prev = load_u32(buf, i + 6)
    return _YES if prev == at or prev == at - s[_SHIFT] else _NO


@kernel
def _is_summed(buf: Any, s: Any, at: int, end: int) -> int:
    """Whether the sum of the entry [at, end) in the buffer is the one in its header."""
    i = at - s[_BASE]
    total = adler32(buf, i + 4, end - s[_BASE], s[_FLAGS_MASK])
    return _YES if total == load_u32(buf, i) else _NO


@kernel
def _sum_is_right(buf: Any, s: Any, sums: Any, at: int) -> int:
    """`Searcher._sum_is_right`."""
    end = _end_of(buf, s, at)
    if end < 0:
        return _NO if end == _NO_OFFSET else _OUTSIDE
    if buf[at - s[_BASE] + 4] == s[_ERASED]:
        return _YES
    is_inside = end - s[_BASE] <= len(buf)
    size = end - at
    if size <= _ALWAYS:
        return _is_summed(buf, s, at, end) if is_inside else _OUTSIDE
    slot = at % _SUMS_KEPT
    if sums[slot, 0] != at:
        if size > s[_BUDGET]:
            return _NO
        if not is_inside:
            return _OUTSIDE
        s[_BUDGET] -= size
        sums[slot, 0] = at
        sums[slot, 1] = _is_summed(buf, s, at, end)
    return _YES if sums[slot, 1] == _YES else _NO


@kernel
def _begins_chain(buf: Any, s: Any, sums: Any, failed: Any, first: int) -> int:
    """`Searcher._begins_chain`; `failed` has a bit for each byte of the buffer."""
    at = first
    steps = 0
    right = _YES
    while right == _YES and steps < _ERASED_STEPS:
        i = at - s[_BASE]
        if 0 <= i < len(buf) and (failed[i >> 3] & (1 << (i & 7))) != 0:
            right = _NO
            break
        right = _sum_is_right(buf, s, sums, at)
        if right == _YES:
            if buf[i + 4] != s[_ERASED]:
                return _YES
            behind = _end_of(buf, s, at)
            if behind == s[_FILE_SIZE]:
                return _YES
            right = _leads_on(buf, s, at, behind)
            if right == _YES:
                at = behind
                steps += 1
    if right != _NO:
        return right
    last = at
    at = first
    while at <= last:
        i = at - s[_BASE]
        failed[i >> 3] |= 1 << (i & 7)
        at = _end_of(buf, s, at) if at < last else last + 1
    return _NO


@kernel
def _is_good(buf: Any, s: Any, sums: Any, failed: Any, at: int, end: int) -> int:
    """Whether the sum of a plausible entry [at, end) is right, or that of those behind it."""
    if buf[at - s[_BASE] + 4] == s[_ERASED] or end - s[_BASE] > len(buf):
        return _begins_chain(buf, s, sums, failed, at)
    size = end - at
    if size > _ALWAYS:
        if size > s[_BUDGET]:
            return _NO
        s[_BUDGET] -= size
    right = _is_summed(buf, s, at, end)
    if right == _YES and size > _ALWAYS:
        # Where nothing follows that names it, it is asked about once more.
        sums[at % _SUMS_KEPT, 0] = at
        sums[at % _SUMS_KEPT, 1] = _YES
    return right


@kernel
def _is_placed(buf: Any, s: Any, sums: Any, at: int, behind: int) -> int:
    """`Searcher._is_placed`, behind a gap, for a good entry [at, behind)."""
    if s[_RELAXED]:
        return _YES if behind == s[_FILE_SIZE] else _sum_is_right(buf, s, sums, behind)
    if behind == s[_FILE_SIZE]:
        prev = load_u32(buf, at - s[_BASE] + 6)
        if prev == s[_LOST]:
            return _YES
        end = _end_of(buf, s, prev)
        if end == _FAR:
            return _OUTSIDE
        return _YES if end == at else _NO
    leads = _leads_on(buf, s, at, behind)
    if leads != _NO:
        return leads
    right = _sum_is_right(buf, s, sums, behind)
    return right if right == _OUTSIDE else 1 - right


@kernel
def _weigh(buf: Any, s: Any, sums: Any, failed: Any, at: int) -> int:
    """Whether the candidate at `at`, whose header is plausible, is a good entry that fits."""
    end = _end_of(buf, s, at)
    if end < 0:
        return _NO
    budget = s[_BUDGET]
    right = _is_good(buf, s, sums, failed, at, end)
    if right == _YES:
        right = _is_placed(buf, s, sums, at, end)
    if right == _OUTSIDE:
        s[_BUDGET] = budget
    return right


@kernel
def _search(buf: Any, s: Any, sums: Any, failed: Any) -> int:
    """Move on to the first good entry from _AT on that fits; whether there is one before _LIMIT."""
    low = 0
    high = _OFFSETS
    if not s[_RELAXED]:
        low = max(min(s[_LOST], s[_LOST] - s[_SHIFT]), 0)
        high = max(0, -s[_SHIFT])
    base = s[_BASE]
    at = s[_AT]
    stop = min(s[_LIMIT], base + len(buf) - _MIN_HEADER + 1)
    while base <= at < stop:
        i = at - base
        type_no = buf[i + 4]
        is_known = 0 < type_no <= _TYPE_NO_MAX and type_no != _FILE_HEADER_NO
        if is_known and low <= load_u32(buf, i + 6) < at + high:
            right = _weigh(buf, s, sums, failed, at)
            if right != _NO:
                s[_AT] = at
                return right
        at += 1
    s[_AT] = at
    return _NO if at >= s[_LIMIT] else _OUTSIDE


@kernel
def _close_gap(buf: Any, s: Any, gaps: Any) -> None:
    """`RangeReader._close_gap`, for the gap up to _AT; behind it any prevOffset will do."""
    prev = load_u32(buf, s[_AT] - s[_BASE] + 6)
    last = s[_LAST]
    said = 0
    if prev == s[_LOST] or prev == s[_LOST] - s[_SHIFT]:
        said = _SINGLE
    if last != _NO_OFFSET and (prev == last or prev == last - s[_SHIFT]):
        said += _INSERTED
    row = s[_GAPS]
    gaps[row, 0] = s[_LOST]
    gaps[row, 1] = s[_AT]
    gaps[row, 2] = said
    s[_GAPS] += 1
    s[_LOST] = _NO_OFFSET
    s[_EXPECTED] = _NO_OFFSET


@kernel
def _break_chain(buf: Any, s: Any, sums: Any, breaks: Any, at: int, behind: int) -> int:
    """`RangeReader._break_chain`, for the entry [at, behind); _OUTSIDE if that cannot be told."""
    prev = load_u32(buf, at - s[_BASE] + 6)
    last = s[_LAST]
    shift = last - prev
    if prev != last:
        right = _sum_is_right(buf, s, sums, behind)
        if right == _OUTSIDE:
            return _OUTSIDE
        if right == _YES:
            shift = at - load_u32(buf, behind - s[_BASE] + 6)
        row = s[_BREAKS]
        breaks[row, 0] = at
        breaks[row, 1] = last
        breaks[row, 2] = prev
        breaks[row, 3] = shift
        s[_BREAKS] += 1
    s[_SHIFT] = shift
    s[_EXPECTED] = _NO_OFFSET
    return _YES


@kernel
def _fits(buf: Any, s: Any, sums: Any, breaks: Any, at: int, end: int) -> int:
    """Whether the entry [at, end) may follow the last one; it may break the chain if it is good."""
    prev = load_u32(buf, at - s[_BASE] + 6)
    if s[_EXPECTED] != _NO_OFFSET and prev != s[_EXPECTED]:
        right = _YES if prev == s[_LAST] else _sum_is_right(buf, s, sums, at)
        if right == _YES:
            right = _break_chain(buf, s, sums, breaks, at, end)
        if right != _YES:
            return right
    if end - s[_BASE] <= len(buf):
        return _YES
    leads = _leads_on(buf, s, at, end)
    if leads == _NO:
        leads = _sum_is_right(buf, s, sums, at)
    # One that is sound has to be loaded.
    return _NO if leads == _NO else _OUTSIDE


@kernel
def _checksum_of(buf: Any, s: Any, sums: Any, at: int, end: int) -> int:
    """The `Checksum` of the entry [at, end), _LOST_ENTRY if it is none, _FAR if it is not told."""
    leads = _leads_on(buf, s, at, end)
    if leads == _OUTSIDE:
        return _FAR
    state = _OK
    if buf[at - s[_BASE] + 4] == s[_ERASED]:
        state = _NONE
    elif leads == _NO:
        if _sum_is_right(buf, s, sums, at) == _NO:
            return _LOST_ENTRY
    elif s[_CHECK] and _is_summed(buf, s, at, end) == _NO:
        state = _BAD
    return state if s[_CHECK] else _UNCHECKED


@kernel
def _step(
    buf: Any,
    s: Any,
    sums: Any,
    breaks: Any,
    offsets: Any,
    prev_offsets: Any,
    stored: Any,
    item_sizes: Any,
    vlsns: Any,
    types: Any,
    flags: Any,
    header_sizes: Any,
    states: Any,
) -> int:
    """Take the entry at _AT as a row; _NO where there is none, _OUTSIDE where that is not told."""
    at = s[_AT]
    row = s[_ROWS]
    if at >= s[_LIMIT] or row >= len(offsets) or s[_BREAKS] >= len(breaks):
        return _OUTSIDE
    i = at - s[_BASE]
    if i < 0 or i + _MIN_HEADER > len(buf):
        return _OUTSIDE
    end = _end_of(buf, s, at)
    if end < 0:
        return _NO
    fits = _fits(buf, s, sums, breaks, at, end)
    if fits != _YES:
        return fits
    state = _checksum_of(buf, s, sums, at, end)
    if state < 0:
        return _NO if state == _LOST_ENTRY else _OUTSIDE
    item_size = load_i32(buf, i + 10)
    header_size = end - at - item_size
    offsets[row] = at
    prev_offsets[row] = load_u32(buf, i + 6)
    stored[row] = load_u32(buf, i)
    item_sizes[row] = item_size
    vlsns[row] = load_i64(buf, i + _MIN_HEADER) if header_size == _MAX_HEADER else -1
    types[row] = buf[i + 4]
    flags[row] = buf[i + 5]
    header_sizes[row] = header_size
    states[row] = state
    s[_ROWS] = row + 1
    s[_LAST] = at
    s[_EXPECTED] = at - s[_SHIFT]
    s[_AT] = end
    return _YES


@kernel
def read_damaged(
    buf: Any,
    s: Any,
    sums: Any,
    failed: Any,
    gaps: Any,
    breaks: Any,
    offsets: Any,
    prev_offsets: Any,
    stored: Any,
    item_sizes: Any,
    vlsns: Any,
    types: Any,
    flags: Any,
    header_sizes: Any,
    states: Any,
) -> None:
    """Read on behind damage as far as the bytes in `buf` and the room in the outputs allow.

    What `RangeReader` does step by step, for bytes with more damage than Python could follow. It
    stops in front of what it cannot decide: the reader decides that, and may call again.

    Args:
        buf: bytes of the file.
        s: int64 (len(Cursor),); where reading stands, both read and written.
        sums: int64 (SUMS_KEPT, 2); offsets of long entries, and whether their sums are right.
        failed: uint8; a bit for each byte of `buf` at which a chain begins that is known to fail.
        gaps, breaks: int64 (n, 3) and (n, 4) outputs, as `places.Gaps` and `places.ChainBreaks`.
        offsets, prev_offsets, stored, item_sizes, vlsns, types, flags, header_sizes, states:
            outputs, one element an entry, of the dtypes of `walk.ROW_DTYPE`.
    """
    taken = _YES
    while taken != _OUTSIDE:
        if s[_LOST] != _NO_OFFSET:
            if s[_GAPS] >= len(gaps) or _search(buf, s, sums, failed) != _YES:
                return
            _close_gap(buf, s, gaps)
        taken = _step(
            buf,
            s,
            sums,
            breaks,
            offsets,
            prev_offsets,
            stored,
            item_sizes,
            vlsns,
            types,
            flags,
            header_sizes,
            states,
        )
        if taken == _NO:
            s[_LOST] = s[_AT]
            s[_AT] += 1
