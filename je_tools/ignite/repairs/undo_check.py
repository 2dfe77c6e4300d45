"""The check that a store is in a state that an operation, or its undo, can have left."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from je_tools.errors import RefusedError
from je_tools.writing.file_reads import read_at, sum_of
from je_tools.writing.frames import BLOB_MAX

if TYPE_CHECKING:
    from je_tools.ignite.repairs.node_files import NodeFiles
    from je_tools.ignite.repairs.recorded_edits import RecordedEdits, WrittenSpan
    from je_tools.writing.journal_reading import RecordedJournal


class StoreUndoCheck:
    """A comparison of the files of a node with the journal of an operation."""

    def __init__(
        self, files: NodeFiles, recorded: RecordedJournal, edits: RecordedEdits, any_time: bool
    ) -> None:
        self._files = files
        self._recorded = recorded
        self._edits = edits
        self._any_time = any_time
        self._is_done = edits.after is not None and not edits.is_undo_begun

    def run(self) -> None:
        """Check all files.

        Raises:
            RefusedError: a file is in a state that neither the operation nor its undo leaves.
        """
        now = {name: (size, at) for name, size, at in self._files.listed()}
        if self._edits.after is not None and self._is_done:
            self._check_same(now, self._edits.after)
            for _, target, checksum in self._edits.renamed:
                self._check_kept(target, checksum)
            return
        moved = {name: (target, checksum) for name, target, checksum in self._edits.renamed}
        changed = {each.name for each in self._edits.written}
        known = {name for name in self._edits.before if name not in {*moved, *changed}}
        same = {name: self._edits.before[name] for name in known}
        others = now.keys() - moved.keys() - changed - self._edits.created.keys()
        self._check_same({name: now[name] for name in others}, same)
        for name, (target, checksum) in moved.items():
            self._check_moved(now, name, target, checksum)
        for name, size in self._edits.created.items():
            is_original = name in moved and not self._files.path(moved[name][0]).exists()
            if name in now and not is_original and now[name][0] > size:
                raise self._refusal(name, f"has {now[name][0]:,} bytes, but should have {size:,}")
        for name in sorted(changed):
            self._check_size(now, name)
        for each in self._edits.written:
            self._check_written(each)

    def _check_same(
        self, now: Mapping[str, tuple[int, int]], files: Mapping[str, tuple[int, int]]
    ) -> None:
        for name in sorted(now.keys() ^ files.keys()):
            raise self._refusal(
                name, "was there, and is gone" if name in files else "was not there"
            )
        for name, (size, modified_ns) in files.items():
            if now[name][0] != size:
                raise self._refusal(name, f"had {size:,} bytes, and has {now[name][0]:,} now")
            if now[name][1] != modified_ns and not self._any_time:
                raise RefusedError(
                    f"{self._files.path(name)}: the file was written to since, or is a copy with "
                    "another time; if you know that it is a copy, repeat with --any-time"
                )

    def _check_moved(
        self, now: Mapping[str, tuple[int, int]], name: str, target: str, checksum: int
    ) -> None:
        if self._files.path(target).exists():
            self._check_kept(target, checksum)
            if name in now and name not in self._edits.created:
                raise self._refusal(name, "was not there")
        elif name not in now or now[name][0] != self._edits.before[name][0]:
            raise self._refusal(name, "was set aside, and is gone")

    def _check_kept(self, target: str, checksum: int) -> None:
        """Check that a file that was set aside has its old bytes."""
        path = self._files.path(target)
        if not path.is_file() or sum_of(path, path.stat().st_size) != checksum:
            raise RefusedError(
                f"{path}: the file was set aside, and is gone or has other bytes now: the undo "
                "cannot put it back. Nothing was changed"
            )

    def _check_size(self, now: Mapping[str, tuple[int, int]], name: str) -> None:
        least, most = self._edits.before[name][0], self._edits.size_after(name)
        if name not in now or not least <= now[name][0] <= most:
            found = f"has {now[name][0]:,} bytes" if name in now else "is gone"
            raise self._refusal(name, f"{found}, but should have {least:,} to {most:,} bytes")

    def _check_written(self, written: WrittenSpan) -> None:
        """Check that each byte of a span is old or new; after the old end, it may also be zero."""
        path, before = self._files.path(written.name), self._edits.before[written.name][0]
        for start in range(written.offset, written.offset + written.size, BLOB_MAX):
            stop = min(start + BLOB_MAX, written.offset + written.size)
            found = np.frombuffer(read_at(path, start, stop - start), np.uint8)
            is_right = found == self._new(written, start, len(found))
            kept = min(max(before - start, 0), len(found))
            is_right[:kept] |= found[:kept] == self._old(written.name, start, kept)
            is_right[kept:] |= found[kept:] == 0
            if not is_right.all():
                at = start + int(np.argmin(is_right))
                raise self._refusal(written.name, f"has other bytes at {at:#x}")

    def _new(self, written: WrittenSpan, start: int, size: int) -> npt.NDArray[np.uint8]:
        if written.frame is None:
            return np.zeros(size, np.uint8)
        first = start - written.offset
        return np.frombuffer(self._recorded.blob(written.frame, first, first + size), np.uint8)

    def _old(self, name: str, start: int, size: int) -> npt.NDArray[np.uint8]:
        old = np.zeros(size, np.uint8)
        for frame in self._edits.saved.get(name, ()):
            first = frame.head["offset"]
            a, b = max(start, first), min(start + size, first + frame.blob_size)
            if a < b:
                data = self._recorded.blob(frame, a - first, b - first)
                old[a - start : b - start] = np.frombuffer(data, np.uint8)
        return old

    def _refusal(self, name: str, what: str) -> RefusedError:
        number = self._recorded.number
        return RefusedError(
            f"{self._files.path(name)}: {what}; a node or another program has written to the store "
            f"since, which the undo would destroy. `{self._files.undo_words()} --drop {number} "
            "--apply` removes the journal and all bytes that it keeps"
        )
