"""What tells a good entry from bytes that look like one, anywhere in a file.

`Searcher` weighs what `resync.find_entry` finds, by the bytes that are loaded and, where these do
not tell, by others of the file.
"""

from __future__ import annotations

import zlib

import numpy as np

from je_tools.formats.je import header as h
from je_tools.formats.je.entries import entry_checksum
from je_tools.formats.je.resync import ALWAYS_SUMMED, ERASED_STEPS, SUMS_KEPT
from je_tools.formats.je.types import FILE_HEADER_NO
from je_tools.formats.je.walk import NO_OFFSET, HeaderRules
from je_tools.formats.packed import load_i32, load_u32
from je_tools.formats.source import Bytes, Source, as_plain

_BUDGET_WINDOWS = 16
_PIECE = 1 << 20


class Searcher:
    """Judges entries anywhere in a file, by the bytes that are loaded and by others.

    Args:
        source: the file.
        size: bytes of it that are log.
        version: its log version.
        window: bytes that are loaded at once.
        look_cost: what a look at a header elsewhere takes from the budget for sums.
        relaxed: see `reader.Place`.

    Attributes:
        _budget: bytes that may still be summed in vain.
        _sums: as for `resync.read_damaged`, shared with it.
        _marks: its `failed`; empty until it is called, and zeros for each buffer.
        _failed: where other chains begin that failed.
    """

    def __init__(
        self,
        source: Source,
        size: int,
        version: int,
        window: int,
        *,
        look_cost: int,
        relaxed: bool,
    ) -> None:
        self.source = source
        self.size = size
        self.version = version
        self._relaxed = relaxed
        self._last = NO_OFFSET
        self._shift = 0
        self._rules = HeaderRules.of(version, size)
        self._base = 0
        self._data: Bytes = np.empty(0, dtype=np.uint8)
        self._budget = _BUDGET_WINDOWS * window + size
        self._look_cost = look_cost
        self._failed: set[int] = set()
        self._marks = np.empty(0, np.uint8)
        self._marked = (0, 0)
        self._sums = np.full((SUMS_KEPT, 2), NO_OFFSET, np.int64)

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
        for _ in range(ERASED_STEPS):
            chain.append(at)
            if self._has_failed(at) or not self._sum_is_right(at):
                break
            if self._header(at)[4] != self._rules.erased_type:
                return True
            behind = self._end_of(at)
            if behind == self.size:
                return True
            if not self._leads_on(at, behind):
                break
            at = behind
        else:
            return True
        self._note_failed(chain)
        return False

    def _make_marks(self) -> None:
        """Have marks for the buffer that is loaded."""
        loaded = self._base, len(self._data)
        if self._marked != loaded:
            self._marked = loaded
            self._marks = np.zeros(len(self._data) // 8 + 1, np.uint8)

    def _has_failed(self, at: int) -> bool:
        i = at - self._base
        marked = 0 <= i < 8 * len(self._marks) and self._marks[i >> 3] >> (i & 7) & 1
        return bool(marked) or at in self._failed

    def _note_failed(self, chain: list[int]) -> None:
        """Remember chains that failed: where the kernel sees them, if it is used."""
        for at in chain:
            i = at - self._base
            if 0 <= i < 8 * len(self._marks):
                self._marks[i >> 3] |= 1 << (i & 7)
            else:
                self._failed.add(at)

    def _leads_on(self, at: int, behind: int) -> bool:
        """Whether the entry at `behind` names the one at `at` as the one before it."""
        if not self._is_loaded(behind) and behind + h.MIN_HEADER_SIZE <= self.size:
            # Headers may be made so that each claims another end, and each look is a read.
            if self._budget < self._look_cost:
                return False
            self._budget -= self._look_cost
        header = self._header(behind)
        if len(header) < h.MIN_HEADER_SIZE or load_i32(header, 10) < 0 or header[4] == 0:
            return False
        return load_u32(header, 6) in (at, at - self._shift)

    def _is_loaded(self, at: int) -> bool:
        """Whether the bytes of a header at `at` are in the buffer."""
        return 0 <= at - self._base <= len(self._data) - h.MIN_HEADER_SIZE

    def _header(self, at: int) -> bytes:
        """The fixed part of a header, shorter at the end of the file."""
        if self._is_loaded(at):
            i = at - self._base
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
        stored = header[5] & self._rules.vlsn_mask and header[4] != FILE_HEADER_NO
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
        if header[4] == self._rules.erased_type:
            return True
        if stop - at <= ALWAYS_SUMMED:
            return self._sum_of(at, stop) == load_u32(header, 0)
        # A long last entry is asked about twice, and must not use up the budget by that.
        kept = self._sums[at % SUMS_KEPT]
        if kept[0] != at:
            if stop - at > self._budget:
                return False
            self._budget -= stop - at
            kept[:] = at, self._sum_of(at, stop) == load_u32(header, 0)
        return bool(kept[1])

    def _note_sum(self, at: int) -> None:
        """Remember that the sum of the entry at `at` is right: it may be asked about once more."""
        self._sums[at % SUMS_KEPT] = at, 1

    def _sum_of(self, at: int, stop: int) -> int:
        if self._base <= at and stop <= self._base + len(self._data):
            data = as_plain(self._data)[at - self._base : stop - self._base]
            return entry_checksum(data, self.version)
        first = min(at + _PIECE, stop)
        total = entry_checksum(self.source.read_bytes(at, first), self.version)
        for start in range(first, stop, _PIECE):
            total = zlib.adler32(self.source.read_bytes(start, min(start + _PIECE, stop)), total)
        return total
