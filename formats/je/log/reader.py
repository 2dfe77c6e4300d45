"""Reading of a range of a log file into columns, with resynchronisation after damage.

The extension does the reading. It relies on this module for the buffer, and for bytes that it
cannot read itself.

A range stands alone, so that threads and Spark tasks can share a file. It is read either from a
known `ReadState`, or on its own: then it begins at the first certain entry in it, and counts only
if the range before it ended there. Every byte is in a row or in a gap.

An entry is trusted if its checksum is right. Otherwise, it is a damaged entry, but still a row, if
the entry after it names it as its predecessor. Otherwise, a gap begins. The gap ends at an entry
with a plausible header, a right checksum, a prevOffset that leads into the gap, and a successor
that names it. After inserted or missing bytes all prevOffsets are wrong by the same number
(`ReadState.shift`); this is one break of the chain, not one per entry.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, field
from msgspec.structs import asdict

from je_tools.formats import _native
from je_tools.formats.files.source import Bytes, Source, scratch
from je_tools.formats.je.log import walk as w
from je_tools.formats.je.log.entry_rows import RangeSummary, Rows, WantedEntries, WatchedEntries
from je_tools.formats.je.log.places import ChainBreaks, Gaps
from je_tools.formats.je.log.segments import Segments, TxnFields

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints

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


class ReadState(Struct, frozen=True):
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
        samples: int64; offsets of watched entries, some of each type.
        odd: int64 (n, 3); offset, type and flags of the entries with flags that are not allowed.
        blank: True if only zeros were seen from the start of the range.
    """

    first: int = w.NO_OFFSET
    first_prev: int = w.NO_OFFSET
    place: ReadState = field(default_factory=ReadState)
    gaps: Gaps = field(default_factory=Gaps)
    chain_breaks: ChainBreaks = field(default_factory=ChainBreaks)
    bad: list[tuple[int, int]] = field(default_factory=list)
    samples: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    odd: Ints = field(default_factory=lambda: np.empty((0, 3), np.int64))
    blank: bool = False


class StopReason(IntEnum):
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
            forged headers may each claim another end, and each of them costs a read.
        asked: entries that are wanted as rows; None for all.
        watched: entries to note; None for none.
        txns: fields by which segments of transactions are collected; None for no segments.
    """

    start: int
    stop: int
    size: int
    place: ReadState | None
    check: bool
    window: int
    budget: int
    slack: int
    asked: WantedEntries | None
    watched: WatchedEntries | None = None
    txns: TxnFields | None = None


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
        watched: entries to note in `state`; None for none.
        segmented: collect segments of transactions; the last `Rows` have those of the range.
    """

    def __init__(
        self,
        source: Source,
        file_no: int,
        version: int,
        start: int,
        stop: int,
        *,
        place: ReadState | None = None,
        check: bool = True,
        window: int = RANGE_SIZE,
        lend: bool = False,
        asked: WantedEntries | None = None,
        watched: WatchedEntries | None = None,
        segmented: bool = False,
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
            watched=watched,
            txns=TxnFields.of(file_no, version) if segmented else None,
        )
        rules = w.HeaderRules.of(version, size)
        self.file_no = file_no
        self.version = version
        self.lend = lend
        self.state = RangeState(place=place or ReadState(at=w.NO_OFFSET))
        self._reader = _native.RangeReader(source, source.file(), rules, options)
        self._asked = asked
        self._capacity = max(_ROWS, window >> _ROWS_PER_BYTE_SHIFT)

    def __iter__(self) -> Iterator[Rows]:
        """Yield the rows of the range in order; `state` is complete at the end."""
        reader = self._reader
        buffer = scratch(0)
        columns = _SCRATCH.take(self._capacity)
        event: int = StopReason.ROWS
        while event != StopReason.DONE:
            event, count = reader.step(buffer, columns)
            if event == StopReason.GROW:
                buffer = scratch(count)
                continue
            yield from self._without_rows(is_last=event == StopReason.DONE)
            if event == StopReason.ROWS:
                yield self._rows(buffer, columns.part(0, count))
        first, first_prev = reader.first()
        self.state = RangeState(
            first,
            first_prev,
            ReadState(*reader.place()),
            bad=reader.bad(),
            samples=reader.samples(),
            odd=reader.odd().reshape(-1, 3),
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
        survey = RangeSummary(*self._reader.survey())
        return Rows(self.file_no, self.version, data, base, **asdict(columns), surveyed=survey)

    def _without_rows(self, *, is_last: bool) -> Iterator[Rows]:
        """Yield the entries before the wanted ones, and all segments, as `Rows` without a row."""
        columns = self._reader.take_segments() if is_last else None
        segments = None if columns is None else Segments(*columns)
        if self._asked is None and segments is None:
            return
        numbers, (types, sizes) = self._reader.take_quiet()
        survey = RangeSummary(*numbers)
        if survey.counts.any() or (segments is not None and len(segments.txn_id)):
            none = w.HeaderColumns.empty(0)
            data = np.empty(0, np.uint8)
            is_tallied = self._asked is not None and self._asked.is_tallied
            yield Rows(
                self.file_no,
                self.version,
                data,
                0,
                **asdict(none),
                surveyed=survey,
                tallied=(types, sizes) if is_tallied else None,
                segments=segments,
            )
