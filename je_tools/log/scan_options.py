"""Options of a scan, and the numbers of threads and bytes that follow from them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct
from msgspec.structs import replace

from je_tools.formats.je.log import reader

if TYPE_CHECKING:
    from je_tools.core.pace import Pace
    from je_tools.formats.je.log.entry_rows import WantedEntries, WatchedEntries
    from je_tools.log.log_files import LogFile

Progress = Callable[[int], None]
Stage = Callable[[str, int], None]

ONE_THREAD_MAX = 1 << 20
"""Largest log that one thread reads, in bytes: to start more threads takes longer."""

WIDE_RANGE = 16 << 20
"""Size of a wide range in bytes."""

READ_MEMORY, RANGE_MIN = 128 << 20, 1 << 20
"""Largest total size of the ranges of all threads, and smallest size of one, in bytes."""

NARROW_RANGE = 512 << 10
"""Bytes that a worker process reads at once: its results take many times as much memory."""

ENCODERS_MAX = 4
"""Default maximum of threads or processes that encode entries: each takes up to 90 MB."""

STEPPING_THREADS = 2
"""Largest number of threads of `Scanner.stepping`."""


class ScanOptions(Struct, frozen=True, dict=True):
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
        pinned: read files only up to the size that they had when they were opened, not what was
            appended since.
        cuts: number of ranges per file; 0 to use `range_size`. See `read_cut`.
        readings: approximate number of windows of `range_size` per range.
        asked: returns the entries of a file that the work needs as rows; the others only appear
            in the survey (`entry_rows.WantedEntries`). None for all.
        watched: returns the entries of a file to note in the parts; None for none.
        segmented: collect segments of transactions; the last rows of each range have them.
        pack: builds the results of a range from those of its rows, where the range is read.
        pace: limit of bytes per second; None for none.
    """

    check: bool = True
    threads: int = 0
    progress: Progress | None = None
    stage: Stage | None = None
    start: int = 0
    wide: bool = False
    processes: bool = False
    pinned: bool = False
    cuts: int = 0
    readings: int = 1
    asked: Callable[[LogFile], WantedEntries | None] | None = None
    watched: Callable[[LogFile], WatchedEntries] | None = None
    segmented: bool = False
    pack: Callable[[Iterator[Any]], list[Any]] = list
    pace: Pace | None = None

    def thread_count(self) -> int:
        """Return the number of threads, or processes, for a log that is not small."""
        return self.threads or (min(self._cores, ENCODERS_MAX) if self.processes else self._cores)

    def threads_for(self, size: int) -> int:
        """Return the number of threads, or processes, for a log of `size` bytes."""
        return self.thread_count() if size > ONE_THREAD_MAX else 1

    def staged(self, label: str, size: int) -> Self:
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

    def stepping(self) -> Self:
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
        most = reader.RANGE_SIZE if self.pace is None else self.pace.range_size
        if self.processes and self.readings == 1:
            return min(reader.RANGE_SIZE, NARROW_RANGE, most)
        wanted = max(reader.RANGE_SIZE, WIDE_RANGE) if self.wide else reader.RANGE_SIZE
        if self.pace is not None:
            wanted = min(wanted, most)
        return min(wanted, max(READ_MEMORY // self.thread_count(), RANGE_MIN))
