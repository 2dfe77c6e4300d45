"""Runs work over all entries of a log: ranges in parallel, results in the order of the log.

Each file is cut into ranges, each range is read by a thread of its own, and the results are
joined here: a range counts only where its first entry is the one at which the range before it
ended. Where that is not so (an entry longer than a range, damage across a border, an image of a
log inside a record) the range is read again from where it must begin.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from je_tools.environment import Environment, LogFile
from je_tools.errors import InputError, StoppedError
from je_tools.formats.je.reader import PLAIN_LIMIT, RANGE_SIZE, Gap, RangeReader, RangeState, Rows
from je_tools.formats.je.walk import NO_OFFSET
from je_tools.formats.source import Source, SourceChangedError

T = TypeVar("T")
Work = Callable[[Rows], T]
Progress = Callable[[int], None]


@dataclass
class FileState:
    """What reading one whole file has shown, besides its entries.

    Attributes:
        file: which one.
        size: bytes that were read.
        gaps: damaged ranges in the middle, in order.
        chain_breaks: offsets of good entries whose prevOffset does not name the one before.
        tail: where the last good entry ends and nothing follows; equals `size` at a clean end.
        last: offset of the last good entry, NO_OFFSET when there is none.
        unreadable: byte ranges that the device did not deliver.
    """

    file: LogFile
    size: int
    gaps: list[Gap] = field(default_factory=list)
    chain_breaks: list[int] = field(default_factory=list)
    tail: int = 0
    last: int = NO_OFFSET
    unreadable: list[tuple[int, int]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Part(Generic[T]):
    """The results of one range; `end` carries the file's state with its last range."""

    file: LogFile
    results: list[T]
    end: FileState | None = None


@dataclass(frozen=True, slots=True)
class _Range:
    """Entries that begin in [start, stop); see RangeReader for the rest."""

    start: int
    stop: int
    exact: bool
    lost_from: int = NO_OFFSET


@dataclass(frozen=True, slots=True)
class _Outcome(Generic[T]):
    results: list[T]
    state: RangeState
    first_prev: int


@dataclass(frozen=True)
class Scanner:
    """How a log is read.

    Attributes:
        check: sum every entry.
        threads: how many read at once; 0 for as many as this process may use.
        fast: use compiled kernels; None decides by the size of the log.
        progress: called with the bytes of each finished range.
    """

    check: bool = True
    threads: int = 0
    fast: bool | None = None
    progress: Progress | None = None

    def is_fast(self, size: int) -> bool:
        """Whether a log of `size` bytes is read with compiled kernels."""
        return size > PLAIN_LIMIT if self.fast is None else self.fast

    def scan(self, environment: Environment, work: Work[T]) -> Iterator[Part[T]]:
        """Call `work` with the rows of every range, and give the results in log order.

        `work` runs in several threads at once and must not keep views of `Rows.data`.

        Raises:
            StoppedError: a file shrank, vanished or was replaced meanwhile.
            InputError: a file cannot be read.
        """
        fast = self.is_fast(environment.size)
        threads = (self.threads or len(os.sched_getaffinity(0))) if fast else 1
        with ThreadPoolExecutor(threads) as pool:
            # Open files are bounded by the ranges in flight: each is closed with its last one.
            streams = (_FileScan(self, file, work, fast) for file in environment.files)
            yield from _in_order(streams, pool, threads)

    def scan_backward(self, environment: Environment, work: Work[T]) -> Iterator[Part[T]]:
        """As `scan`, ranges from the last to the first; rows inside each are in log order.

        A file is walked forward once before, since only then its entries are known for certain.
        """
        fast = self.is_fast(environment.size)
        for file in reversed(environment.files):
            scan = _FileScan(self, file, lambda _: None, fast)
            ranges = [used for used, _ in scan.join(scan.read)]
            again = _FileScan(self, file, work, fast)
            for i, wanted in enumerate(reversed(ranges)):
                end = scan.state if i == len(ranges) - 1 else None
                yield Part(file, again.read(wanted).results[::-1], end)
            again.source.close()


class _FileScan(Generic[T]):
    """One file: its ranges, and how their outcomes are joined."""

    def __init__(self, scanner: Scanner, file: LogFile, work: Work[T], fast: bool) -> None:
        self.scanner = scanner
        self.file = file
        self.work = work
        self.fast = fast
        try:
            self.source = Source(file.path)
        except FileNotFoundError as error:
            raise StoppedError(f"{file.path}: vanished while the log was read") from error
        except OSError as error:
            raise InputError(f"{file.path}: {error.strerror}") from error
        self.state = FileState(file, self.source.size)

    def ranges(self) -> list[_Range]:
        """Ranges that cover the file; only the first is known to begin with an entry."""
        starts = range(0, max(self.source.size, 1), RANGE_SIZE)
        return [_Range(a, min(a + RANGE_SIZE, self.source.size), a == 0) for a in starts]

    def read(self, wanted: _Range) -> _Outcome[T]:
        """Read one range and work on it; runs in any thread."""
        reader = RangeReader(
            self.source,
            self.file.file_no,
            self.file.version,
            wanted.start,
            wanted.stop,
            exact=wanted.exact,
            lost_from=wanted.lost_from,
            fast=self.fast,
            check=self.scanner.check,
        )
        results: list[T] = []
        first_prev = NO_OFFSET
        try:
            for rows in reader:
                if not results:
                    first_prev = int(rows.prev_offset[0])
                results.append(self.work(rows))
        except SourceChangedError as error:
            raise StoppedError(str(error)) from error
        return _Outcome(results, reader.state, first_prev)

    def join(
        self, outcome_of: Callable[[_Range], _Outcome[T]]
    ) -> Iterator[tuple[_Range, _Outcome[T]]]:
        """Ranges that together hold each entry once, with their outcomes, in order.

        `outcome_of` gives what a range of `ranges()` has shown when it was read on its own.
        """
        at, lost_from = 0, NO_OFFSET
        for planned in self.ranges():
            outcome = outcome_of(planned)
            if lost_from == NO_OFFSET and at >= planned.stop and planned.stop > 0:
                continue
            used = planned
            if lost_from != NO_OFFSET:
                used = _Range(planned.start, planned.stop, False, lost_from)
                outcome = self.read(used)
            elif outcome.state.first != at and planned.start != at:
                used = _Range(at, planned.stop, True)
                outcome = self.read(used)
            self._take(outcome, at if lost_from == NO_OFFSET else NO_OFFSET)
            at, lost_from = outcome.state.end, outcome.state.lost_from
            yield used, outcome
        self.state.tail = lost_from if lost_from != NO_OFFSET else at
        self._finish()

    def _take(self, outcome: _Outcome[T], at: int) -> None:
        found = outcome.state
        continues = found.first == at and self.state.last != NO_OFFSET
        if continues and outcome.first_prev != self.state.last:
            self.state.chain_breaks.append(found.first)
        self.state.gaps += found.gaps
        self.state.chain_breaks += found.chain_breaks
        if found.last != NO_OFFSET:
            self.state.last = found.last

    def _finish(self) -> None:
        self.state.unreadable = self.source.unreadable
        try:
            self.source.check_unchanged()
        except SourceChangedError as error:
            raise StoppedError(str(error)) from error
        finally:
            self.source.close()


def _in_order(
    scans: Iterable[_FileScan[T]], pool: ThreadPoolExecutor, threads: int
) -> Iterator[Part[T]]:
    """Submit ranges ahead of the one that is joined, no more than keeps the threads busy."""
    ahead: deque[tuple[_FileScan[T], _Range, Future[_Outcome[T]]]] = deque()
    coming = ((scan, planned) for scan in scans for planned in scan.ranges())

    def fill() -> None:
        while len(ahead) < 2 * threads:
            item = next(coming, None)
            if item is None:
                return
            scan, planned = item
            ahead.append((scan, planned, pool.submit(scan.read, planned)))

    def next_outcome(_: _Range) -> _Outcome[T]:
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
            parts = scan.join(next_outcome)
            held: _Outcome[T] | None = None
            for _, outcome in parts:
                if held is not None:
                    yield Part(scan.file, held.results)
                held = outcome
            yield Part(scan.file, held.results if held else [], scan.state)
    finally:
        for _, _, future in ahead:
            future.cancel()
