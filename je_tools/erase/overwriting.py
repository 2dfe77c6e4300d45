"""Overwriting of entries: first their types, then their bytes, each made durable in turn.

A marked entry has the type Erased, whose checksum counts for nothing, so its bytes may be changed
in any order. Without the wait between the two, a power cut can leave zeros under the old type: in
older files a wrong checksum, in the last file the end of the log.

Source: je-log.md "Data eraser"; DataEraser.eraseEntries, JE 25.3.17.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from je_tools.erase.options import BATCH_MAX
from je_tools.erase.throttle import LAST_SHARE, MARK_SHARE, TOUCH_SHARE, ZERO_SHARE
from je_tools.errors import RefusedError
from je_tools.formats.je.types import ERASED_NO
from je_tools.formats.spans import Spans, are_zero, fill_spans

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints
    from je_tools.formats.files.source import Bytes
    from je_tools.formats.je.log.entry_rows import Rows
    from je_tools.log.log_files import LogFile
    from je_tools.writing.disk import Disk

_TYPE_OFFSET = 4
"""Offset of the type in a header, after the checksum."""

_GAP_MAX = 4096
"""Changes less than this many bytes apart are written together.

A disk writes whole sectors, and a system whole pages, so writing the unchanged bytes of the same
page again adds nothing that a power cut could damage. One call for each entry would take longer
than the overwriting.
"""

_WRITE_MAX = 4 << 20


class Erasures(Struct, frozen=True):
    """Entries of one file to overwrite, ascending.

    Attributes:
        offset: int64; offsets of the entries.
        header_size: int64; bytes of their headers, which stay except for the type.
        item_size: int64; bytes after the headers.
        type: uint8; types as stored, ERASED_NO if only the bytes are left to overwrite.
    """

    offset: Ints
    header_size: Ints
    item_size: Ints
    type: npt.NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.offset)

    @property
    def item_offset(self) -> Ints:
        """Offsets of the bytes after the headers, int64."""
        return self.offset + self.header_size

    @classmethod
    def of(cls, rows: Rows) -> Erasures:
        """Return the entries of some rows."""
        return cls(
            rows.offset.astype(np.int64),
            rows.header_size.astype(np.int64),
            rows.item_size.astype(np.int64),
            rows.type.copy(),
        )

    @classmethod
    def joined(cls, parts: Sequence[Erasures]) -> Erasures:
        """Concatenate entries."""
        none = np.empty(0, np.int64)
        return cls(
            np.concatenate([none, *(each.offset for each in parts)]),
            np.concatenate([none, *(each.header_size for each in parts)]),
            np.concatenate([none, *(each.item_size for each in parts)]),
            np.concatenate([none.astype(np.uint8), *(each.type for each in parts)]),
        )

    def batches(self) -> Iterator[Erasures]:
        """Yield at most BATCH_MAX entries at a time."""
        for start in range(0, len(self), BATCH_MAX):
            part = slice(start, start + BATCH_MAX)
            yield Erasures(
                self.offset[part], self.header_size[part], self.item_size[part], self.type[part]
            )


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


class Overwriter:
    """Overwriting of the entries of one file.

    Between two batches, every entry of the file is either whole or erased.

    Attributes:
        path: the file.
        counts: counts, to which its own are added.
    """

    def __init__(
        self,
        file: LogFile,
        disk: Disk,
        counts: OverwriteCounts,
        hooks: OverwriteHooks,
    ) -> None:
        """Open the file; nothing is written yet.

        Args:
            file: the file; the lock of its environment is held.
            disk: disk to write to.
            counts: counts to add to.
            hooks: functions that are called meanwhile.
        """
        self.path = file.path
        self.counts = counts
        self._size = file.size
        self._disk = disk
        self._hooks = hooks
        self._is_touched = False
        self._done = 0
        self._number = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)

    def __enter__(self) -> Overwriter:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._number)
        self._disk.close()

    def erase(self, batch: Erasures) -> None:
        """Overwrite entries, make that durable, and read it back.

        Raises:
            RefusedError: an entry is not what it was when the log was read, or bytes read back
                differ from those written; nothing more is written then.
            OSError: the system refuses it.
        """
        if not self._is_touched:
            self._touch()
        end = int(batch.offset[-1])
        work, self._done = end - self._done, end
        self._check(batch, batch.type)
        marked = np.flatnonzero(batch.type != ERASED_NO)
        self._fill(batch.offset[marked] + _TYPE_OFFSET, np.ones(len(marked), np.int64), ERASED_NO)
        self._sync(MARK_SHARE * work)
        self._fill(batch.item_offset, batch.item_size, 0)
        self._hooks.on_work(ZERO_SHARE * work)
        self._sync(LAST_SHARE * work)
        self._check(batch, np.full(len(batch), ERASED_NO, np.uint8), is_erased=True)
        self.counts.entry_count += len(batch)
        self.counts.entry_size += int((batch.header_size + batch.item_size).sum())

    def _touch(self) -> None:
        """Write the first byte again, so that a copy made by file times takes the file.

        The time is durable before anything else changes.
        """
        self._write(0, self._read(0, 1))
        self._sync(TOUCH_SHARE * self._size)
        self._is_touched = True

    def _sync(self, work: float) -> None:
        self._disk.sync(self.path)
        self.counts.fsync_count += 1
        self._hooks.on_fsync(self.path, time.time_ns() // 1_000_000)
        self._hooks.on_work(work)

    def _fill(self, starts: Ints, sizes: Ints, value: int) -> None:
        """Set the bytes of some ranges to a value."""
        for rows in _near(starts, sizes):
            first = int(starts[rows][0])
            data = self._read(first, int((starts[rows] + sizes[rows]).max()) - first)
            fill_spans(data, starts[rows] - first, sizes[rows], value)
            self._write(first, data)

    def _check(
        self, batch: Erasures, types: npt.NDArray[np.uint8], *, is_erased: bool = False
    ) -> None:
        """Compare the types and sizes of entries with the file, and erased bytes with zero.

        Raises:
            RefusedError: they differ.
        """
        sizes = batch.header_size + batch.item_size
        for rows in _near(batch.offset, sizes):
            starts = batch.offset[rows]
            first = int(starts[0])
            data = self._read(first, int((starts + sizes[rows]).max()) - first)
            at = starts - first
            item_size = data[at[:, None] + _SIZE_BYTES].copy().view("<u4")[:, 0]
            wrong = (data[at + _TYPE_OFFSET] != types[rows]) | (item_size != batch.item_size[rows])
            if is_erased:
                wrong |= ~are_zero(Spans(data, at + batch.header_size[rows], batch.item_size[rows]))
            if wrong.any():
                place = int(starts[np.flatnonzero(wrong)[0]])
                raise self._changed(place, "the entry is not what it should be")

    def _changed(self, offset: int, what: str) -> RefusedError:
        return RefusedError(
            f"{self.path} at {offset:#x}: {what}. Nothing more was written. Another program writes "
            "to the file, or its disk does not keep what is written: `je-tools verify` tells "
            "whether the log is whole"
        )

    def _read(self, offset: int, size: int) -> Bytes:
        data = np.empty(size, np.uint8)
        done = 0
        while done < size:
            part = os.preadv(self._number, [data.data[done:]], offset + done)
            if not part:
                raise self._changed(offset + done, "the file has become shorter")
            done += part
        self.counts.read_count += 1
        self.counts.read_size += size
        return data

    def _write(self, offset: int, data: Bytes) -> None:
        self._disk.write(self.path, offset, data.data)
        self.counts.write_count += 1
        self.counts.write_size += len(data)


_SIZE_BYTES = np.arange(10, 14)
"""Offsets of the size of the item in a header."""


def _near(starts: Ints, sizes: Ints) -> Iterator[slice]:
    """Yield runs of ranges, ascending, that are near each other and not too long together."""
    if not len(starts):
        return
    gaps = starts[1:] - (starts + sizes)[:-1]
    blocks = (starts - starts[0]) // _WRITE_MAX
    borders = np.flatnonzero((gaps >= _GAP_MAX) | (blocks[1:] != blocks[:-1])) + 1
    for first, stop in pairwise([0, *borders.tolist(), len(starts)]):
        yield slice(first, stop)
