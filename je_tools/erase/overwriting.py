"""Overwriting of entries: first their types, then their bytes, each made durable in turn.

A marked entry has the type Erased, whose checksum is not verified, so its bytes may be changed in
any order. If the types were not durable first, a power cut could leave zeros under an old type:
a wrong checksum in an older file, or the end of the log in the last one.

Source: je-log.md "Data eraser"; DataEraser.eraseEntries, JE 25.3.17.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from je_tools.erase.file_access import (
    TYPE_OFFSET,
    OverwriteCounts,
    OverwriteHooks,
    OverwrittenFile,
    near_runs,
)
from je_tools.erase.throttle import LAST_SHARE, MARK_SHARE, TOUCH_SHARE, ZERO_SHARE
from je_tools.formats.je.types import ERASED_NO
from je_tools.formats.spans import Spans, are_zero, fill_spans

if TYPE_CHECKING:
    from pathlib import Path

    from je_tools.erase.entries_to_erase import EntriesToErase
    from je_tools.log.log_files import LogFile
    from je_tools.writing.disk import Disk


class Overwriter:
    """Overwriting of the entries of one file.

    Between two batches, every entry of the file is either whole or erased.

    Attributes:
        path: the file.
        counts: counts to add to.
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
        self.path: Path = file.path
        self.counts = counts
        self._size = file.size
        self._hooks = hooks
        self._is_touched = False
        self._done = 0
        self._file = OverwrittenFile(file.path, disk, counts, hooks)

    def __enter__(self) -> Overwriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    @property
    def number(self) -> int:
        """Descriptor by which the file is read."""
        return self._file.number

    def erase(self, batch: EntriesToErase) -> None:
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
        self._mark(batch)
        self._file.sync(MARK_SHARE * work)
        self._fill_items(batch)
        self._hooks.on_work(ZERO_SHARE * work)
        self._file.sync(LAST_SHARE * work)
        self._check_erased(batch)
        self.counts.entry_count += len(batch)
        self.counts.entry_size += int(batch.size.sum())

    def _touch(self) -> None:
        """Write the first byte again, so that copies that go by file times include the file.

        The new time is durable before anything else changes.
        """
        self._file.write(0, self._file.read(0, 1))
        self._file.sync(TOUCH_SHARE * self._size)
        self._is_touched = True

    def _mark(self, batch: EntriesToErase) -> None:
        """Change the types of entries to Erased, after checking that they are as expected.

        Types that are Erased already are written again, since after a failed fsync they may be in
        the cache of the system but not on the disk. Only bytes from the first type to the last one
        of a run are written.
        """
        for run in self._file.read_entries(batch, batch.type):
            types = run.at + TYPE_OFFSET
            run.data[types] = ERASED_NO
            for near in near_runs(types, np.ones_like(types)):
                first, last = types[near][[0, -1]].tolist()
                self._file.write(run.first + first, run.data[first : last + 1])

    def _fill_items(self, batch: EntriesToErase) -> None:
        """Set the bytes of entries after their headers to zeros."""
        starts, sizes = batch.item_offset, batch.item_size
        for rows in near_runs(starts, sizes):
            first = int(starts[rows][0])
            data = self._file.read(first, int((starts[rows] + sizes[rows]).max()) - first)
            fill_spans(data, starts[rows] - first, sizes[rows], 0)
            self._file.write(first, data)

    def _check_erased(self, batch: EntriesToErase) -> None:
        """Check that entries have the type Erased, and that their bytes are zeros.

        Raises:
            RefusedError: an entry has another type or other bytes.
        """
        for run in self._file.read_entries(batch, np.full(len(batch), ERASED_NO, np.uint8)):
            starts = run.at + batch.header_size[run.rows]
            wrong = np.flatnonzero(~are_zero(Spans(run.data, starts, batch.item_size[run.rows])))
            if len(wrong):
                place = run.first + int(starts[wrong[0]])
                raise self._file.change_error(place, "bytes that were overwritten are not zero")
