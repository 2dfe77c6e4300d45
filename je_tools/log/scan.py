"""Scan: work over all entries of a log, ranges in parallel, results in log order.

Each file is cut into ranges, each range is read by a thread or process of its own, and the results
are joined here: a range counts only if its first entry is the one at which the range before it
ended. Otherwise (an entry longer than a range, damage across a border, an image of a log inside a
record) the range is read again from the right offset.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from je_tools.core.ordered import in_flight
from je_tools.errors import InputError, StoppedError
from je_tools.formats.files.source import Source, SourceChangedError, SourceError
from je_tools.formats.je.log import reader
from je_tools.formats.je.log.entry_rows import Rows, WantedEntries
from je_tools.formats.je.log.places import ChainBreak, ChainBreaks, Gap, Gaps
from je_tools.formats.je.log.reader import FILE_SIZE_MAX, KEPT, Place, RangeReader, RangeState
from je_tools.formats.je.log.walk import NO_OFFSET

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

    from je_tools.log.environment import Environment
    from je_tools.log.log_files import LogFile

ONE_THREAD_MAX = 1 << 20
"""Largest log that one thread reads, in bytes: to start more threads takes longer."""

AHEAD = 2
"""Ranges read or waiting beyond one per thread, so that no thread idles; each costs memory."""

T = TypeVar("T")
Work = Callable[[Rows], T]
Progress = Callable[[int], None]
Stage = Callable[[str, int], None]

WIDE_RANGE = 16 << 20
"""Size of a wide range in bytes."""

READ_MEMORY, RANGE_MIN = 128 << 20, 1 << 20
"""Largest total size of the ranges of all threads, and smallest size of one, in bytes."""

NARROW_RANGE = 512 << 10
"""Bytes that a worker process reads at once: its results take many times as much memory."""

ENCODERS_MAX = 4
"""Default maximum of threads or processes that encode entries: each takes up to 90 MB."""


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


class Part(Struct, Generic[T], frozen=True):
    """Results and damage of one range; `end` is the file's state after its last range.

    A gap belongs to the part in which it ends, which may be a later one than that of its start.
    """

    file: LogFile
    results: list[T]
    gaps: Gaps = field(default_factory=Gaps)
    chain_breaks: ChainBreaks = field(default_factory=ChainBreaks)
    end: FileState | None = None


class Piece(Struct, frozen=True):
    """A section of a file that a process can read without the others.

    The pieces of a file hold each of its entries once, in log order.

    Attributes:
        file: the file, with the size to read even if the file has grown since.
        place: state of reading at the start of the piece.
        stop: offset at and after which no entry of the piece begins; None for the end of the file.
        behind: state of reading at the end, which reading the piece must reach; None if unknown.
    """

    file: LogFile
    place: Place = field(default_factory=Place)
    stop: int | None = None
    behind: Place | None = None


class _Range(Struct, frozen=True):
    """Entries that begin in [start, stop), and the place to continue from, if known."""

    start: int
    stop: int
    place: Place | None = None


class Outcome(Struct, Generic[T], frozen=True):
    """Result of reading one range on its own; its fields are private to this module."""

    results: list[T]
    state: RangeState
    unreadable: set[tuple[int, int]] = field(default_factory=set)


STEPPING_THREADS = 2
"""Largest number of threads of `Scanner.stepping`."""


class Scanner(Struct, frozen=True, dict=True):
    """Options of a scan.

    Attributes:
        check: verify the checksum of every entry.
        threads: number of threads; 0 for as many as this process may use.
        progress: called with the bytes of each finished range.
        stage: called at the start of a long step, with its name and the number of bytes that
            `progress` will report, 0 if unknown. See `staged`.
        start: offset of the entry at which to start, in a log of one file.
        wide: `work` keeps no array of its rows, so lend them, and read long ranges, which have
            less overhead.
        processes: run the work in processes instead of threads, since it is mostly Python: it and
            its results must pickle.
        cuts: number of ranges per file; 0 to use `range_size`. See `read_cut`.
        readings: approximate number of windows of `range_size` per range.
        asked: returns the entries of a file that the work needs as rows; the others only appear
            in the survey (`entry_rows.WantedEntries`). None for all.
        pack: builds the results of a range from those of its rows, where the range is read.
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
    asked: Callable[[LogFile], WantedEntries | None] | None = None
    pack: Callable[[Iterator[Any]], list[Any]] = list

    def thread_count(self) -> int:
        """Return the number of threads, or processes, for a log that is not small."""
        return self.threads or (min(self._cores, ENCODERS_MAX) if self.processes else self._cores)

    def threads_for(self, size: int) -> int:
        """Return the number of threads, or processes, for a log of `size` bytes."""
        return self.thread_count() if size > ONE_THREAD_MAX else 1

    def staged(self, label: str, size: int) -> Scanner:
        """Return the scanner for a step that begins now; silent if there is no `stage`.

        Args:
            label: name of the step, a word or two.
            size: bytes that it processes; 0 if unknown.
        """
        if self.stage is None:
            return replace(self, progress=None)
        self.stage(label, size)
        return self

    def advance(self, size: int) -> None:
        """Report bytes as done."""
        if self.progress is not None:
            self.progress(size)

    def stepping(self) -> Scanner:
        """Return the scanner for work that returns to Python many times per range.

        It reads short ranges in few threads: they take turns in Python, and more than two cost
        more than they gain.
        """
        return replace(self, wide=False, threads=min(self.thread_count(), STEPPING_THREADS))

    @cached_property
    def _cores(self) -> int:
        return len(os.sched_getaffinity(0))

    def range_size(self) -> int:
        """Return the number of bytes that a thread reads at once."""
        if self.processes and self.readings == 1:
            return min(reader.RANGE_SIZE, NARROW_RANGE)
        wanted = max(reader.RANGE_SIZE, WIDE_RANGE) if self.wide else reader.RANGE_SIZE
        return min(wanted, max(READ_MEMORY // self.thread_count(), RANGE_MIN))

    def scan(self, environment: Environment, work: Work[T]) -> Iterator[Part[T]]:
        """Call `work` with the rows of every range, and yield the results in log order.

        `work` runs in several threads (or processes) at once and must not keep views of
        `Rows.data`.

        Raises:
            StoppedError: a file shrank, vanished or was replaced meanwhile.
            InputError: a file cannot be read.
        """
        threads = self.threads_for(environment.size)
        if threads == 1:
            yield from _in_turn(_FileScan(self, file, work) for file in environment.files)
            return
        from concurrent.futures import BrokenExecutor

        with self._open_pool(threads, work) as pool:
            # Ranges in flight bound the number of open files: each closes with its last range.
            try:
                for is_short, neighbours in groupby(environment.files, self._is_short):
                    files = list(neighbours)
                    if is_short:
                        read = partial(_read_whole, replace(self, progress=None), work)
                        yield from _by_file(files, read, pool, 2 * threads, self.progress)
                    else:
                        streams = (_FileScan(self, file, work) for file in files)
                        yield from _in_order(streams, pool, threads + AHEAD)
            except BrokenExecutor as error:
                reason = "a worker process was killed, for lack of memory perhaps"
                raise StoppedError(f"{environment.name}: {reason}; try --threads 1") from error

    def _is_short(self, file: LogFile) -> bool:
        """Return whether one thread reads the whole file as one range, with small results."""
        return self.wide and not self.cuts and file.size <= self.range_size()

    def _open_pool(self, threads: int, work: Work[Any]) -> Executor:
        """Return a pool that reads ranges ahead."""
        if not self.processes:
            from concurrent.futures import ThreadPoolExecutor

            return ThreadPoolExecutor(threads)
        from je_tools.core.worker_processes import open_workers

        alone = replace(self, progress=None, stage=None)
        return open_workers(threads, _Told(alone, work))

    def scan_piece(self, piece: Piece, work: Work[T]) -> Iterator[Part[T]]:
        """Scan one piece in this thread; see `scan`.

        Raises:
            StoppedError: the file has changed since it was cut.
            InputError: it cannot be read.
        """
        return _in_turn([_FileScan(self, piece.file, work, piece)])

    def cut(self, file: LogFile, size: int) -> list[Piece]:
        """Cut a file into pieces of about `size` bytes, by one walk over the headers.

        No piece ends inside damage: it extends to the entry at which reading goes on.
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
        """Scan ranges from the last to the first; rows inside each range are in log order.

        Each file is first walked forward: only then are its entries certain.
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
    """Scan of one file: cuts its ranges and joins their outcomes."""

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
                # All readers of its ranges must see the same bytes.
                self.source.limit(file.size)
        self.state = FileState(file, self.source.size)

    def ranges(self, place: Place) -> list[_Range]:
        """Return ranges that cover the rest of the file; only the first has the known `place`."""
        size = min(self.source.size, FILE_SIZE_MAX)
        if self.piece is not None and self.piece.stop is not None:
            size = min(size, self.piece.stop)
        first = max(place.at, place.lost_from + 1)
        # Ranges of equal size: a short one at the end costs as much Python as a long one.
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
        """Submit one range to the pool."""
        if self.scanner.processes:
            return pool.submit(_read_in_worker, self.file, self.source, wanted)
        return pool.submit(self.read, wanted)

    def join(
        self, outcome_of: Callable[[_Range], Outcome[T]]
    ) -> Iterator[tuple[_Range, Outcome[T]]]:
        """Yield ranges that together hold each entry once, with their outcomes, in order.

        `outcome_of` returns the outcome of a range of `ranges`, read on its own.
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
        """Read again, on weaker evidence, from a gap to which no later entry refers.

        Bytes are missing there, so the entries after it lie too low.
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
    """Read one range of a file on its own, in any process; `join_cuts` combines the outcomes.

    Args:
        file: as it was when it was listed; bytes written to it since are not read.
        cut: index of the range, from 0.
        scanner: its `cuts` is the number of ranges.
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
    """Yield the parts of a file whose ranges were read on their own, in order.

    Each part comes with the index of its range, or None if the range did not begin where the one
    before it ended, so that it was read again here. Outcomes that are not yielded do not count.
    The last part, without results, is the file's end.

    Args:
        file, scanner, work: as for `read_cut`.
        outcomes: outcomes of `read_cut` for the ranges, in order.

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
    """Turn errors of a source into `StoppedError` and `InputError`."""
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
    """Setup that a worker process receives once."""

    scanner: Scanner
    work: Work[Any]


def _read_in_worker(file: LogFile, source: Source, wanted: _Range) -> Outcome[Any]:
    from je_tools.core.worker_processes import told

    by: _Told = told()
    outcome = _read(by.scanner, file, source, by.work, wanted)
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


def _part(scan: _FileScan[Any], outcome: Outcome[T], end: FileState | None = None) -> Part[T]:
    state = outcome.state
    return Part(scan.file, outcome.results, state.gaps, state.chain_breaks, end)


def _continues(found: RangeState, place: Place) -> bool:
    """Return whether a range read on its own begins where the one before it ended."""
    in_step = place.lost_from == NO_OFFSET and place.shift == 0
    return in_step and (found.first, found.first_prev) == (place.at, place.last)


def _in_turn(scans: Iterable[_FileScan[T]]) -> Iterator[Part[T]]:
    """Read each range on request, so that the results of two are never held at once."""
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
    """Read short files ahead in the pool, at most `most` at a time.

    If this thread did more of it, it would wait for Python's lock at each system call, and the
    others for it.
    """
    for file, parts in in_flight(lambda file: pool.submit(read, file), files, most - 1):
        yield from parts.result()
        if progress:
            progress(file.size)


def _in_order(scans: Iterable[_FileScan[T]], pool: Executor, most: int) -> Iterator[Part[T]]:
    """Submit ranges ahead of the one that is joined, just enough to keep the threads busy."""
    ranges = ((scan, each) for scan in scans for each in scan.ranges(Place(scan.scanner.start)))
    coming = in_flight(lambda item: item[0].submit(pool, item[1]), ranges, most - 2)
    following = next(coming, None)

    def next_outcome(_: _Range) -> Outcome[T]:
        nonlocal following
        assert following is not None
        (scan, planned), future = following
        # A range is submitted before this thread waits, so that no other runs out of work.
        following = next(coming, None)
        outcome = future.result()
        if scan.scanner.progress:
            scan.scanner.progress(planned.stop - planned.start)
        return outcome

    try:
        while following is not None:
            scan = following[0][0]
            for _, outcome in scan.join(next_outcome):
                yield _part(scan, outcome)
            yield Part(scan.file, [], end=scan.state)
    finally:
        coming.close()
