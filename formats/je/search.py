"""The search for entries behind damage, and what tells a good entry from bytes that look like one.

`find_entry` looks at headers and sums alone; `Searcher` weighs what it finds, by the bytes that
are loaded and, where these do not tell, by others of the file.
"""

from __future__ import annotations

import zlib
from enum import IntEnum
from typing import Any

import numpy as np

from je_tools.formats.je import header as h
from je_tools.formats.je.entries import entry_checksum
from je_tools.formats.je.types import ENTRY_TYPES, FILE_HEADER_NO
from je_tools.formats.je.walk import NO_OFFSET, adler32, erased_no
from je_tools.formats.kernels import kernel
from je_tools.formats.packed import load_i32, load_u32
from je_tools.formats.source import Bytes, Source, as_plain


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

_MIN_HEADER = h.MIN_HEADER_SIZE
_MAX_HEADER = h.MAX_HEADER_SIZE
_FILE_HEADER_NO = FILE_HEADER_NO
_NOTHING, _ENTRY, _ASK, _FIND_MORE = (int(found) for found in Found)
_TYPE_NO_MAX = max(ENTRY_TYPES)
_ALWAYS = ALWAYS_SUMMED
_PLAIN_BLOCK = 4096
_BUDGET_WINDOWS = 16
_ERASED_STEPS = 4096
_SUMS_KEPT = 64
_PIECE = 1 << 20


class Searcher:
    """Judges entries anywhere in a file, by the bytes that are loaded and by others.

    Args:
        source: the file.
        size: bytes of it that are log.
        version: its log version.
        window: bytes that are loaded at once.
        relaxed: see `reader.Place`.
    """

    def __init__(
        self, source: Source, size: int, version: int, window: int, *, relaxed: bool
    ) -> None:
        self.source = source
        self.size = size
        self.version = version
        self._relaxed = relaxed
        self._last = NO_OFFSET
        self._shift = 0
        self._vlsn_mask = h.vlsn_mask(version)
        self._flags_mask = 0xFF & ~h.invisible_mask(version)
        self._erased = erased_no(version)
        self._base = 0
        self._data: Bytes = np.empty(0, dtype=np.uint8)
        self._budget = _BUDGET_WINDOWS * window + size
        self._failed: set[int] = set()
        self._summed: dict[int, bool] = {}

    def _is_placed(self, at: int, lost: int) -> bool:
        """Whether a good entry at `at` may follow what is known of the bytes before it.

        Where nothing is known, it must name an entry that ends at it: behind a gap that one may
        be damaged. There the entry behind must not contradict, as it does in a copy of a log
        inside a record, and where bytes are missing; relaxed, it need only be good.
        """
        prev = self._prev_at(at)
        if lost == NO_OFFSET:
            return self._end_of(prev) == at
        behind = self._end_of(at)
        if self._relaxed:
            return behind == self.size or self._sum_is_right(behind)
        if behind == self.size:
            return prev == lost or self._end_of(prev) == at
        return self._leads_on(at, behind) or not self._sum_is_right(behind)

    def _begins_chain(self, at: int) -> bool:
        """Whether a good entry is at `at`; an erased one has no sum, so those behind must agree.

        No entry has two before it, so the chains that failed are remembered to no great cost.
        """
        chain = []
        for _ in range(_ERASED_STEPS):
            chain.append(at)
            if at in self._failed or not self._sum_is_right(at):
                break
            if self._header(at)[4] != self._erased:
                return True
            behind = self._end_of(at)
            if behind == self.size:
                return True
            if not self._leads_on(at, behind):
                break
            at = behind
        else:
            return True
        self._failed.update(chain)
        return False

    def _leads_on(self, at: int, behind: int) -> bool:
        """Whether the entry at `behind` names the one at `at` as the one before it."""
        header = self._header(behind)
        if len(header) < h.MIN_HEADER_SIZE or load_i32(header, 10) < 0 or header[4] == 0:
            return False
        return load_u32(header, 6) in (at, at - self._shift)

    def _header(self, at: int) -> bytes:
        """The fixed part of a header, shorter at the end of the file."""
        i = at - self._base
        if 0 <= i <= len(self._data) - h.MIN_HEADER_SIZE:
            return self._data[i : i + h.MIN_HEADER_SIZE].tobytes()
        return self.source.read_bytes(at, min(at + h.MIN_HEADER_SIZE, self.size))

    def _prev_at(self, at: int) -> int:
        """The prevOffset of the whole header at `at`."""
        return load_u32(self._header(at), 6)

    def _end_of(self, at: int) -> int:
        """Where the entry at `at` ends, as its header says, or NO_OFFSET if it cannot."""
        header = self._header(at)
        if len(header) < h.MIN_HEADER_SIZE or load_i32(header, 10) < 0 or header[4] == 0:
            return NO_OFFSET
        stored = header[5] & self._vlsn_mask and header[4] != FILE_HEADER_NO
        end = at + load_i32(header, 10) + (h.MAX_HEADER_SIZE if stored else h.MIN_HEADER_SIZE)
        return end if end <= self.size else NO_OFFSET

    def _size_at(self, at: int) -> int:
        """Bytes from `at` to the end of the entry there, or of a header where there is none."""
        end = self._end_of(at)
        return h.MIN_HEADER_SIZE if end == NO_OFFSET else end - at

    def _sum_is_right(self, at: int) -> bool:
        """Whether a whole entry begins at `at` and its checksum is right, or cannot be told.

        Also false when it is long and too many bytes have been summed in vain before.
        """
        stop = self._end_of(at)
        if stop == NO_OFFSET:
            return False
        header = self._header(at)
        if header[4] == self._erased:
            return True
        if stop - at <= ALWAYS_SUMMED:
            return self._sum_of(at, stop) == load_u32(header, 0)
        # A long last entry is asked about twice, and must not use up the budget by that.
        if at not in self._summed:
            if stop - at > self._budget:
                return False
            self._budget -= stop - at
            if len(self._summed) == _SUMS_KEPT:
                self._summed.clear()
            self._summed[at] = self._sum_of(at, stop) == load_u32(header, 0)
        return self._summed[at]

    def _sum_of(self, at: int, stop: int) -> int:
        if self._base <= at and stop <= self._base + len(self._data):
            data = as_plain(self._data)[at - self._base : stop - self._base]
            return entry_checksum(data, self.version)
        first = min(at + _PIECE, stop)
        total = entry_checksum(self.source.read_bytes(at, first), self.version)
        for start in range(first, stop, _PIECE):
            total = zlib.adler32(self.source.read_bytes(start, min(start + _PIECE, stop)), total)
        return total


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
