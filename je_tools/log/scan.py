"""Scan: work over all entries of a log, ranges in parallel, results in log order.

Each file is cut into ranges, and each range is read by a thread or process of its own.
`log/file_scan.py` joins the results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from je_tools.core.ordered import in_flight
from je_tools.errors import StoppedError
from je_tools.formats.je.log.reader import ReadState
from je_tools.formats.je.log.walk import NO_OFFSET
from je_tools.log.file_scan import (
    FilePiece,
    FileScan,
    Range,
    RangeOutcome,
    ScanPart,
    Work,
    WorkerTask,
    part_of,
)
from je_tools.log.scan_options import Progress, ScanOptions

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from je_tools.log.environment import Environment
    from je_tools.log.log_files import LogFile

AHEAD = 2
"""Ranges read or waiting beyond one per thread, so that no thread idles; each costs memory."""

T = TypeVar("T")


class Scanner(ScanOptions, frozen=True, dict=True):
    """Reader of all entries of a log, by the options of `ScanOptions`."""

    def scan(self, environment: Environment, work: Work[T]) -> Iterator[ScanPart[T]]:
        """Call `work` with the rows of every range, and yield the results in log order.

        `work` runs in several threads (or processes) at once and must not keep views of
        `Rows.data`.

        Raises:
            StoppedError: a file shrank, vanished or was replaced meanwhile.
            InputError: a file cannot be read.
        """
        threads = self.threads_for(environment.size)
        if threads == 1:
            yield from _in_turn(FileScan(self, file, work) for file in environment.files)
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
                        streams = (FileScan(self, file, work) for file in files)
                        yield from _in_order(streams, pool, threads + AHEAD)
            except BrokenExecutor as error:
                reason = "a worker process was killed, perhaps for lack of memory"
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

        pace = None if self.pace is None else self.pace.shared_by(threads)
        alone = replace(self, progress=None, stage=None, pace=pace)
        return open_workers(threads, WorkerTask(alone, work))

    def scan_piece(self, piece: FilePiece, work: Work[T]) -> Iterator[ScanPart[T]]:
        """Scan one piece in this thread; see `scan`.

        Raises:
            StoppedError: the file has changed since it was cut.
            InputError: it cannot be read.
        """
        return _in_turn([FileScan(self, piece.file, work, piece)])

    def cut(self, file: LogFile, size: int) -> list[FilePiece]:
        """Cut a file into pieces of about `size` bytes, by one walk over the headers.

        No piece ends inside damage: it extends to the entry at which reading continues.
        """
        if file.size <= size:
            return [FilePiece(file)]
        walk = replace(self, check=False, progress=None)
        scan = FileScan(walk, file, lambda _: None, FilePiece(file))
        pieces: list[FilePiece] = []
        place = ReadState()
        for used, outcome in scan.join(scan.read):
            end_state = outcome.state.place
            is_known = end_state.lost_from == NO_OFFSET and not end_state.relaxed
            if is_known and end_state.at - place.at >= size and used.stop < file.size:
                pieces.append(FilePiece(file, place, used.stop, end_state))
                place = end_state
        return [*pieces, FilePiece(file, place)]

    def scan_backward(self, environment: Environment, work: Work[T]) -> Iterator[ScanPart[T]]:
        """Scan ranges from the last to the first; rows inside each range are in log order.

        Each file is first walked forward: only then are its entries certain.
        """
        for file in reversed(environment.files):
            scan = FileScan(self, file, lambda _: None)
            ranges = [used for used, _ in scan.join(scan.read)]
            again = FileScan(self, file, work)
            for i, wanted in enumerate(reversed(ranges)):
                outcome = again.read(wanted)
                outcome.results.reverse()
                yield part_of(scan, outcome, scan.state if i == len(ranges) - 1 else None)
            again.source.close()


def read_cut(file: LogFile, cut: int, scanner: Scanner, work: Work[T]) -> RangeOutcome[T]:
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
    scan = FileScan(scanner, file, work)
    with scan.source:
        return replace(scan.read(scan.ranges(ReadState())[cut]), unreadable=scan.source.unreadable)


def join_cuts(
    file: LogFile, outcomes: Sequence[RangeOutcome[T]], scanner: Scanner, work: Work[T]
) -> Iterator[tuple[int | None, ScanPart[T]]]:
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
    scan = FileScan(scanner, file, work)
    coming = iter(outcomes)
    numbers = {id(outcome): cut for cut, outcome in enumerate(outcomes)}
    for _, outcome in scan.join(lambda _: next(coming)):
        yield numbers.get(id(outcome)), part_of(scan, outcome)
    yield None, ScanPart(file, [], end=scan.state)


def _in_turn(scans: Iterable[FileScan[T]]) -> Iterator[ScanPart[T]]:
    """Read each range on request, so that the results of two are never held at once."""
    for scan in scans:
        for used, outcome in scan.join(scan.read):
            if scan.scanner.progress:
                scan.scanner.progress(used.stop - used.start)
            yield part_of(scan, outcome)
        yield ScanPart(scan.file, [], end=scan.state)


def _read_whole(scanner: Scanner, work: Work[T], file: LogFile) -> list[ScanPart[T]]:
    return list(_in_turn([FileScan(scanner, file, work)]))


def _by_file(
    files: Iterable[LogFile],
    read: Callable[[LogFile], list[ScanPart[T]]],
    pool: Executor,
    most: int,
    progress: Progress | None,
) -> Iterator[ScanPart[T]]:
    """Read short files ahead in the pool, at most `most` at a time.

    If this thread did more of the reading, it would wait for Python's lock at each system call,
    and the others for this thread.
    """
    for file, parts in in_flight(lambda file: pool.submit(read, file), files, most - 1):
        yield from parts.result()
        if progress:
            progress(file.size)


def _in_order(scans: Iterable[FileScan[T]], pool: Executor, most: int) -> Iterator[ScanPart[T]]:
    """Submit ranges ahead of the one that is joined, just enough to keep the threads busy."""
    ranges = ((scan, each) for scan in scans for each in scan.ranges(ReadState(scan.scanner.start)))
    coming = in_flight(lambda item: item[0].submit(pool, item[1]), ranges, most - 2)
    following = next(coming, None)

    def next_outcome(_: Range) -> RangeOutcome[T]:
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
                yield part_of(scan, outcome)
            yield ScanPart(scan.file, [], end=scan.state)
    finally:
        coming.close()
