"""Reads a range of a log file into columns, and finds the way on behind damage.

The extension does the reading, and asks back here for the buffer and for what it cannot read.

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
from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field
from msgspec.structs import asdict

from je_tools.formats import _native
from je_tools.formats.arrays import Ints, Mask
from je_tools.formats.je import header as h
from je_tools.formats.je import walk as w
from je_tools.formats.je.entries import EntryError, decode_entry
from je_tools.formats.je.places import ChainBreaks, Gaps
from je_tools.formats.source import Bytes, Source, scratch

RANGE_SIZE = 2560 << 10
"""Bytes of log that one task reads at once: caches hold it, and memory stays small."""

FILE_SIZE_MAX = 1 << 32
"""Offsets have 32 bits: bytes behind are no log."""

KEPT = 1000
"""Damaged places that are kept with a file; one made of nothing else could have millions."""

SURVEY_WINDOW = 2 << 20
"""Bytes that are loaded at once where most rows are not wanted: they stay in the core's cache."""

_SLACK = 64 << 10
_BUDGET_WINDOWS = 16
_ROWS = 1 << 15
_ROWS_PER_BYTE_SHIFT = 6


class Survey(Struct, frozen=True):
    """What some entries are, all taken together.

    Attributes:
        counts: int64 (256,); how many there are of each type, damaged ones too.
        bad: how many are damaged.
        flags: those that any of them has.
        first, last: offsets of the first good one and of the last, NO_OFFSET where there is none.
    """

    counts: Ints
    bad: int
    flags: int
    first: int
    last: int

    @property
    def good(self) -> int:
        """How many are not damaged."""
        return int(self.counts.sum()) - self.bad


class Asked(Struct, frozen=True):
    """Which entries a reader wants as rows; of the others it only wants the survey.

    Some megabytes of log are looked at together: all rows in it are given when one is wanted or
    damaged. All others come as `Rows` without a row, whose survey and tally count.

    Attributes:
        types: bool (256,); types that are wanted.
        flags: entries that have any of these are wanted.
        programs: `steps.programs` of users' records, to tally what is not wanted; None for no
            tally.
    """

    types: Mask
    flags: int = 0
    programs: tuple[Ints, Ints, Ints] | None = None


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
        tallied: the lines of a `tally.Tally`, where they are known already.

    Where nobody asked for rows (`Asked`) there are none, and `survey` tells of entries that are
    not in the columns.
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
    tallied: tuple[Ints, Ints] | None = None

    def __len__(self) -> int:
        return len(self.offset)

    @property
    def survey(self) -> Survey:
        """What they are, all taken together."""
        if self.surveyed is not None:
            return self.surveyed
        any_flags = int(np.bitwise_or.reduce(self.flags, initial=0))
        counts = np.bincount(self.type, minlength=256)
        good = self.offset[self.good]
        first, last = good[[0, -1]].tolist() if len(good) else (w.NO_OFFSET, w.NO_OFFSET)
        return Survey(counts, len(self) - len(good), any_flags, first, last)

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


class Event(IntEnum):
    """Why the extension stopped reading."""

    ROWS = 0
    """Rows have to be taken."""
    GROW = 1
    """The buffer is too short."""
    DONE = 2
    """The range has been read."""


class ReadOptions(Struct, frozen=True):
    """What the extension is told of a range.

    Attributes:
        start, stop: where entries may begin.
        size: bytes of the file that are log.
        place: what is known of the bytes before; None to begin at the first certain entry.
        check: whether entries are summed.
        window: bytes to load at once.
        budget: bytes that may be summed in vain while the way on after damage is looked for.
        slack: bytes to load besides, and what a look at a header elsewhere takes from the budget
            for sums: headers may be made so that each claims another end, and each look is a read.
        asked: which rows are wanted; None for all.
    """

    start: int
    stop: int
    size: int
    place: Place | None
    check: bool
    window: int
    budget: int
    slack: int
    asked: Asked | None


class _Scratch(threading.local):
    """Arrays into which a thread walks, used again: new ones cost a page fault for each page."""

    def __init__(self) -> None:
        self._columns = w.HeaderColumns.empty(0)

    def take(self, rows: int) -> w.HeaderColumns:
        if len(self._columns) < rows:
            self._columns = w.HeaderColumns.empty(rows)
        return self._columns.part(0, rows)


_SCRATCH = _Scratch()


class RangeReader:
    """Reads the entries that begin in [start, stop) of one file.

    Args:
        source: the file.
        file_no: number in its name.
        version: its log version.
        start, stop: where entries may begin.
        place: what is known of the bytes before; None to begin at the first certain entry.
        check: sum the entries; else all are UNCHECKED and a damaged one passes if the chain does.
        window: bytes to read at once.
        lend: give rows that are valid only until the next are asked for; copying them costs a
            tenth of a scan.
        asked: which rows are wanted; None for all.
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
        check: bool = True,
        window: int = RANGE_SIZE,
        lend: bool = False,
        asked: Asked | None = None,
    ) -> None:
        size = min(source.size, FILE_SIZE_MAX)
        # What is given up in vain does not hang on which rows are asked for.
        budget = _BUDGET_WINDOWS * window + size
        window = window if asked is None else min(window, SURVEY_WINDOW)
        options = ReadOptions(start, stop, size, place, check, window, budget, _SLACK, asked)
        rules = w.HeaderRules.of(version, size)
        self.file_no = file_no
        self.version = version
        self.lend = lend
        self.state = RangeState(place=place or Place(at=w.NO_OFFSET))
        self._reader = _native.RangeReader(source, source.file(), rules, options)
        self._asked = asked
        self._capacity = max(_ROWS, window >> _ROWS_PER_BYTE_SHIFT)

    def __iter__(self) -> Iterator[Rows]:
        """The rows of the range in order; `state` is complete when they are exhausted."""
        reader = self._reader
        buffer = scratch(0)
        columns = _SCRATCH.take(self._capacity)
        event: int = Event.ROWS
        while event != Event.DONE:
            event, count = reader.step(buffer, columns)
            if event == Event.GROW:
                buffer = scratch(count)
                continue
            if self._asked is not None:
                yield from self._unwanted()
            if event == Event.ROWS:
                yield self._rows(buffer, columns.part(0, count))
        first, first_prev = reader.first()
        self.state = RangeState(
            first,
            first_prev,
            Place(*reader.place()),
            bad=reader.bad(),
            blank=reader.is_blank(),
        )
        self.state.gaps.extend(reader.gaps())
        self.state.chain_breaks.extend(reader.chain_breaks())

    def _rows(self, buffer: Bytes, columns: w.HeaderColumns) -> Rows:
        if not self.lend:
            # The arrays are used again, and rows outlive them.
            columns = columns.copy()
        base, size = self._reader.window()
        data = buffer[:size]
        data.flags.writeable = False
        survey = Survey(*self._reader.survey())
        return Rows(self.file_no, self.version, data, base, **asdict(columns), surveyed=survey)

    def _unwanted(self) -> Iterator[Rows]:
        """The entries before those that are wanted, as `Rows` without a row."""
        numbers, (types, sizes) = self._reader.take_quiet()
        survey = Survey(*numbers)
        if survey.counts.any():
            none = w.HeaderColumns.empty(0)
            data = np.empty(0, np.uint8)
            is_tallied = self._asked is not None and self._asked.programs is not None
            yield Rows(
                self.file_no,
                self.version,
                data,
                0,
                **asdict(none),
                surveyed=survey,
                tallied=(types, sizes) if is_tallied else None,
            )
