"""Runs work over all entries of a log: ranges in parallel, results in the order of the log.

Each file is cut into ranges, each range is read by a thread or process of its own, and the results
are joined here: a range counts only where its first entry is the one at which the range before it
ended. Where that is not so (an entry longer than a range, damage across a border, an image of a
log inside a record) the range is read again from where it must begin.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property, partial
from itertools import groupby
from typing import Any, Generic, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from je_tools.environment import Environment, LogFile
from je_tools.errors import InputError, StoppedError
from je_tools.formats.je import reader
from je_tools.formats.je.places import ChainBreak, ChainBreaks, Gap, Gaps
from je_tools.formats.je.reader import (
    FILE_SIZE_MAX,
    KEPT,
    Asked,
    Place,
    RangeReader,
    RangeState,
    Rows,
)
from je_tools.formats.je.walk import NO_OFFSET
from je_tools.formats.source import Source, SourceChangedError, SourceError

ONE_THREAD_MAX = 1 << 20
"""Up to so many bytes of log are read by one thread: to start more takes longer."""

AHEAD = 2
"""Ranges that are read or wait beyond one a thread, so that no thread idles; each costs memory."""

T = TypeVar("T")
Work = Callable[[Rows], T]
Progress = Callable[[int], None]
Stage = Callable[[str, int], None]

WIDE_RANGE = 16 << 20
"""Bytes of a wide range."""

READ_MEMORY, RANGE_MIN = 128 << 20, 1 << 20
"""The most bytes that the ranges of all threads have together, and the least that one has."""

NARROW_RANGE = 512 << 10
"""What a worker process reads at once: each makes many times that of it."""

ENCODERS_MAX = 4
"""Threads or processes that encode entries unless more are asked for: each takes up to 90 MB."""


class FileState(Struct):
    """What reading one whole file has shown, besides its entries.

    Attributes:
        file: which one.
        size: bytes that were read.
        gaps: damaged ranges in the middle, the first KEPT of them: the parts have all.
        chain_breaks: where the chain of prevOffsets is broken, kept the same way.
        bad: half-open byte ranges of entries with a wrong checksum, kept the same way.
        tail: where the last good entry ends and nothing follows; equals `size` at a clean end.
        last: offset of the last good entry, NO_OFFSET when there is none.
        shift: how far behind its place in the chain that entry lies; see `reader.Place`.
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


class Part(Struct, Generic[T], frozen=True):
    """The results of one range, and the damage in it; the file's state behind its last range.

    A gap comes with the part in which it is closed, which may be one behind that of its start.
    """

    file: LogFile
    results: list[T]
    gaps: Gaps = field(default_factory=Gaps)
    chain_breaks: ChainBreaks = field(default_factory=ChainBreaks)
    end: FileState | None = None


class Piece(Struct, frozen=True):
    """A stretch of a file that is read by itself, by a process that knows nothing of the others.

    The pieces of a file hold each of its entries once, in the order of the log.

    Attributes:
        file: with the size that counts, though the file may have grown since.
        place: how reading stands where the piece begins.
        stop: where no entry of the piece begins any more; None for the end of the file.
        behind: how reading stands then, as it must when the piece has been read.
    """

    file: LogFile
    place: Place = field(default_factory=Place)
    stop: int | None = None
    behind: Place | None = None


class _Range(Struct, frozen=True):
    """Entries that begin in [start, stop), and the place to read on from where it is known."""

    start: int
    stop: int
    place: Place | None = None


class Outcome(Struct, Generic[T], frozen=True):
    """What reading one range on its own has shown; only this module looks into it."""

    results: list[T]
    state: RangeState
    unreadable: set[tuple[int, int]] = field(default_factory=set)


STEPPING_THREADS = 2
"""See `Scanner.stepping`."""


class Scanner(Struct, frozen=True, dict=True):
    """How a log is read.

    Attributes:
        check: sum every entry.
        threads: how many read at once; 0 for as many as this process may use.
        progress: called with the bytes of each finished range.
        stage: called where something else begins that is not short, with what it is and how many
            bytes `progress` will be told of, 0 where nobody knows. See `staged`.
        start: offset at which an entry begins and reading does, in a log of one file.
        wide: the work keeps no array of its rows, so lend them, and read long ranges, which cost
            less each.
        processes: run the work in processes instead of threads, since it is mostly Python: it and
            its results must pickle.
        cuts: into how many ranges a file is cut, where not by `range_size`; see `read_cut`.
        readings: as many as a thread has at once make a range, about.
        asked: gives the entries of a file that the work wants as rows, and takes of all others only
            the survey (`reader.Asked`); None for all.
        pack: makes the results of a range of what the work gives for its rows, where it is read.
    """

    check: bool = True
    threads: int = 0
    progress: Progress | None = None
    stage: Stage | None = None
    start: int = 0
    wide: bool = False
    processes: bool = False
    cuts: int = 0
    readings: int = 1
    asked: Callable[[LogFile], Asked | None] | None = None
    pack: Callable[[Iterator[Any]], list[Any]] = list

    def thread_count(self) -> int:
        """How many threads, or processes, read a log that is not small."""
        return self.threads or (min(self._cores, ENCODERS_MAX) if self.processes else self._cores)

    def threads_for(self, size: int) -> int:
        """How many threads, or processes, read a log of `size` bytes: one where it is small."""
        return self.thread_count() if size > ONE_THREAD_MAX else 1

    def staged(self, label: str, size: int) -> Scanner:
        """The same for what begins now; in silence where nobody can be told what that is.

        Args:
            label: what it is, in a word or two.
            size: bytes that it takes; 0 where nobody knows.
        """
        if self.stage is None:
            return replace(self, progress=None)
        self.stage(label, size)
        return self

    def advance(self, size: int) -> None:
        """Tell of bytes that are done."""
        if self.progress is not None:
            self.progress(size)

    def stepping(self) -> Scanner:
        """The same for work that goes back to Python many times a range, over short ranges.

        Threads take turns at that, and more than two cost more than they give.
        """
        return replace(self, wide=False, threads=min(self.thread_count(), STEPPING_THREADS))

    @cached_property
    def _cores(self) -> int:
        return len(os.sched_getaffinity(0))

    def range_size(self) -> int:
        """Bytes that a thread reads at once."""
        if self.processes and self.readings == 1:
            return min(reader.RANGE_SIZE, NARROW_RANGE)
        wanted = max(reader.RANGE_SIZE, WIDE_RANGE) if self.wide else reader.RANGE_SIZE
        return min(wanted, max(READ_MEMORY // self.thread_count(), RANGE_MIN))

    def scan(self, environment: Environment, work: Work[T]) -> Iterator[Part[T]]:
        """Call `work` with the rows of every range, and give the results in log order.

        `work` runs in several threads (or processes) at once and must not keep views of
        `Rows.data`.

        Raises:
            StoppedError: a file shrank, vanished or was replaced meanwhile.
            InputError: a file cannot be read.
        """
        threads = self.threads_for(environment.size)
        with self._open_pool(threads, work) as pool:
            # Open files are bounded by the ranges in flight: each is closed with its last one.
            try:
                for is_short, neighbours in groupby(environment.files, self._is_short):
                    files = list(neighbours)
                    streams = (_FileScan(self, file, work) for file in files)
                    if pool is None:
                        yield from _in_turn(streams)
                    elif is_short:
                        read = partial(_read_whole, replace(self, progress=None), work)
                        yield from _by_file(files, read, pool, 2 * threads, self.progress)
                    else:
                        yield from _in_order(streams, pool, threads + AHEAD)
            except BrokenExecutor as error:
                reason = "a worker process was killed, for lack of memory perhaps"
                raise StoppedError(f"{environment.name}: {reason}; try --threads 1") from error

    def _is_short(self, file: LogFile) -> bool:
        """Whether one thread reads the whole file: its results are small, and one range has it."""
        return self.wide and not self.cuts and file.size <= self.range_size()

    def _open_pool(self, threads: int, work: Work[Any]) -> AbstractContextManager[Executor | None]:
        """What reads ranges ahead; None where there is nothing to run beside each other."""
        if threads == 1:
            return nullcontext()
        if not self.processes:
            return ThreadPoolExecutor(threads)
        from je_tools.workers import open_workers

        alone = replace(self, progress=None, stage=None)
        return open_workers(threads, _Told(alone, work))

    def scan_piece(self, piece: Piece, work: Work[T]) -> Iterator[Part[T]]:
        """As `scan`, of one piece and in this thread.

        Raises:
            StoppedError: the file is not the one any more that was cut.
            InputError: it cannot be read.
        """
        return _in_turn([_FileScan(self, piece.file, work, piece)])

    def cut(self, file: LogFile, size: int) -> list[Piece]:
        """Pieces of a file of about `size` bytes each, by one walk over the headers.

        Where the way from entry to entry is lost a piece goes on until it is found again.
        """
        if file.size <= size:
            return [Piece(file)]
        walk = replace(self, check=False, progress=None)
        scan = _FileScan(walk, file, lambda _: None, Piece(file))
        pieces: list[Piece] = []
        place = Place()
        for used, outcome in scan.join(scan.read):
            behind = outcome.state.place
            is_known = behind.lost_from == NO_OFFSET and not behind.relaxed
            if is_known and behind.at - place.at >= size and used.stop < file.size:
                pieces.append(Piece(file, place, used.stop, behind))
                place = behind
        return [*pieces, Piece(file, place)]

    def scan_backward(self, environment: Environment, work: Work[T]) -> Iterator[Part[T]]:
        """As `scan`, ranges from the last to the first; rows inside each are in log order.

        A file is walked forward once before, since only then its entries are known for certain.
        """
        for file in reversed(environment.files):
            scan = _FileScan(self, file, lambda _: None)
            ranges = [used for used, _ in scan.join(scan.read)]
            again = _FileScan(self, file, work)
            for i, wanted in enumerate(reversed(ranges)):
                outcome = again.read(wanted)
                outcome.results.reverse()
                yield _part(scan, outcome, scan.state if i == len(ranges) - 1 else None)
            again.source.close()


class _FileScan(Generic[T]):
    """One file: its ranges, and how their outcomes are joined."""

    def __init__(
        self,
        scanner: Scanner,
        file: LogFile,
        work: Work[T],
        piece: Piece | None = None,
    ) -> None:
        self.scanner = scanner
        self.file = file
        self.work = work
        self.piece = piece
        with _explained():
            self.source = Source(file.path)
            if scanner.cuts or piece is not None:
                # All that read a range of it must mean the same bytes.
                self.source.limit(file.size)
        self.state = FileState(file, self.source.size)

    def ranges(self, place: Place) -> list[_Range]:
        """Ranges that cover the file behind `place`, where only the first begins."""
        size = min(self.source.size, FILE_SIZE_MAX)
        if self.piece is not None and self.piece.stop is not None:
            size = min(size, self.piece.stop)
        first = max(place.at, place.lost_from + 1)
        # Ranges of one size: a short one at the end costs as much Python as a long one.
        wanted = self.scanner.range_size() * self.scanner.readings
        count = self.scanner.cuts or max(-(-(size - first) // wanted), 1)
        step = max(-(-(size - first) // count), 1)
        starts = range(first, max(size, first + 1), step)
        return [
            _Range(start, min(start + step, size), None if start > first else place)
            for start in starts
        ]

    def read(self, wanted: _Range) -> Outcome[T]:
        """Read one range and work on it; runs in any thread."""
        return _read(self.scanner, self.file, self.source, self.work, wanted)

    def submit(self, pool: Executor, wanted: _Range) -> Future[Outcome[T]]:
        """Have one range read by the pool."""
        if self.scanner.processes:
            return pool.submit(_read_in_worker, self.file, self.source, wanted)
        return pool.submit(self.read, wanted)

    def join(
        self, outcome_of: Callable[[_Range], Outcome[T]]
    ) -> Iterator[tuple[_Range, Outcome[T]]]:
        """Ranges that together hold each entry once, with their outcomes, in order.

        `outcome_of` gives what a range of `ranges` has shown when it was read on its own.
        """
        place = Place(self.scanner.start) if self.piece is None else self.piece.place
        for planned in self.ranges(place):
            outcome = outcome_of(planned)
            is_lost = place.lost_from != NO_OFFSET
            inside_entry = not is_lost and place.at >= planned.stop > 0
            if inside_entry or (is_lost and outcome.state.blank):
                continue
            used = planned
            if planned.place is None and not _continues(outcome.state, place):
                start = planned.start if is_lost else place.at
                used = _Range(start, planned.stop, place)
                outcome = self.read(used)
            place = self._take(outcome)
            yield used, outcome
        if self.piece is not None and self.piece.behind not in (None, place):
            raise StoppedError(f"{self.file.path}: its bytes changed while the log was read")
        if place.lost_from != NO_OFFSET:
            place = yield from self._join_relaxed(place)
        self.state.tail = place.at if place.lost_from == NO_OFFSET else place.lost_from
        self._finish()

    def _join_relaxed(self, place: Place) -> Generator[tuple[_Range, Outcome[T]], None, Place]:
        """Read from a gap to which nothing behind it refers once more, on weaker evidence.

        That is where bytes are missing, so that the entries behind lie too low.
        """
        place = replace(place, relaxed=True)
        for planned in self.ranges(place):
            is_lost = place.lost_from != NO_OFFSET
            if not is_lost and place.at >= planned.stop:
                continue
            used = _Range(planned.start if is_lost else place.at, planned.stop, place)
            outcome = self.read(used)
            place = self._take(outcome)
            yield used, outcome
        return place

    def _take(self, outcome: Outcome[T]) -> Place:
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
            with _explained():
                self.source.check_unchanged()
        finally:
            self.source.close()


def read_cut(file: LogFile, cut: int, scanner: Scanner, work: Work[T]) -> Outcome[T]:
    """Read one range of a file on its own, in any process; `join_cuts` puts them together.

    Args:
        file: as it was when it was listed; what was written to it since is not read.
        cut: which of the ranges, from 0.
        scanner: its `cuts` tells how many ranges there are.
        work: called with the rows of the range.

    Raises:
        StoppedError: the file shrank, vanished or was replaced.
        InputError: it cannot be read.
    """
    scan = _FileScan(scanner, file, work)
    with scan.source:
        return replace(scan.read(scan.ranges(Place())[cut]), unreadable=scan.source.unreadable)


def join_cuts(
    file: LogFile, outcomes: Sequence[Outcome[T]], scanner: Scanner, work: Work[T]
) -> Iterator[tuple[int | None, Part[T]]]:
    """The parts of a file whose ranges were read on their own, in order.

    With each part comes the number of the range that it is, or None where a range did not begin
    where the one before it ended, so that it was read again here. What does not come counts for
    nothing. The last part, without results, is the file's end.

    Args:
        file, scanner, work: as for `read_cut`.
        outcomes: what `read_cut` gave for the ranges, in order.

    Raises:
        StoppedError: the file shrank, vanished or was replaced.
        InputError: it cannot be read.
    """
    scan = _FileScan(scanner, file, work)
    coming = iter(outcomes)
    numbers = {id(outcome): cut for cut, outcome in enumerate(outcomes)}
    for _, outcome in scan.join(lambda _: next(coming)):
        yield numbers.get(id(outcome)), _part(scan, outcome)
    yield None, Part(file, [], end=scan.state)


@contextmanager
def _explained() -> Iterator[None]:
    """What keeps a file from being read, as an error of ours."""
    try:
        yield
    except SourceChangedError as error:
        raise StoppedError(str(error)) from error
    except SourceError as error:
        raise InputError(str(error)) from error


def _read(
    scanner: Scanner, file: LogFile, source: Source, work: Work[T], wanted: _Range
) -> Outcome[T]:
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
    )
    with _explained():
        results = scanner.pack(map(work, ranged))
    return Outcome(results, ranged.state)


class _Told(Struct, frozen=True):
    """What a worker process is told once."""

    scanner: Scanner
    work: Work[Any]


def _read_in_worker(file: LogFile, source: Source, wanted: _Range) -> Outcome[Any]:
    from je_tools.workers import told

    by: _Told = told()
    outcome = _read(by.scanner, file, source, by.work, wanted)
    source.close()
    return replace(outcome, unreadable=source.unreadable)


def _merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Half-open spans in order, those that touch made one."""
    merged: list[tuple[int, int]] = []
    for start, stop in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(stop, merged[-1][1]))
        else:
            merged.append((start, stop))
    return merged


def _part(scan: _FileScan[Any], outcome: Outcome[T], end: FileState | None = None) -> Part[T]:
    state = outcome.state
    return Part(scan.file, outcome.results, state.gaps, state.chain_breaks, end)


def _continues(found: RangeState, place: Place) -> bool:
    """Whether a range that was read on its own begins where the one before it has ended."""
    in_step = place.lost_from == NO_OFFSET and place.shift == 0
    return in_step and (found.first, found.first_prev) == (place.at, place.last)


def _in_turn(scans: Iterable[_FileScan[T]]) -> Iterator[Part[T]]:
    """Read each range when it is wanted, so that results of no two are held at once."""
    for scan in scans:
        for used, outcome in scan.join(scan.read):
            if scan.scanner.progress:
                scan.scanner.progress(used.stop - used.start)
            yield _part(scan, outcome)
        yield Part(scan.file, [], end=scan.state)


def _read_whole(scanner: Scanner, work: Work[T], file: LogFile) -> list[Part[T]]:
    return list(_in_turn([_FileScan(scanner, file, work)]))


def _by_file(
    files: Iterable[LogFile],
    read: Callable[[LogFile], list[Part[T]]],
    pool: Executor,
    most: int,
    progress: Progress | None,
) -> Iterator[Part[T]]:
    """Have short files read ahead, at most so many, so that little is left to do here.

    This thread would wait for Python's lock at each call of the system, and the others for it.
    """
    ahead: deque[tuple[LogFile, Future[list[Part[T]]]]] = deque()

    def next_parts() -> Iterator[Part[T]]:
        file, future = ahead.popleft()
        yield from future.result()
        if progress:
            progress(file.size)

    try:
        for file in files:
            ahead.append((file, pool.submit(read, file)))
            if len(ahead) == most:
                yield from next_parts()
        while ahead:
            yield from next_parts()
    finally:
        for _, future in ahead:
            future.cancel()


def _in_order(scans: Iterable[_FileScan[T]], pool: Executor, most: int) -> Iterator[Part[T]]:
    """Submit ranges ahead of the one that is joined, no more than keeps the threads busy."""
    ahead: deque[tuple[_FileScan[T], _Range, Future[Outcome[T]]]] = deque()
    coming = (
        (scan, planned) for scan in scans for planned in scan.ranges(Place(scan.scanner.start))
    )

    def fill() -> None:
        while len(ahead) < most:
            item = next(coming, None)
            if item is None:
                return
            scan, planned = item
            ahead.append((scan, planned, scan.submit(pool, planned)))

    def next_outcome(_: _Range) -> Outcome[T]:
        fill()
        scan, planned, future = ahead.popleft()
        outcome = future.result()
        fill()
        if scan.scanner.progress:
            scan.scanner.progress(planned.stop - planned.start)
        return outcome

    try:
        fill()
        while ahead:
            scan = ahead[0][0]
            for _, outcome in scan.join(next_outcome):
                yield _part(scan, outcome)
            yield Part(scan.file, [], end=scan.state)
    finally:
        for _, _, future in ahead:
            future.cancel()
