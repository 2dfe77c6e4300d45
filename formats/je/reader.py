"""Reading of a range of a log file into columns, with resynchronisation after damage.

The extension does the reading. It relies on this module for the buffer, and for bytes that it
cannot read itself.

A range stands alone, so that threads and Spark tasks can share a file. It is read either from a
known `Place`, or on its own: then it begins at the first certain entry in it, and counts only if
the range before it ended there. Every byte is in a row or in a gap.

An entry is trusted if its checksum is right. Otherwise, it is a damaged entry, but still a row, if
the entry after it names it as its predecessor. Otherwise, a gap begins. The gap ends at an entry
with a plausible header, a right checksum, a prevOffset that leads into the gap, and a successor
that names it. After inserted or missing bytes all prevOffsets are wrong by the same number
(`Place.shift`); this is one break of the chain, not one per entry.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field
from msgspec.structs import asdict

from je_tools.formats import _native
from je_tools.formats.je import header as h
from je_tools.formats.je import walk as w
from je_tools.formats.je.entries import decode_entry
from je_tools.formats.je.flags import HeaderFlag
from je_tools.formats.je.header import EntryError
from je_tools.formats.je.places import ChainBreaks, Gaps
from je_tools.formats.source import Bytes, Source, scratch

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints, Mask

RANGE_SIZE = 2560 << 10
"""Bytes of log that one task reads at once: they fit in caches, and memory stays small."""

FILE_SIZE_MAX = 1 << 32
"""Largest size of a file: offsets have 32 bits, so bytes after them are not log."""

KEPT = 1000
"""Largest number of damaged places kept per file: a file of nothing else could have millions."""

SURVEY_WINDOW = 2 << 20
"""Bytes that are loaded at once if most rows are not wanted: they stay in the core's cache."""

_SLACK = 64 << 10
_BUDGET_WINDOWS = 16
_ROWS = 1 << 15
_ROWS_PER_BYTE_SHIFT = 6


class Survey(Struct, frozen=True):
    """Summary of some entries.

    Attributes:
        counts: int64 (256,); number of entries of each type, including damaged ones.
        bad: number of damaged entries.
        flags: flags that any entry has.
        first, last: offsets of the first and the last good entry, NO_OFFSET for none.
    """

    counts: Ints
    bad: int
    flags: int
    first: int
    last: int

    @property
    def good(self) -> int:
        """Number of entries that are not damaged."""
        return int(self.counts.sum()) - self.bad


class Asked(Struct, frozen=True):
    """Entries that are wanted as rows; the others are only summarized.

    The decision covers some megabytes of log at a time: if an entry in them is wanted or damaged,
    all their rows are returned. Otherwise they are part of `Rows` without a row, which have a
    survey and a tally.

    Attributes:
        types: bool (256,); types that are wanted.
        flags: flags, any of which makes an entry wanted.
        programs: `steps.programs` of user records, to tally entries that are not wanted; None for
            no tally.
    """

    types: Mask
    flags: int = 0
    programs: tuple[Ints, Ints, Ints] | None = None


class Rows(Struct, frozen=True):
    """Entries of one file as columns; element i of each array is the i-th entry.

    Attributes:
        file_no: number in the file's name.
        version: log version of the file.
        data: uint8 array with the bytes of these entries; valid until the thread that read it
            reads again.
        base: offset in the file of data[0].
        offset, prev_offset, stored_checksum: uint32.
        item_size: int32, header not counted.
        vlsn: int64, -1 if none is stored.
        type, flags, header_size, checksum: uint8; `checksum` holds `walk.Checksum`.
        surveyed: value of `survey`, if it is known already.
        tallied: lines of a `tally.Tally`, if they are known already.

    If its entries are not wanted (`Asked`), it has no rows, and `survey` summarizes entries that
    are not in the columns.
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
        """Summary of the entries."""
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
        """Size of each entry, header included, int64."""
        return self.item_size.astype(np.int64) + self.header_size

    @property
    def good(self) -> Mask:
        """Mask of the entries that are not known to be damaged."""
        right: Mask = self.checksum != w.Checksum.BAD
        return right

    @property
    def invisible(self) -> Mask:
        """Mask of the entries that a rollback has made invisible."""
        marked: Mask = (self.flags & h.invisible_mask(self.version)) != 0
        return marked

    @property
    def replicated(self) -> Mask:
        """Mask of the entries that are part of the replication stream."""
        marked: Mask = (self.flags & HeaderFlag.REPLICATED.value) != 0
        return marked

    @property
    def has_vlsn(self) -> Mask:
        """Mask of the entries whose header has a VLSN."""
        long: Mask = self.header_size == h.MAX_HEADER_SIZE
        return long

    @property
    def provisional(self) -> npt.NDArray[np.uint8]:
        """Index into `header.PROVISIONAL_NAMES`, uint8."""
        before_end = (self.flags & HeaderFlag.PROVISIONAL_BEFORE_CKPT_END.value) != 0
        whole = (self.flags & HeaderFlag.PROVISIONAL_YES.value) != 0
        return np.where(whole, 2, before_end).astype(np.uint8)

    def take(self, keep: npt.NDArray[Any]) -> Rows:
        """Select rows by a mask, or by an index array in its order."""
        columns = {name: getattr(self, name)[keep] for name in w.COLUMN_NAMES}
        return Rows(self.file_no, self.version, self.data, self.base, **columns)

    def size_of(self, row: int) -> int:
        """Return the size of one entry, header included, without computing the others."""
        return int(self.item_size[row]) + int(self.header_size[row])

    def entry_bytes(self, row: int) -> bytes:
        """Return the bytes of one whole entry."""
        start = int(self.offset[row]) - self.base
        return self.data[start : start + self.size_of(row)].tobytes()

    def fields(self, row: int) -> Mapping[str, Any]:
        """Return the fields of one entry's payload; empty if it does not decode."""
        try:
            return decode_entry(self.entry_bytes(row), self.version).fields
        except EntryError:
            return {}


class Place(Struct, frozen=True):
    """State of reading a file between two entries.

    Attributes:
        at: offset of the next entry; NO_OFFSET if it is lost.
        last: offset of the last entry read; NO_OFFSET before the first.
        shift: number of bytes by which prevOffsets are too low.
        lost_from: start of a gap whose end has not been found; otherwise NO_OFFSET.
        relaxed: True if no entry in the rest of the file fits its place, so that any entry with a
            right checksum and a good successor is accepted.
    """

    at: int = 0
    last: int = w.NO_OFFSET
    shift: int = 0
    lost_from: int = w.NO_OFFSET
    relaxed: bool = False


class RangeState(Struct):
    """State of a range after all its rows have been read.

    Attributes:
        first: offset of the first entry, or NO_OFFSET if none begins in the range.
        first_prev: prevOffset of the first entry.
        place: place at which reading continues.
        gaps: gaps that were closed inside the range.
        chain_breaks: breaks in the chain of prevOffsets.
        bad: half-open byte ranges of the rows with a wrong checksum, the first KEPT of them.
        blank: True if only zeros were seen from the start of the range.
    """

    first: int = w.NO_OFFSET
    first_prev: int = w.NO_OFFSET
    place: Place = field(default_factory=Place)
    gaps: Gaps = field(default_factory=Gaps)
    chain_breaks: ChainBreaks = field(default_factory=ChainBreaks)
    bad: list[tuple[int, int]] = field(default_factory=list)
    blank: bool = False


class Event(IntEnum):
    """Reason why the extension stopped reading."""

    ROWS = 0
    """Rows are ready."""
    GROW = 1
    """The buffer is too short."""
    DONE = 2
    """The range has been read."""


class ReadOptions(Struct, frozen=True):
    """Options with which the extension reads a range.

    Attributes:
        start, stop: range of offsets at which entries may begin.
        size: bytes of the file that are log.
        place: state after the bytes before; None to begin at the first certain entry.
        check: True to verify checksums.
        window: bytes to load at once.
        budget: bytes that may be summed in vain during the search after damage.
        slack: bytes to load in addition, and the cost in `budget` of reading a header elsewhere:
            forged headers may each claim another end, and each of them takes a read.
        asked: entries that are wanted as rows; None for all.
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
    """Reusable header columns of a thread: new ones cost a page fault for each page."""

    def __init__(self) -> None:
        self._columns = w.HeaderColumns.empty(0)

    def take(self, rows: int) -> w.HeaderColumns:
        if len(self._columns) < rows:
            self._columns = w.HeaderColumns.empty(rows)
        return self._columns.part(0, rows)


_SCRATCH = _Scratch()


class RangeReader:
    """Reader of the entries that begin in [start, stop) of one file.

    Args:
        source: the file.
        file_no: number in its name.
        version: its log version.
        start, stop: range of offsets at which entries may begin.
        place: state after the bytes before; None to begin at the first certain entry.
        check: verify checksums; otherwise all entries are UNCHECKED, and a damaged one passes if
            the chain holds.
        window: bytes to read at once.
        lend: return rows that are valid only until the next ones are requested; copying them costs
            a tenth of a scan.
        asked: entries that are wanted as rows; None for all.
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
        # Set before the window shrinks: `asked` must not change where a search gives up.
        budget = _BUDGET_WINDOWS * window + size
        window = window if asked is None else min(window, SURVEY_WINDOW)
        options = ReadOptions(
            start=start,
            stop=stop,
            size=size,
            place=place,
            check=check,
            window=window,
            budget=budget,
            slack=_SLACK,
            asked=asked,
        )
        rules = w.HeaderRules.of(version, size)
        self.file_no = file_no
        self.version = version
        self.lend = lend
        self.state = RangeState(place=place or Place(at=w.NO_OFFSET))
        self._reader = _native.RangeReader(source, source.file(), rules, options)
        self._asked = asked
        self._capacity = max(_ROWS, window >> _ROWS_PER_BYTE_SHIFT)

    def __iter__(self) -> Iterator[Rows]:
        """Yield the rows of the range in order; `state` is complete at the end."""
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
            # The arrays are reused, and these rows outlive that.
            columns = columns.copy()
        base, size = self._reader.window()
        data = buffer[:size]
        data.flags.writeable = False
        survey = Survey(*self._reader.survey())
        return Rows(self.file_no, self.version, data, base, **asdict(columns), surveyed=survey)

    def _unwanted(self) -> Iterator[Rows]:
        """Yield the entries before the wanted ones, as `Rows` without a row."""
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
