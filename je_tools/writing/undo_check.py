"""The check that a log is in a state that an operation, or its undo, can have left.

Every sector that the operation appended must hold its bytes, the bytes from before, or, after a
power cut, zeros. All other bytes must be unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from je_tools.errors import RefusedError
from je_tools.writing.checksums import crc32c
from je_tools.writing.disk import SECTOR
from je_tools.writing.file_checks import log_paths
from je_tools.writing.file_reads import read_at, sum_of
from je_tools.writing.journal_replay import ChangedFile, Replay, files_of
from je_tools.writing.part_sums import PART, part_count, part_sums
from je_tools.writing.refusing import undo_command
from je_tools.writing.stamps import stamp_of

if TYPE_CHECKING:
    from je_tools.writing.journal_reading import RecordedJournal

_PIECE = 1 << 20


class UndoCheck:
    """A comparison of the files of a log with an undo journal."""

    def __init__(
        self,
        home: Path,
        recorded: RecordedJournal,
        replay: Replay,
        before: Mapping[str, tuple[int, int]],
        any_time: bool,
    ) -> None:
        self._home = home
        self._recorded = recorded
        self._replay = replay
        self._before = before
        self._any_time = any_time
        self._is_done = recorded.first("done") is not None
        self._is_begun = recorded.first("undo") is not None

    def run(self) -> None:
        """Check all files.

        Raises:
            RefusedError: a file is in a state that neither the operation nor its undo leaves.
        """
        there = {path.relative_to(self._home).as_posix() for path in log_paths(self._home)}
        done = self._recorded.first("done")
        if done is not None and not self._is_begun:
            self._check_done(there, files_of(done))
        moved = {source for source, _ in self._replay.renamed}
        for source, target in self._replay.renamed:
            self._check_moved(there, source, target)
        for name in there - set(self._before) - self._replay.begun:
            raise self._changed_file(name, "was not there")
        for name, (size, modified_ns) in self._before.items():
            if name in moved:
                continue
            if name not in there:
                raise self._changed_file(name, "was there", "and is gone")
            if name not in self._replay.changed_files:
                is_flipped = any(name == flipped for flipped, *_ in self._replay.flips)
                self._check_same(name, size, None if is_flipped else modified_ns)
        for name, changed in self._replay.changed_files.items():
            if name in there and (name not in moved or self._is_kept(name)):
                self._check_changed(name, changed)
        for name, offset, old, new in self._replay.flips:
            found = read_at(self._home / name, offset, len(old))
            if len(found) < len(old) or any(map(_differ, found, old, new)):
                raise self._refusal(name, f"has other bytes at {offset:#x}")

    def _check_done(self, there: set[str], files: Mapping[str, tuple[int, int]]) -> None:
        """Check that all files are as the finished operation left them."""
        for name in sorted(there ^ set(files)):
            if name in files:
                raise self._changed_file(name, "was there", "and is gone")
            raise self._changed_file(name, "was not there")
        for name, (size, modified_ns) in files.items():
            self._check_same(name, size, modified_ns)

    def _check_same(self, name: str, size: int, modified_ns: int | None) -> None:
        path = self._home / name
        seen = stamp_of(path)
        if seen.size != size:
            raise self._changed_file(name, f"had {size:,} bytes", f"and has {seen.size:,} now")
        if modified_ns is None or seen.modified_ns == modified_ns:
            return
        if not self._is_done and not self._is_begun:
            # Only the time shows flipped bits that the journal does not record.
            raise self._refusal(name, "was written to, or is a copy with another time")
        if not self._any_time:
            raise RefusedError(
                f"{path}: the file was written to since, or is a copy with another time; if you "
                "know that it is a copy, repeat with --any-time"
            )

    def _is_kept(self, name: str) -> bool:
        """Return True if a file of this name was moved and is not back."""
        targets = [target for source, target in self._replay.renamed if source == name]
        return any((self._home / target).exists() for target in targets)

    def _check_moved(self, there: set[str], source: str, target: str) -> None:
        size, modified_ns = self._before[source]
        if (self._home / target).exists():
            self._check_kept(source, target, size)
            if source in there and source not in self._replay.begun:
                raise self._changed_file(source, "was not there")
        elif source not in there or (target in self._replay.certain and not self._is_begun):
            raise RefusedError(
                f"{self._home / target}: the file was moved out of the log, and no longer exists: "
                f"the undo cannot put it back. {self._drop_text()}"
            )
        else:
            self._check_same(source, size, modified_ns)

    def _check_kept(self, source: str, target: str, size: int) -> None:
        """Check that a file taken out of the log has its old bytes; its time does not matter."""
        path = self._home / target
        if stamp_of(path).size == size and sum_of(path, size) == self._replay.sums[target]:
            return
        raise RefusedError(
            f"{path}: the file was moved out of the log, and is damaged: it no longer holds the "
            f"{size:,} bytes that it held then. Nothing was reverted. The file still exists; "
            f"move it by hand to {self._home / source}. "
            f"{self._drop_text()}"
        )

    def _changed_file(self, name: str, before: str, now: str = "") -> RefusedError:
        """Return the error for a file that has changed since the operation began or ended."""
        when = "ended" if self._is_done and not self._is_begun else "began"
        return self._refusal(name, f"{before} when the operation {when}{now and ', '}{now}")

    def _refusal(self, name: str, what: str) -> RefusedError:
        since = "another program has written to the log since, which the undo would destroy"
        if not self._is_done and not self._is_begun:
            since = (
                "another program has written to the log since, which the undo would destroy, or "
                "the journal has lost its end: it has no end of the operation"
            )
        return RefusedError(f"{self._home / name}: {what}; {since}. {self._drop_text()}")

    def _drop_text(self) -> str:
        return drop_text(self._home, self._recorded.number)

    def _check_changed(self, name: str, changed: ChangedFile) -> None:
        """Check that each sector of a changed file is as appended, as before a cut, or zeros."""
        path = self._home / name
        size = path.stat().st_size
        most = max([changed.before, *(p.offset + p.size for p in changed.pieces)])
        if not changed.base <= size <= most:
            most_text = f"{changed.base:,} to {most:,}"
            raise self._refusal(name, f"has {size:,} bytes, but should have {most_text}")
        for start, stop, at in self._spans(changed, size):
            data = read_at(path, start, stop - start)
            piece = None if at is None else changed.pieces[at]
            if piece is not None and crc32c(data) == piece.checksum:
                continue
            if _is_zero(data) or data == self._bytes_before(changed, start, stop):
                continue
            is_appended = self._appended_parts(changed, at, start, data)
            for a in range(start // SECTOR * SECTOR, stop, SECTOR):
                b, a = min(a + SECTOR, stop), max(a, start)
                first = start // PART
                if is_appended[a // PART - first : (b - 1) // PART - first + 1].all():
                    continue
                part = data[a - start : b - start]
                if not (_is_zero(part) or part == self._bytes_before(changed, a, b)):
                    raise self._refusal(name, f"has other bytes at {a:#x}")

    def _spans(self, changed: ChangedFile, size: int) -> Iterator[tuple[int, int, int | None]]:
        """Yield spans of a file up to its size, each with the index of its piece or None."""
        at = changed.base
        for i, piece in enumerate(changed.pieces):
            at = piece.offset + piece.size
            if piece.offset < size:
                yield piece.offset, min(at, size), i
        for start in range(at, size, _PIECE):
            yield start, min(start + _PIECE, size), None

    def _appended_parts(
        self, changed: ChangedFile, at: int | None, start: int, data: bytes
    ) -> npt.NDArray[np.bool_]:
        """Return a mask of the parts of a span that hold the bytes appended there."""
        found = part_sums(start, data)
        if at is None:
            return np.zeros(len(found), np.bool_)
        piece, (frame, first) = changed.pieces[at], changed.sums[at]
        blob = self._recorded.blob(frame, first, first + 4 * part_count(piece.offset, piece.size))
        is_appended: npt.NDArray[np.bool_] = found == np.frombuffer(blob, "<u4")[: len(found)]
        stop = start + len(data)
        if stop < piece.offset + piece.size and stop % PART:
            # The write stopped inside this part, so there is no sum for its bytes.
            is_appended[-1] = True
        return is_appended

    def _bytes_before(self, changed: ChangedFile, start: int, stop: int) -> bytes | None:
        """Return the bytes cut off from a span; None if not all of it was cut off."""
        parts = []
        for frame in changed.saved:
            first = frame.head["offset"]
            a, b = max(start, first), min(stop, first + frame.blob_size)
            if a < b:
                parts.append(self._recorded.blob(frame, a - first, b - first))
        found = b"".join(parts)
        return found if len(found) == stop - start else None


def _differ(found: int, old: int, new: int) -> bool:
    """Return True if a byte is neither old nor new; a crash may leave only some bytes flipped."""
    return found not in (old, new)


def _is_zero(data: bytes) -> bool:
    return data.count(0) == len(data)


def drop_text(home: Path, number: int) -> str:
    """Return a sentence on the command that removes a journal, for messages."""
    command = undo_command(home, f" --drop {number}")
    return f"{command} removes the journal and all bytes that it keeps"
