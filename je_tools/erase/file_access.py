"""Access to a log file that is overwritten: its reads, writes and fsyncs are counted."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from je_tools.errors import RefusedError

if TYPE_CHECKING:
    from je_tools.erase.entries_to_erase import EntriesToErase
    from je_tools.formats.arrays import Ints
    from je_tools.formats.files.source import Bytes
    from je_tools.writing.disk import Disk

TYPE_OFFSET = 4
"""Offset of the type in a header, after the checksum."""

_GAP_MAX = 4096
"""Changes less than this many bytes apart are written together.

A disk writes whole sectors, and a system whole pages, so writing the unchanged bytes of the same
page again adds nothing that a power cut could damage. One call for each entry would take longer
than the overwriting.
"""

_WRITE_MAX = 4 << 20


class OverwriteCounts(Struct):
    """Counts of what was done to files.

    Attributes:
        entry_count, entry_size: entries overwritten, and their bytes, headers included.
        fsync_count: number of times that a file was made durable.
        write_count, write_size: writes and their bytes.
        read_count, read_size: reads and their bytes.
    """

    entry_count: int = 0
    entry_size: int = 0
    fsync_count: int = 0
    write_count: int = 0
    write_size: int = 0
    read_count: int = 0
    read_size: int = 0


class OverwriteHooks(Protocol):
    """Functions that are called while a file is overwritten; see `ErasureHooks`."""

    @property
    def on_fsync(self) -> Callable[[Path, int], None]:
        """Called after each fsync, with the file and the time in milliseconds."""

    @property
    def on_work(self) -> Callable[[float], None]:
        """Called with the bytes of work done since the last call; it may wait."""


class EntryRun(NamedTuple):
    """Entries near each other, as they are in a file.

    Attributes:
        rows: rows of the entries.
        first: offset of the first one.
        at: int64; offsets of the entries in `data`.
        data: uint8; the bytes from the first entry to the end of the last one.
    """

    rows: slice
    first: int
    at: Ints
    data: Bytes


class OverwrittenFile:
    """A log file that is open to be overwritten.

    Attributes:
        path: the file.
        number: descriptor by which it is read.
        counts: counts to add to.
        hooks: functions that are called meanwhile.
    """

    def __init__(
        self, path: Path, disk: Disk, counts: OverwriteCounts, hooks: OverwriteHooks
    ) -> None:
        """Open the file; nothing is written yet.

        Args:
            path: the file; the lock of its environment is held.
            disk: disk to write to.
            counts: counts to add to.
            hooks: functions that are called meanwhile.
        """
        self.path = path
        self.counts = counts
        self.hooks = hooks
        self._disk = disk
        self.number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def __enter__(self) -> OverwrittenFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        os.close(self.number)
        self._disk.close()

    def read(self, offset: int, size: int) -> Bytes:
        """Return bytes of the file, uint8 (size,), which may be changed.

        Raises:
            RefusedError: the file has become shorter.
        """
        data = np.empty(size, np.uint8)
        done = 0
        while done < size:
            part = os.preadv(self.number, [data.data[done:]], offset + done)
            if not part:
                raise self.change_error(offset + done, "the file has become shorter")
            done += part
        self.counts.read_count += 1
        self.counts.read_size += size
        return data

    def read_entries(
        self, entries: EntriesToErase, types: npt.NDArray[np.uint8]
    ) -> Iterator[EntryRun]:
        """Yield entries in runs, after checking that their types and sizes are as expected.

        Args:
            entries: the entries.
            types: the type that each should have, uint8.

        Raises:
            RefusedError: an entry has another type or size, or the file has become shorter.
        """
        sizes = entries.size
        for rows in near_runs(entries.offset, sizes):
            starts = entries.offset[rows]
            first = int(starts[0])
            data = self.read(first, int((starts + sizes[rows]).max()) - first)
            at = starts - first
            item_size = data[at[:, None] + _SIZE_BYTES].copy().view("<u4")[:, 0]
            wrong = (data[at + TYPE_OFFSET] != types[rows]) | (item_size != entries.item_size[rows])
            if wrong.any():
                place = int(starts[np.flatnonzero(wrong)[0]])
                raise self.change_error(place, "the entry is not what it should be")
            yield EntryRun(rows, first, at, data)

    def write(self, offset: int, data: Bytes) -> None:
        """Write bytes; they are durable after `sync`."""
        self._disk.write(self.path, offset, data.data)
        self.counts.write_count += 1
        self.counts.write_size += len(data)

    def sync(self, work: float) -> None:
        """Make the file durable.

        Args:
            work: bytes of work for which this fsync counts; see `throttle`.
        """
        self._disk.sync(self.path)
        self.counts.fsync_count += 1
        self.hooks.on_fsync(self.path, time.time_ns() // 1_000_000)
        self.hooks.on_work(work)

    def change_error(self, offset: int, what: str) -> RefusedError:
        """Return the error for bytes that are not what they should be."""
        return RefusedError(
            f"{self.path} at {offset:#x}: {what}. Nothing more was written. Another program writes "
            "to the file, or its disk does not keep what is written: `je-tools verify` shows "
            "whether the log is whole"
        )


_SIZE_BYTES = np.arange(10, 14)
"""Offsets of the size of the item in a header."""


def near_runs(starts: Ints, sizes: Ints) -> Iterator[slice]:
    """Split ascending ranges into runs of ranges that are near each other; limit their size."""
    if not len(starts):
        return
    gaps = starts[1:] - (starts + sizes)[:-1]
    blocks = (starts - starts[0]) // _WRITE_MAX
    borders = np.flatnonzero((gaps >= _GAP_MAX) | (blocks[1:] != blocks[:-1])) + 1
    for first, stop in pairwise([0, *borders.tolist(), len(starts)]):
        yield slice(first, stop)
