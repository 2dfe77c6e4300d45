"""Reads a range of a log file into columns, and finds the way on behind damage.

A range stands alone, so that threads and Spark tasks can share a file: one that does not begin
at a known entry looks for the first entry in it, and the ranges of a file are joined by `end`
and `first`. Every byte between two entries is in a row or in a `Gap`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from je_tools.formats.je import header as h
from je_tools.formats.je import walk as w
from je_tools.formats.je.entries import entry_checksum
from je_tools.formats.je.types import ERASED_NO, FILE_HEADER_NO
from je_tools.formats.kernels import compiled
from je_tools.formats.packed import load_i32, load_u32
from je_tools.formats.source import Bytes, Source, as_plain

RANGE_SIZE = 4 << 20
"""Bytes of log that one task reads at once: caches hold it, and memory stays small."""

PLAIN_LIMIT = 4 << 20
"""Below this many bytes plain Python is done before numba is imported."""

_SLACK = 64 << 10
_SEARCH_BUDGET = 16
_ALWAYS_SUMMED = 4096
_ERASED_STEPS = 4096


@dataclass(frozen=True, slots=True)
class Rows:
    """Entries of one file in columns; element i of each array is the i-th entry.

    Attributes:
        file_no: number in the file's name.
        version: log version of the file.
        data: uint8 array with the bytes of these entries; valid until the thread that read it
            reads again.
        base: offset in the file of data[0].
        offset, prev_offset, stored_checksum: uint32.
        item_size: int32, header not counted.
        vlsn: int64, -1 where none is stored.
        type, flags, header_size, checksum: uint8; `checksum` holds `walk.Checksum`.
    """

    file_no: int
    version: int
    data: Bytes
    base: int
    offset: npt.NDArray[np.uint32]
    prev_offset: npt.NDArray[np.uint32]
    stored_checksum: npt.NDArray[np.uint32]
    item_size: npt.NDArray[np.int32]
    vlsn: npt.NDArray[np.int64]
    type: npt.NDArray[np.uint8]
    flags: npt.NDArray[np.uint8]
    header_size: npt.NDArray[np.uint8]
    checksum: npt.NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.offset)

    @property
    def lsn(self) -> npt.NDArray[np.int64]:
        """Log sequence numbers, int64."""
        return self.offset.astype(np.int64) | self.file_no << 32

    @property
    def size(self) -> npt.NDArray[np.int64]:
        """Bytes of each entry, header counted, int64."""
        return self.item_size.astype(np.int64) + self.header_size

    @property
    def invisible(self) -> npt.NDArray[np.bool_]:
        """Whether a rollback has taken the entry back."""
        return (self.flags & h.invisible_mask(self.version)) != 0

    @property
    def replicated(self) -> npt.NDArray[np.bool_]:
        """Whether the entry is part of the replication stream."""
        return (self.flags & h.REPLICATED) != 0

    @property
    def has_vlsn(self) -> npt.NDArray[np.bool_]:
        """Whether the header holds a VLSN."""
        return self.header_size == h.MAX_HEADER_SIZE

    @property
    def provisional(self) -> npt.NDArray[np.uint8]:
        """Index into `header.PROVISIONAL_NAMES`, uint8."""
        before_end = (self.flags & h.PROVISIONAL_BEFORE_CKPT_END) != 0
        whole = (self.flags & h.PROVISIONAL_YES) != 0
        return np.where(whole, 2, before_end).astype(np.uint8)

    def take(self, keep: npt.NDArray[Any]) -> Rows:
        """The rows of a mask or of an index array, in its order."""
        columns = {name: getattr(self, name)[keep] for name in COLUMN_NAMES}
        return Rows(self.file_no, self.version, self.data, self.base, **columns)

    def entry_bytes(self, row: int) -> bytes:
        """One whole entry."""
        start = int(self.offset[row]) - self.base
        return self.data[start : start + int(self.size[row])].tobytes()


COLUMN_NAMES = (
    "offset",
    "prev_offset",
    "stored_checksum",
    "item_size",
    "vlsn",
    "type",
    "flags",
    "header_size",
    "checksum",
)


@dataclass(frozen=True, slots=True)
class Gap:
    """Bytes [start, stop) that hold no entry that can be trusted.

    `start` is where an entry should begin. `single` says that the gap is exactly one entry: the
    entry behind names `start` as the one before it.
    """

    start: int
    stop: int
    single: bool = False


@dataclass
class RangeState:
    """What a range has shown when all its rows have been taken.

    Attributes:
        first: offset of the first entry, or NO_OFFSET where the range begins none.
        last: offset of the last entry, or NO_OFFSET.
        end: offset behind the last entry, where reading goes on; NO_OFFSET when it is lost.
        lost_from: where the entry should begin behind which nothing was found; else NO_OFFSET.
        gaps: the gaps that were closed inside the range.
        chain_breaks: offsets of good entries whose prevOffset names another than the one before.
    """

    first: int = w.NO_OFFSET
    last: int = w.NO_OFFSET
    end: int = w.NO_OFFSET
    lost_from: int = w.NO_OFFSET
    gaps: list[Gap] = field(default_factory=list)
    chain_breaks: list[int] = field(default_factory=list)


class RangeReader:
    """Reads the entries that begin in [start, stop) of one file.

    Args:
        source: the file.
        file_no: number in its name.
        version: its log version.
        start, stop: where entries may begin.
        exact: an entry begins at `start`; else the first good one behind is searched.
        lost_from: with exact false: where the gap began that this range continues.
        fast: use compiled kernels.
        check: sum the entries; else all are UNCHECKED and a damaged one passes if the chain does.
    """

    def __init__(
        self,
        source: Source,
        file_no: int,
        version: int,
        start: int,
        stop: int,
        *,
        exact: bool,
        lost_from: int = w.NO_OFFSET,
        fast: bool,
        check: bool = True,
    ) -> None:
        self.source = source
        self.file_no = file_no
        self.version = version
        self.start = start
        self.stop = min(stop, source.size)
        self.exact = exact
        self.fast = fast
        self.check = check
        self.state = RangeState(lost_from=lost_from)
        self._vlsn_mask = h.vlsn_mask(version)
        self._flags_mask = 0xFF & ~h.invisible_mask(version)
        self._base = 0
        self._data: Bytes = np.empty(0, dtype=np.uint8)

    def __iter__(self) -> Iterator[Rows]:
        """The rows of the range in order; `state` is complete when they are exhausted."""
        state = self.state
        at, expected_prev = self.start, w.NO_OFFSET
        if not self.exact:
            at = self._search(self.start, state.lost_from)
        self._load(max(at, self.start), RANGE_SIZE + _SLACK)
        while at != w.NO_OFFSET:
            if state.lost_from != w.NO_OFFSET:
                self._close_gap(at)
            rows, behind, stop = self._walk(at, expected_prev)
            lost = self._lost_from(rows, behind, stop)
            if lost != w.NO_OFFSET and len(rows) and lost == rows.offset[-1]:
                rows = rows.take(slice(0, len(rows) - 1))  # type: ignore[arg-type]
            if len(rows):
                state.first = int(rows.offset[0]) if state.first < 0 else state.first
                state.last = int(rows.offset[-1])
                yield rows
            if lost == w.NO_OFFSET and stop == w.Stop.LIMIT:
                state.end = behind
                return
            at, expected_prev = self._go_on(lost, behind, stop)

    def _go_on(self, lost: int, behind: int, stop: int) -> tuple[int, int]:
        """Where to walk next, and what the entry there must name as the one before it."""
        if lost != w.NO_OFFSET:
            self.state.lost_from = lost
            return self._search(lost + 1, lost), w.NO_OFFSET
        if stop == w.Stop.CHAIN:
            self.state.chain_breaks.append(behind)
            return behind, w.NO_OFFSET
        if stop == w.Stop.NEED_MORE:
            self._load(behind, self._size_at(behind) + RANGE_SIZE)
        return behind, self.state.last

    def _close_gap(self, at: int) -> None:
        prev = load_u32(self.source.read_bytes(at, at + h.MIN_HEADER_SIZE), 6)
        state = self.state
        state.gaps.append(Gap(state.lost_from, at, prev == state.lost_from))
        state.lost_from = w.NO_OFFSET

    def _lost_from(self, rows: Rows, behind: int, stop: int) -> int:
        """Where the trusted chain ends, or NO_OFFSET when `behind` is a good place to go on."""
        if len(rows) and rows.checksum[-1] == w.Checksum.BAD:
            last = int(rows.offset[-1])
            if not self._leads_on(last, behind):
                return last
        if stop == w.Stop.BAD_HEADER:
            return behind
        if stop == w.Stop.NEED_MORE and behind + h.MIN_HEADER_SIZE > self.source.size:
            return behind
        if stop == w.Stop.CHAIN and not self._sum_is_right(behind):
            return behind
        return w.NO_OFFSET

    def _leads_on(self, last: int, behind: int) -> bool:
        """Whether the entry at `behind` names `last` as the one before it."""
        header = self.source.read_bytes(behind, behind + h.MIN_HEADER_SIZE)
        if len(header) < h.MIN_HEADER_SIZE:
            return False
        fits = load_i32(header, 10) >= 0 and header[4] != 0
        return fits and load_u32(header, 6) == last

    def _size_at(self, at: int) -> int:
        """Bytes from `at` to the end of the entry there, or of a header where there is none."""
        end = self._end_of(at)
        return h.MIN_HEADER_SIZE if end == w.NO_OFFSET else end - at

    def _load(self, at: int, size: int) -> None:
        stop = min(at + size, self.source.size, max(self.stop, at + self._size_at(at)) + _SLACK)
        self._data = self.source.read(min(at, stop), stop)
        self._base = at

    def _walk(self, at: int, expected_prev: int) -> tuple[Rows, int, int]:
        if not self._base <= at < self._base + len(self._data):
            self._load(at, RANGE_SIZE + _SLACK)
        capacity = (self._base + len(self._data) - at) // h.MIN_HEADER_SIZE + 1
        columns = {name: np.empty(capacity, w.ROW_DTYPE[name]) for name in COLUMN_NAMES}
        c = columns
        buf = self._data if self.fast else as_plain(self._data)
        step = compiled(w.walk) if self.fast else w.walk
        n, behind, stop = step(
            buf,
            self._base,
            at,
            self.stop,
            self.source.size,
            expected_prev,
            self._vlsn_mask,
            c["offset"],
            c["prev_offset"],
            c["stored_checksum"],
            c["item_size"],
            c["vlsn"],
            c["type"],
            c["flags"],
            c["header_size"],
        )
        self._sum(buf, n, columns)
        # Copies: the capacity is for the smallest entries, and rows outlive this call.
        columns = {name: array[:n].copy() for name, array in columns.items()}
        return Rows(self.file_no, self.version, self._data, self._base, **columns), behind, stop

    def _sum(self, buf: Any, n: int, c: dict[str, Any]) -> None:
        if not self.check:
            c["checksum"][:n] = w.Checksum.UNCHECKED
            return
        check = compiled(w.check_sums) if self.fast else w.check_sums_plain
        check(
            buf,
            self._base,
            self._flags_mask,
            n,
            c["offset"],
            c["header_size"],
            c["item_size"],
            c["type"],
            c["stored_checksum"],
            c["checksum"],
        )

    def _search(self, at: int, lost_from: int) -> int:
        """The first good entry in [at, stop): plausible header, right sum, chain that agrees.

        Sums of candidates cost at most `_SEARCH_BUDGET` times the range, then only short ones are
        tried, so that bytes made to look like headers cannot stall the search.
        """
        find = compiled(w.find_header) if self.fast else w.find_header
        budget = _SEARCH_BUDGET * RANGE_SIZE
        while at < self.stop:
            if not self._base <= at < self._base + len(self._data) - h.MAX_HEADER_SIZE:
                self._load(at, RANGE_SIZE + _SLACK)
            window_stop = self._base + len(self._data)
            found = find(
                self._data if self.fast else as_plain(self._data),
                self._base,
                at,
                min(self.stop, window_stop),
                self.source.size,
                lost_from,
                self._vlsn_mask,
            )
            if found < 0:
                at = max(at + 1, min(self.stop, window_stop - h.MIN_HEADER_SIZE + 1))
                continue
            size = self._size_at(found)
            fits = lost_from >= 0 or self._is_led_to(found)
            if fits and (size <= _ALWAYS_SUMMED or budget > 0):
                budget -= size
                if self._begins_chain(found):
                    return found
            at = found + 1
        return w.NO_OFFSET

    def _is_led_to(self, at: int) -> bool:
        """Whether the entry that the header at `at` names as the one before it ends at `at`.

        Only where nothing is known of the bytes before: behind a gap it may be damaged.
        """
        prev = load_u32(self.source.read_bytes(at, at + h.MIN_HEADER_SIZE), 6)
        return self._end_of(prev) == at

    def _end_of(self, at: int) -> int:
        """Where the entry at `at` ends, as its header says, or NO_OFFSET if it cannot."""
        header = self.source.read_bytes(at, at + h.MIN_HEADER_SIZE)
        if len(header) < h.MIN_HEADER_SIZE or load_i32(header, 10) < 0 or header[4] == 0:
            return w.NO_OFFSET
        stored = header[5] & self._vlsn_mask and header[4] != FILE_HEADER_NO
        end = at + load_i32(header, 10) + (h.MAX_HEADER_SIZE if stored else h.MIN_HEADER_SIZE)
        return end if end <= self.source.size else w.NO_OFFSET

    def _begins_chain(self, at: int) -> bool:
        """Whether a good entry is at `at`; an erased one has no sum, so those behind must agree."""
        for _ in range(_ERASED_STEPS):
            if not self._sum_is_right(at):
                return False
            if self.source.read_bytes(at + 4, at + 5)[0] != ERASED_NO:
                return True
            behind = self._end_of(at)
            if behind == self.source.size:
                return True
            if not self._leads_on(at, behind):
                return False
            at = behind
        return True

    def _sum_is_right(self, at: int) -> bool:
        """Whether a whole entry begins at `at` and its checksum is right, or cannot be told."""
        stop = self._end_of(at)
        if stop == w.NO_OFFSET:
            return False
        header = self.source.read_bytes(at, at + h.MIN_HEADER_SIZE)
        if header[4] == ERASED_NO or not self.check:
            return True
        inside = self._base <= at and stop <= self._base + len(self._data)
        data = (
            memoryview(self._data)[at - self._base : stop - self._base]
            if inside
            else self.source.read_bytes(at, stop)
        )
        return entry_checksum(data, self.version) == load_u32(header, 0)
