"""Reads a range of a log file into columns, and finds the way on behind damage.

A range stands alone, so that threads and Spark tasks can share a file. It is read either from a
known `Place`, or on its own: then it begins at the first entry in it that is certain to be one,
and it counts if that is where the range before it ended. Every byte is in a row or in a gap.

Entries are trusted in this order: the checksum is right; else the entry behind names this one as
the one before it (a damaged entry, still a row); else what follows is a gap, up to an entry with
a plausible header, a right checksum, a prevOffset that leads into the gap, and an entry behind it
that names it. Where bytes were inserted or are missing, prevOffsets are wrong by the same number
from there on (`Place.shift`), which is one break of the chain and not one an entry.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field
from msgspec.structs import asdict, astuple, replace

from je_tools.formats import _native
from je_tools.formats.arrays import Ints, Mask
from je_tools.formats.je import header as h
from je_tools.formats.je import walk as w
from je_tools.formats.je.entries import EntryError, decode_entry
from je_tools.formats.je.places import ChainBreak, ChainBreaks, Gap, Gaps
from je_tools.formats.je.resync import Cursor, Found, find_entry, find_entry_plain, read_damaged
from je_tools.formats.je.search import Searcher
from je_tools.formats.je.types import FILE_HEADER_NO
from je_tools.formats.kernels import compiled
from je_tools.formats.packed import load_i32
from je_tools.formats.source import Bytes, Source, as_plain

RANGE_SIZE = 2560 << 10
"""Bytes of log that one task reads at once: caches hold it, and memory stays small."""

PLAIN_LIMIT = 1 << 20
"""Up to so many bytes plain Python is done before machine code is loaded."""

FILE_SIZE_MAX = 1 << 32
"""Offsets have 32 bits: bytes behind are no log."""

KEPT = 1000
"""Damaged places that are kept with a file; one made of nothing else could have millions."""

PLAIN_STEPS = 3000
"""Steps through damage, of 0.1 ms or more, that plain Python does before machine code is loaded."""

_SLACK = 64 << 10
_LONE_TRIES = 256
_PLACES = 4096
_ROWS = 1 << 15
_ROWS_PER_BYTE_SHIFT = 6


class Survey(Struct, frozen=True):
    """What some entries are, all taken together.

    Attributes:
        counts: int64 (256,); how many there are of each type, damaged ones too.
        bad: how many are damaged.
        flags: those that any of them has.
    """

    counts: Ints
    bad: int
    flags: int


class Rows(Struct, frozen=True):
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
        surveyed: what `survey` says, where it is known already.
    """

    file_no: int
    version: int
    data: Bytes
    base: int
    offset: npt.NDArray[np.uint32]
    prev_offset: npt.NDArray[np.uint32]
    stored_checksum: npt.NDArray[np.uint32]
    item_size: npt.NDArray[np.int32]
    vlsn: Ints
    type: npt.NDArray[np.uint8]
    flags: npt.NDArray[np.uint8]
    header_size: npt.NDArray[np.uint8]
    checksum: npt.NDArray[np.uint8]
    surveyed: Survey | None = None

    def __len__(self) -> int:
        return len(self.offset)

    @property
    def survey(self) -> Survey:
        """What they are, all taken together."""
        if self.surveyed is not None:
            return self.surveyed
        any_flags = int(np.bitwise_or.reduce(self.flags, initial=0))
        counts = np.bincount(self.type, minlength=256)
        return Survey(counts, int(np.count_nonzero(~self.good)), any_flags)

    @property
    def lsn(self) -> Ints:
        """Log sequence numbers, int64: negative from file 0x80000000 on."""
        return self.offset.astype(np.int64) | np.int64(self.file_no) << np.int64(32)

    @property
    def size(self) -> Ints:
        """Bytes of each entry, header counted, int64."""
        return self.item_size.astype(np.int64) + self.header_size

    @property
    def good(self) -> Mask:
        """Whether nothing is known to be wrong with the entry."""
        right: Mask = self.checksum != w.Checksum.BAD
        return right

    @property
    def invisible(self) -> Mask:
        """Whether a rollback has taken the entry back."""
        marked: Mask = (self.flags & h.invisible_mask(self.version)) != 0
        return marked

    @property
    def replicated(self) -> Mask:
        """Whether the entry is part of the replication stream."""
        marked: Mask = (self.flags & h.REPLICATED) != 0
        return marked

    @property
    def has_vlsn(self) -> Mask:
        """Whether the header holds a VLSN."""
        long: Mask = self.header_size == h.MAX_HEADER_SIZE
        return long

    @property
    def provisional(self) -> npt.NDArray[np.uint8]:
        """Index into `header.PROVISIONAL_NAMES`, uint8."""
        before_end = (self.flags & h.PROVISIONAL_BEFORE_CKPT_END) != 0
        whole = (self.flags & h.PROVISIONAL_YES) != 0
        return np.where(whole, 2, before_end).astype(np.uint8)

    def take(self, keep: npt.NDArray[Any]) -> Rows:
        """The rows of a mask or of an index array, in its order."""
        columns = {name: getattr(self, name)[keep] for name in w.COLUMN_NAMES}
        return Rows(self.file_no, self.version, self.data, self.base, **columns)

    def size_of(self, row: int) -> int:
        """Bytes of one entry, header counted, without a look at the others."""
        return int(self.item_size[row]) + int(self.header_size[row])

    def entry_bytes(self, row: int) -> bytes:
        """One whole entry."""
        start = int(self.offset[row]) - self.base
        return self.data[start : start + self.size_of(row)].tobytes()

    def fields(self, row: int) -> Mapping[str, Any]:
        """The payload of one entry by its fields; empty where it does not decode."""
        try:
            return decode_entry(self.entry_bytes(row), self.version).fields
        except EntryError:
            return {}


class Place(Struct, frozen=True):
    """Where reading a file stands between two entries.

    Attributes:
        at: where the next entry begins; NO_OFFSET when that is lost.
        last: offset of the last entry taken; NO_OFFSET before the first.
        shift: by how much entries name the ones before them too low.
        lost_from: where the entry should begin behind which nothing was found; else NO_OFFSET.
        relaxed: no entry in the rest of the file fits its place, so any is taken that has a right
            checksum and a good entry behind it.
    """

    at: int = 0
    last: int = w.NO_OFFSET
    shift: int = 0
    lost_from: int = w.NO_OFFSET
    relaxed: bool = False


class RangeState(Struct):
    """What a range has shown when all its rows have been taken.

    Attributes:
        first: offset of the first entry, or NO_OFFSET where the range begins none.
        first_prev: its prevOffset.
        place: where reading goes on.
        gaps: the gaps that were closed inside the range.
        chain_breaks: where the chain of prevOffsets was broken.
        bad: half-open byte ranges of the rows whose checksum is wrong, the first KEPT of them.
        blank: nothing but zeros was seen from the start of the range.
    """

    first: int = w.NO_OFFSET
    first_prev: int = w.NO_OFFSET
    place: Place = field(default_factory=Place)
    gaps: Gaps = field(default_factory=Gaps)
    chain_breaks: ChainBreaks = field(default_factory=ChainBreaks)
    bad: list[tuple[int, int]] = field(default_factory=list)
    blank: bool = False


class _Scratch(threading.local):
    """Arrays into which a thread walks, used again: new ones cost a page fault for each page."""

    def __init__(self) -> None:
        self._columns = w.HeaderColumns.empty(0)

    def take(self, rows: int) -> w.HeaderColumns:
        if len(self._columns) < rows:
            self._columns = w.HeaderColumns.empty(rows)
        return self._columns.part(0, rows)


_SCRATCH = _Scratch()


class RangeReader(Searcher):
    """Reads the entries that begin in [start, stop) of one file.

    Args:
        source: the file.
        file_no: number in its name.
        version: its log version.
        start, stop: where entries may begin.
        place: what is known of the bytes before; None to begin at the first certain entry.
        fast: use compiled kernels; None begins with plain ones, and goes over to the others where
            there is much damage.
        check: sum the entries; else all are UNCHECKED and a damaged one passes if the chain does.
        window: bytes to read at once.
        lend: give rows that are valid only until the next are asked for; copying them costs a
            tenth of a scan.
    """

    def __init__(
        self,
        source: Source,
        file_no: int,
        version: int,
        start: int,
        stop: int,
        *,
        place: Place | None = None,
        fast: bool | None,
        check: bool = True,
        window: int = RANGE_SIZE,
        lend: bool = False,
    ) -> None:
        known = place or Place(at=w.NO_OFFSET)
        size = min(source.size, FILE_SIZE_MAX)
        super().__init__(source, size, version, window, look_cost=_SLACK, relaxed=known.relaxed)
        self.file_no = file_no
        self.start = start
        self.stop = min(stop, size)
        self.fast = bool(fast)
        self._steps_left = PLAIN_STEPS if fast is None else FILE_SIZE_MAX
        self.check = check
        self.lend = lend
        self.state = RangeState(place=known)
        self._alone = place is None
        self._last, self._shift = known.last, known.shift
        self._columns = w.HeaderColumns.empty(0)
        self._places: tuple[Ints, ...] = ()
        self._n = 0
        self._survey = np.zeros(w.SURVEY_SIZE, np.int64)
        self._unsurveyed: list[int] = []
        self._is_surveyed = self.check
        self._window = window
        self._capacity = max(_ROWS, window >> _ROWS_PER_BYTE_SHIFT)

    def __iter__(self) -> Iterator[Rows]:
        """The rows of the range in order; `state` is complete when they are exhausted."""
        at, lost = self.state.place.at, self.state.place.lost_from
        if at == 0:
            self._load(0, self._window + _SLACK)
        if at == 0 and not self._begins_file():
            lost = 0
        expected = self._expected()
        if self._alone:
            at = self._search(self.start)
        elif lost != w.NO_OFFSET:
            at = max(self.start, lost + 1)
        while at != w.NO_OFFSET:
            if lost != w.NO_OFFSET:
                at, lost, expected = yield from self._find_on(at, lost)
                continue
            if not self._base <= at < self._base + len(self._data):
                yield from self._flush()
                self._load(at, self._window + _SLACK)
            n, behind, stop = self._walk(at, expected)
            lost = self._lost_from(n, behind, stop)
            if n and self._n:
                self._last = int(self._columns.offset[self._n - 1])
                expected = self._expected()
            if lost != w.NO_OFFSET:
                at = lost + 1
                continue
            at = behind
            if stop == w.Stop.LIMIT:
                break
            if stop == w.Stop.CHAIN:
                self._break_chain(at)
                at, lost, expected = self._read_on(at, w.NO_OFFSET)
            else:
                yield from self._flush()
                if stop == w.Stop.NEED_MORE:
                    whole = self._size_at(at)
                    self._load(at, whole + self._window, whole)
        yield from self._flush()
        self.state.place = Place(at, self._last, self._shift, lost, self._relaxed)

    def _begins_file(self) -> bool:
        """Whether the first entry looks like a file header, so that the next one is behind it."""
        header = self._header(0)
        if len(header) < h.MIN_HEADER_SIZE:
            return True
        size = h.MIN_HEADER_SIZE + load_i32(header, 10)
        return header[4] == FILE_HEADER_NO and size == h.FILE_HEADER_SIZE

    def _expected(self) -> int:
        """What the entry behind the last one must name as the one before it."""
        return w.NO_OFFSET if self._last == w.NO_OFFSET else self._last - self._shift

    def _flush(self) -> Iterator[Rows]:
        """Give the rows so far: before other bytes are loaded, and when the arrays are full."""
        if not self._n:
            return
        columns = self._columns.part(0, self._n)
        if not self.lend:
            # The arrays are used again, and rows outlive them.
            columns = columns.copy()
        self._n = 0
        if self.state.first == w.NO_OFFSET:
            self.state.first = int(columns.offset[0])
            self.state.first_prev = int(columns.prev_offset[0])
        rows = Rows(self.file_no, self.version, self._data, self._base, **asdict(columns))
        rows = replace(rows, surveyed=self._take_survey(columns))
        if rows.survey.bad:
            bad = np.flatnonzero(~rows.good)[: KEPT - len(self.state.bad)]
            for row in bad.tolist():
                start = int(rows.offset[row])
                self.state.bad.append((start, start + rows.size_of(row)))
        yield rows

    def _take_survey(self, columns: w.HeaderColumns) -> Survey | None:
        """What the walks have seen of these rows; None where not all of them are theirs.

        Numpy would have to let go of Python's lock at each step, and to wait for it.
        """
        survey, self._survey = self._survey, np.zeros(w.SURVEY_SIZE, np.int64)
        last_ones, self._unsurveyed = self._unsurveyed, []
        is_whole, self._is_surveyed = self._is_surveyed, self.check
        if not is_whole:
            return None
        for row in last_ones:
            survey[columns.type[row]] += 1
            survey[w.SURVEYED_FLAGS] |= int(columns.flags[row])
            survey[w.SURVEYED_BAD] += int(columns.checksum[row] == w.Checksum.BAD)
        bad, any_flags = survey[[w.SURVEYED_BAD, w.SURVEYED_FLAGS]].tolist()
        return Survey(survey[: w.SURVEYED_BAD], bad, any_flags)

    def _load(self, at: int, size: int, whole: int = 0) -> None:
        """Load up to `size` bytes from `at` on, and of an entry there up to `whole` bytes."""
        stop = min(at + size, self.size, max(self.stop, at + whole) + _SLACK)
        self._data = self.source.read(min(at, stop), stop)
        self._base = at

    def _walk(self, at: int, expected_prev: int) -> tuple[int, int, int]:
        """Walk into the free part of the columns, and sum; return what `_native.walk` does."""
        c = self._free_columns()
        n, behind, stop = _native.walk(
            self._data,
            base=self._base,
            at=at,
            limit=self.stop,
            expected_prev=expected_prev,
            shift=self._shift,
            rules=self._rules,
            columns=c,
            survey=self._survey if self.check else None,
        )
        if n:
            self._unsurveyed.append(self._n + n - 1)
        if not self.check:
            c.checksum[:n] = w.Checksum.UNCHECKED
        elif n:
            # An entry that the one after it does not name is summed by `_is_confirmed`, on a
            # budget: its size may be wild.
            c.checksum[n - 1] = w.Checksum.UNCHECKED
            if self._leads_on(int(c.offset[n - 1]), behind):
                offsets, states = c.offset[n - 1 : n], c.checksum[n - 1 : n]
                _native.check_sums(
                    self._data,
                    base=self._base,
                    rules=self._rules,
                    offsets=offsets,
                    states=states,
                )
        self._n += n
        return n, behind, stop

    def _free_columns(self) -> w.HeaderColumns:
        """Return the rows that are not yet filled."""
        if not len(self._columns):
            self._columns = _SCRATCH.take(self._capacity)
        return self._columns.part(self._n, self._capacity)

    def _lost_from(self, n: int, behind: int, stop: int) -> int:
        """Where the trusted chain ends, or NO_OFFSET when `behind` is a good place to go on.

        Of `n` new rows the last is taken back when it is not good and the entry behind does not
        name it.
        """
        if n and not self._is_confirmed(behind):
            self._n -= 1
            self._unsurveyed.pop()
            return int(self._columns.offset[self._n])
        lost = stop == w.Stop.BAD_HEADER
        if stop == w.Stop.NEED_MORE:
            lost = behind + h.MIN_HEADER_SIZE > self.size or not self._is_worth_loading(behind)
        elif stop == w.Stop.CHAIN:
            last = int(self._columns.offset[self._n - 1]) if self._n else self._last
            lost = self._prev_at(behind) != last and not self._sum_is_right(behind)
        return behind if lost else w.NO_OFFSET

    def _is_confirmed(self, behind: int) -> bool:
        """Whether the last row is an entry: by its checksum, or by the entry behind it."""
        state = self._columns.checksum
        if state[self._n - 1] in (w.Checksum.OK, w.Checksum.NONE):
            return True
        at = int(self._columns.offset[self._n - 1])
        if self._leads_on(at, behind):
            return True
        if not self._sum_is_right(at):
            return False
        if self.check:
            erased = self._columns.type[self._n - 1] == self._rules.erased_type
            state[self._n - 1] = w.Checksum.NONE if erased else w.Checksum.OK
        return True

    def _is_worth_loading(self, at: int) -> bool:
        """Whether an entry that ends behind the buffer is sound: a wild size costs no reading."""
        end = self._end_of(at)
        return (
            end <= self._base + len(self._data) or self._leads_on(at, end) or self._sum_is_right(at)
        )

    def _break_chain(self, at: int) -> None:
        """Note that the good entry at `at` does not name the last one, unless it does again."""
        prev, behind = self._prev_at(at), self._end_of(at)
        self._shift = self._last - prev
        if prev != self._last:
            # Whole entries may be missing, so only the one behind tells by how much it is moved.
            if self._sum_is_right(behind):
                self._shift = at - self._prev_at(behind)
            self.state.chain_breaks.append(ChainBreak(at, self._last, prev, self._shift))

    def _close_gap(self, lost: int, at: int) -> None:
        prev = self._prev_at(at)
        single = prev in (lost, lost - self._shift)
        inserted = self._last != w.NO_OFFSET and prev in (self._last, self._expected())
        self.state.gaps.append(Gap(lost, at, single, inserted))

    def _find_on(self, at: int, lost: int) -> Generator[Rows, None, tuple[int, int, int]]:
        """Look from `at` on for the end of the gap that begins at `lost`, and close it.

        Gives the rows before it loads. Returns what `_read_on` does, the offset NO_OFFSET when
        nothing is found in the range.
        """
        while at < self.stop:
            if not self._is_loaded(at):
                if at + h.MIN_HEADER_SIZE > self.size:
                    break
                yield from self._flush()
                at = self._load_to_search(at)
                continue
            at, gap, expected = self._read_on(at, lost)
            if gap == w.NO_OFFSET:
                return at, gap, expected
            lost = gap
            at, found = self._find(at, lost)
            if found in (Found.ENTRY, Found.ASK):
                summed = found == Found.ENTRY or self._begins_chain(at)
                if summed and self._is_placed(at, lost):
                    self._close_gap(lost, at)
                    return at, w.NO_OFFSET, w.NO_OFFSET
                at += 1
        return w.NO_OFFSET, lost, w.NO_OFFSET

    def _search(self, at: int) -> int:
        """The first good entry in [at, stop) where nothing is known of the bytes before it."""
        tries = _LONE_TRIES
        while at < self.stop and tries:
            if not self._is_loaded(at):
                if at + h.MIN_HEADER_SIZE > self.size:
                    break
                at = self._load_to_search(at)
                continue
            at, found = self._find(at, w.NO_OFFSET)
            if found in (Found.ENTRY, Found.ASK):
                # Its place is told at once, but its sum may take megabytes.
                placed = self._is_placed(at, w.NO_OFFSET)
                if placed and (found == Found.ENTRY or self._begins_chain(at)):
                    return at
                at += 1
                tries -= 1
        return w.NO_OFFSET

    def _load_to_search(self, at: int) -> int:
        """Load from `at` on; where to go on looking, which is behind the buffer if it is blank."""
        self._load(at, self._window + _SLACK)
        if not _is_blank(self._data):
            return at
        end = self._base + len(self._data)
        self.state.blank |= self._base == self.start and end >= self.stop
        return end - h.MIN_HEADER_SIZE + 1

    def _find(self, at: int, lost: int) -> tuple[int, int]:
        """The next offset from `at` on where an entry may begin, and a `Found`."""
        find: Any = compiled(find_entry) if self.fast else find_entry_plain
        low, high = self._prev_bounds(lost)
        at, found, self._budget = find(
            self._data if self.fast else as_plain(self._data),
            self._base,
            at,
            self.stop,
            self.size,
            low,
            high,
            self._rules.vlsn_mask,
            self._rules.summed_flags,
            self._rules.erased_type,
            self._budget,
        )
        if found == Found.ENTRY:
            self._note_sum(at)
        return at, found

    def _read_on(self, at: int, lost: int) -> tuple[int, int, int]:
        """Read on in the buffer as far as machine code can tell, from an entry or out of a gap.

        Returns:
            Where the next entry begins, or is to be looked for; where the gap begins behind which
            it is, or NO_OFFSET; what it must name as the one before it.
        """
        if not self.fast:
            self._steps_left -= 1
            self.fast = self._steps_left < 0
            return at, lost, w.NO_OFFSET
        s = np.zeros(len(Cursor), np.int64)
        s[Cursor.AT : Cursor.ROWS] = (
            at,
            lost,
            w.NO_OFFSET,
            self._last,
            self._shift,
            self._budget,
        )
        s[Cursor.BASE :] = (
            self._base,
            self.stop,
            self.size,
            self._rules.vlsn_mask,
            self._rules.summed_flags,
            self._rules.erased_type,
            self._relaxed,
            self.check,
            self._look_cost,
        )
        self._make_marks()
        gaps, breaks = self._places = self._places or tuple(
            np.empty((_PLACES, width), np.int64) for width in (Gaps.width, ChainBreaks.width)
        )
        compiled(read_damaged)(
            self._data, s, self._sums, self._marks, gaps, breaks, *astuple(self._free_columns())
        )
        self._n += int(s[Cursor.ROWS])
        self._is_surveyed = False
        self.state.gaps.extend(gaps[: s[Cursor.GAPS]])
        self.state.chain_breaks.extend(breaks[: s[Cursor.BREAKS]])
        at, lost, expected, self._last, self._shift, self._budget = s[: Cursor.ROWS].tolist()
        return at, lost, expected

    def _prev_bounds(self, lost: int) -> tuple[int, int]:
        """What the first entry behind a gap may name: `low` and `high` of find_entry."""
        if self._relaxed:
            return 0, FILE_SIZE_MAX
        return max(min(lost, lost - self._shift), 0), max(0, -self._shift)


def _is_blank(data: Bytes) -> bool:
    """Whether there are only zeros."""
    words = len(data) // 8 * 8
    return not (data[:64].any() or data[:words].view(np.uint64).any() or data[words:].any())
