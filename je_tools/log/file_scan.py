"""Scan of one file: its ranges, read on their own, joined into its entries and its state.

A range counts only if its first entry is the one at which the range before it ended. Otherwise (an
entry longer than a range, damage across a border, an image of a log inside a record) the range is
read again from the right offset.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from je_tools.errors import StoppedError
from je_tools.formats.files.open_source import open_source
from je_tools.formats.je.log.entry_rows import Rows
from je_tools.formats.je.log.places import ChainBreak, ChainBreaks, Gap, Gaps
from je_tools.formats.je.log.reader import FILE_SIZE_MAX, KEPT, RangeReader, RangeState, ReadState
from je_tools.formats.je.log.walk import NO_OFFSET
from je_tools.log.source_errors import translated_errors

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

    from je_tools.formats.arrays import Ints
    from je_tools.formats.files.source import Source
    from je_tools.log.log_files import LogFile
    from je_tools.log.scan_options import ScanOptions

T = TypeVar("T")
Work = Callable[[Rows], T]


class FileState(Struct):
    """State of a file that has been read, besides its entries.

    Attributes:
        file: the file.
        size: bytes that were read.
        gaps: damaged ranges in the middle; only the first KEPT, the parts have all.
        chain_breaks: breaks in the chain of prevOffsets, limited likewise.
        bad: half-open byte ranges of entries with a wrong checksum, limited likewise.
        tail: end of the last good entry, after which nothing follows; `size` at a clean end.
        last: offset of the last good entry, NO_OFFSET if there is none.
        shift: distance of that entry from its place in the chain; see `reader.Place`.
        unreadable: byte ranges that the device did not deliver.
    """

    file: LogFile
    size: int
    gaps: list[Gap] = field(default_factory=list)
    chain_breaks: list[ChainBreak] = field(default_factory=list)
    bad: list[tuple[int, int]] = field(default_factory=list)
    tail: int = 0
    last: int = NO_OFFSET
    shift: int = 0
    unreadable: list[tuple[int, int]] = field(default_factory=list)


class ScanPart(Struct, Generic[T], frozen=True):
    """Results and damage of one range; `end` is the file's state after its last range.

    A gap belongs to the part in which it ends, which may be a later one than that of its start.
    `samples` and `odd` are those of `RangeState`.
    """

    file: LogFile
    results: list[T]
    gaps: Gaps = field(default_factory=Gaps)
    chain_breaks: ChainBreaks = field(default_factory=ChainBreaks)
    end: FileState | None = None
    samples: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    odd: Ints = field(default_factory=lambda: np.empty((0, 3), np.int64))


class FilePiece(Struct, frozen=True):
    """A section of a file that a process can read without the others.

    The pieces of a file hold each of its entries once, in log order.

    Attributes:
        file: the file, with the size to read even if the file has grown since.
        place: state of reading at the start of the piece.
        stop: offset at and after which no entry of the piece begins; None for the end of the file.
        end_state: state of reading that the piece must end with; None if unknown.
    """

    file: LogFile
    place: ReadState = field(default_factory=ReadState)
    stop: int | None = None
    end_state: ReadState | None = None


class Range(Struct, frozen=True):
    """Entries that begin in [start, stop), and the place to continue from, if known."""

    start: int
    stop: int
    place: ReadState | None = None


class RangeOutcome(Struct, Generic[T], frozen=True):
    """Result of reading one range on its own; its fields are private to the scan."""

    results: list[T]
    state: RangeState
    unreadable: set[tuple[int, int]] = field(default_factory=set)


class FileScan(Generic[T]):
    """Scan of one file: cuts its ranges and joins their outcomes."""

    def __init__(
        self,
        scanner: ScanOptions,
        file: LogFile,
        work: Work[T],
        piece: FilePiece | None = None,
    ) -> None:
        self.scanner = scanner
        self.file = file
        self.work = work
        self.piece = piece
        with translated_errors():
            self.source = open_source(file.path)
            if scanner.cuts or scanner.pinned or piece is not None:
                # All readers of its ranges must see the same bytes.
                self.source.limit(file.size)
        self.state = FileState(file, self.source.size)

    def ranges(self, place: ReadState) -> list[Range]:
        """Return ranges that cover the rest of the file; only the first has the known `place`."""
        size = min(self.source.size, FILE_SIZE_MAX)
        if self.piece is not None and self.piece.stop is not None:
            size = min(size, self.piece.stop)
        first = max(place.at, place.lost_from + 1)
        # Ranges of equal size: a short one at the end costs as much Python as a long one.
        wanted = self.scanner.range_size() * self.scanner.readings
        count = self.scanner.cuts or max(-(-(size - first) // wanted), 1)
        step = max(-(-(size - first) // count), 1)
        step = -(-step // self.source.scan_unit) * self.source.scan_unit
        starts = range(first, max(size, first + 1), step)
        return [
            Range(start, min(start + step, size), None if start > first else place)
            for start in starts
        ]

    def read(self, wanted: Range) -> RangeOutcome[T]:
        """Read one range and work on it; runs in any thread."""
        return _read(self.scanner, self.file, self.source, self.work, wanted)

    def submit(self, pool: Executor, wanted: Range) -> Future[RangeOutcome[T]]:
        """Submit one range to the pool."""
        if self.scanner.processes:
            return pool.submit(_read_in_worker, self.file, self.source, wanted)
        return pool.submit(self.read, wanted)

    def join(
        self, outcome_of: Callable[[Range], RangeOutcome[T]]
    ) -> Iterator[tuple[Range, RangeOutcome[T]]]:
        """Yield ranges that together hold each entry once, with their outcomes, in order.

        `outcome_of` returns the outcome of a range of `ranges`, read on its own.
        """
        place = ReadState(self.scanner.start) if self.piece is None else self.piece.place
        for planned in self.ranges(place):
            outcome = outcome_of(planned)
            is_lost = place.lost_from != NO_OFFSET
            inside_entry = not is_lost and place.at >= planned.stop > 0
            if inside_entry or (is_lost and outcome.state.blank):
                continue
            used = planned
            if planned.place is None and not _continues(outcome.state, place):
                start = planned.start if is_lost else place.at
                used = Range(start, planned.stop, place)
                outcome = self.read(used)
            place = self._merge(outcome)
            yield used, outcome
        if self.piece is not None and self.piece.end_state not in (None, place):
            raise StoppedError(f"{self.file.path}: its bytes changed while the log was read")
        if place.lost_from != NO_OFFSET:
            place = yield from self._join_relaxed(place)
        self.state.tail = place.at if place.lost_from == NO_OFFSET else place.lost_from
        self._finish()

    def _join_relaxed(
        self, place: ReadState
    ) -> Generator[tuple[Range, RangeOutcome[T]], None, ReadState]:
        """Read again, on weaker evidence, from a gap to which no later entry refers.

        Bytes are missing there, so the entries after it lie too low.
        """
        place = replace(place, relaxed=True)
        for planned in self.ranges(place):
            is_lost = place.lost_from != NO_OFFSET
            if not is_lost and place.at >= planned.stop:
                continue
            used = Range(planned.start if is_lost else place.at, planned.stop, place)
            outcome = self.read(used)
            place = self._merge(outcome)
            yield used, outcome
        return place

    def _merge(self, outcome: RangeOutcome[T]) -> ReadState:
        """Add the damage in a range to the file's state, and return where reading continues."""
        found = outcome.state
        self.source.unreadable |= outcome.unreadable
        self.state.gaps += found.gaps[: KEPT - len(self.state.gaps)]
        self.state.chain_breaks += found.chain_breaks[: KEPT - len(self.state.chain_breaks)]
        self.state.bad += found.bad[: KEPT - len(self.state.bad)]
        self.state.last, self.state.shift = found.place.last, found.place.shift
        return found.place

    def _finish(self) -> None:
        self.state.unreadable = _merged(self.source.unreadable)
        try:
            with translated_errors():
                self.source.check_unchanged()
        finally:
            self.source.close()


def _read(
    scanner: ScanOptions, file: LogFile, source: Source, work: Work[T], wanted: Range
) -> RangeOutcome[T]:
    if scanner.pace is not None:
        scanner.pace.wait(wanted.stop - wanted.start)
    ranged = RangeReader(
        source,
        file.file_no,
        file.version,
        wanted.start,
        wanted.stop,
        place=wanted.place,
        check=scanner.check,
        window=scanner.range_size(),
        lend=scanner.wide,
        asked=scanner.asked(file) if scanner.asked is not None else None,
        watched=scanner.watched(file) if scanner.watched is not None else None,
        segmented=scanner.segmented,
    )
    with translated_errors():
        results = scanner.pack(map(work, ranged))
    return RangeOutcome(results, ranged.state)


class WorkerTask(Struct, frozen=True):
    """Setup that a worker process receives once."""

    scanner: ScanOptions
    work: Work[Any]


def _read_in_worker(file: LogFile, source: Source, wanted: Range) -> RangeOutcome[Any]:
    from je_tools.core.worker_processes import worker_input

    task: WorkerTask = worker_input()
    outcome = _read(task.scanner, file, source, task.work, wanted)
    source.close()
    return replace(outcome, unreadable=source.unreadable)


def _merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return half-open spans in order, with adjacent ones merged."""
    merged: list[tuple[int, int]] = []
    for start, stop in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(stop, merged[-1][1]))
        else:
            merged.append((start, stop))
    return merged


def part_of(
    scan: FileScan[Any], outcome: RangeOutcome[T], end: FileState | None = None
) -> ScanPart[T]:
    """Return a range as a part of its file."""
    state = outcome.state
    return ScanPart(
        scan.file,
        outcome.results,
        state.gaps,
        state.chain_breaks,
        end,
        state.samples,
        state.odd,
    )


def _continues(found: RangeState, place: ReadState) -> bool:
    """Return whether a range read on its own begins where the one before it ended."""
    in_step = place.lost_from == NO_OFFSET and place.shift == 0
    return in_step and (found.first, found.first_prev) == (place.at, place.last)
