"""One operation that changes a log: it cuts, moves, appends and flips bytes in a crash-safe order.

At every instant a crash leaves a log that the engine opens. Bytes that are taken away are saved in
the undo journal first. Bytes are appended in log order, and a file is durable before the next one
is begun. A new file consists of its header until that is durable, since the engine refuses a longer
file with an incomplete header. Bits are flipped once all bytes appended before are durable.

Source: FileManager.renameFile, LastFileReader, JE 7.5.11.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from je_tools.errors import RefusedError
from je_tools.formats.je.header import FILE_HEADER_SIZE
from je_tools.writing.disk import Disk
from je_tools.writing.file_reads import read_pieces, sum_of
from je_tools.writing.journal_folders import make_folder, removed_path
from je_tools.writing.log_files import LogFiles
from je_tools.writing.operation import Operation
from je_tools.writing.part_sums import PART
from je_tools.writing.pending_writes import PendingWrites
from je_tools.writing.stamps import FileStamp, stamp_files
from je_tools.writing.written_pieces import Flip

if TYPE_CHECKING:
    from je_tools.log.environment import Environment
    from je_tools.writing.lock import EnvironmentLock

PENDING_MAX = 8 << 20
"""Largest number of bytes to hold before they are journaled, which waits for the disk."""


class Session:
    """An operation on a log; nothing is written before the first change.

    Leaving the `with` block without `finish` leaves the log as a crash would at this point: the
    engine opens it, and `je-tools undo` puts back what was there before.

    Attributes:
        environment: the log before the operation.
        appended: number of bytes appended.
    """

    def __init__(
        self,
        environment: Environment,
        operation: str,
        lock: EnvironmentLock | None,
        *,
        stamps: Mapping[Path, FileStamp] | None = None,
        disk: Disk | None = None,
        undo: bool = True,
        takes_away: bool = False,
    ) -> None:
        """Prepare the operation; nothing is written yet.

        Args:
            environment: a whole environment, opened while the lock was held.
            operation: name of the operation in the journal, such as `checkpoint`.
            lock: lock of the environment, held; None for a copy that is not yet at its path.
            stamps: states of the files before they were read; see `stamp_files`.
            disk: disk to write to.
            undo: True to write an undo journal; a copy needs none.
            takes_away: True if it cuts and removes log, not only remains of a crash after its end.
        """
        if lock is not None and not lock.is_held:
            raise ValueError("the lock is not held")
        self.environment = environment
        self.appended = 0
        self._disk = disk or Disk()
        self._files = LogFiles(environment, can_copy=lock is None or lock.can_copy)
        self._writes = PendingWrites(self._files, self._disk)
        self._operation = Operation(
            operation,
            self._files,
            stamp_files(environment) if stamps is None else dict(stamps),
            self._disk,
            undo=undo,
            takes_away=takes_away,
        )
        self._last: int | None = None

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the files, and add the state of the log to an error that does not report it."""
        self._disk.close()
        if error is not None:
            self._operation.add_state(error)

    @property
    def journal_no(self) -> int | None:
        """Number of its undo journal; None if it has none, or has not begun."""
        return self._operation.journal_no

    def check_space(self, size: int) -> None:
        """Make sure that there is enough free space.

        Args:
            size: number of bytes that will be appended or cut off; cut-off bytes go to the journal.

        Raises:
            RefusedError: there is too little.
        """
        if self._operation.wants_journal:
            size += size * 4 // PART
        folder, free = self.least_room()
        if free < size:
            instead = ", or write to a copy elsewhere (--output DIR)" * self._files.can_copy
            raise RefusedError(
                f"{folder}: {free:,} bytes are free, but up to {size:,} are needed; free space"
                f"{instead}"
            )

    def least_room(self) -> tuple[Path, int]:
        """Return the folder of the log on the device with the least free space, and this in bytes.

        Raises:
            RefusedError: the system does not report it.
        """
        return self._files.least_room()

    def check_own(self, file_nos: Iterable[int], moved: Iterable[int] = ()) -> None:
        """Make sure that files to be changed have no other names.

        Args:
            file_nos: numbers of files that are cut, appended to, or in which bits are flipped.
            moved: numbers of files that are taken out of the log.

        Raises:
            RefusedError: one is a link, or is to be changed and has another name, as in a backup
                made of hard links.
        """
        self._files.check_own(file_nos, moved)

    def cut(self, file_no: int, size: int) -> None:
        """Truncate a file durably, and save the bytes after `size` in the journal first.

        Raises:
            RefusedError: the system refuses it, or the log has changed since it was read.
        """
        before = self._files.sizes[file_no]
        if file_no in self._files.grown or not 0 <= size < before:
            raise ValueError(f"file {file_no:#x} cannot be cut from {before} to {size} bytes")
        self.sync()
        path = self._files.paths[file_no]
        with self._operation.changing() as journal:
            if journal is not None:
                for at, data in read_pieces(path, size, before):
                    journal.add("saved", data, file=self._files.name(path), offset=at)
                journal.add("cut", file=self._files.name(path), size=size, before=before)
                journal.sync()
            self._disk.truncate(path, size)
            self._disk.sync(path)
            self._files.sizes[file_no] = size

    def set_aside(self, file_no: int) -> Path:
        """Rename an unusable file as the engine does, to `.bad`, `.bad.1` …; return its new path.

        Raises:
            RefusedError: as `cut`.
        """
        path = self._files.paths[file_no]
        target, count = path.with_suffix(".bad"), 0
        while os.path.lexists(target):
            count += 1
            target = path.with_name(f"{path.stem}.bad.{count}")
        self._move(file_no, target)
        return target

    def remove(self, file_no: int) -> None:
        """Move a whole file from the log to the journal. Remove the newest file first.

        Without a journal the file is deleted.

        Raises:
            RefusedError: as `cut`.
        """
        if not self._operation.takes_away:
            raise ValueError(f"file {file_no:#x} is removed, and nothing is to be taken away")
        path = self._files.paths[file_no]
        if not self._operation.wants_journal:
            self.sync()
            with self._operation.changing():
                self._disk.unlink(path)
                self._disk.sync_folder(path.parent)
                self._files.forget(file_no)
            return
        with self._operation.changing() as journal:
            assert journal is not None
            target = removed_path(path, journal.number)
            make_folder(self._disk, target.parent)
        self._move(file_no, target)

    def append(self, file_no: int, offset: int, data: bytes) -> None:
        """Append bytes to the log. Bytes at offset 0 begin a new file, and hold its whole header.

        They are written later, in order, and are durable after `sync`.

        Raises:
            RefusedError: they cannot be written, or the log has changed since it was read.
        """
        if self._writes.flips or (self._last is not None and self._last != file_no):
            self.sync()
        if offset == 0:
            self._begin_file(file_no, data)
        if offset != self._files.sizes.get(file_no):
            raise ValueError(f"file {file_no:#x} has no end at {offset:#x}")
        self._last = file_no
        self._files.grown.add(file_no)
        self._writes.add(file_no, offset, data)
        self._files.sizes[file_no] += len(data)
        self.appended += len(data)
        if self._writes.size >= PENDING_MAX:
            with self._operation.changing() as journal:
                self._writes.flush(journal)

    def flip_bits(self, file_no: int, offset: int, old: bytes, new: bytes) -> None:
        """Change bytes in place at the next `sync`, after all bytes appended before.

        Args:
            file_no: number of a file that existed before the operation.
            offset: offset of the first byte.
            old, new: bytes before and after, of the same length.
        """
        if len(old) != len(new) or offset + len(old) > self._files.sizes[file_no]:
            raise ValueError(f"{old!r} cannot become {new!r} at {file_no:#x}/{offset:#x}")
        self._writes.flips.append(Flip(self._files.paths[file_no], offset, old, new))

    def sync(self) -> None:
        """Make appended bytes durable, then flip bits and make these durable.

        Raises:
            RefusedError: the system refuses it, or the log has changed since it was read.
        """
        if self._last is None and not self._writes.flips:
            return
        with self._operation.changing() as journal:
            self._writes.flush(journal)
            if self._last is not None:
                self._disk.sync(self._files.paths[self._last])
                self._last = None
            if self._writes.flips:
                self._writes.flip(journal)

    def finish(self) -> None:
        """Make all changes durable, read them back and compare them, and end the journal.

        Raises:
            RefusedError: bytes read back differ from those written, or as `sync`.
        """
        self.sync()
        if not self._operation.is_begun:
            return
        with self._operation.changing() as journal:
            self._disk.close()
            self._writes.check()
            self._operation.finish(journal)

    def _move(self, file_no: int, target: Path) -> None:
        self.sync()
        path = self._files.paths[file_no]
        with self._operation.changing() as journal:
            if journal is not None:
                journal.add(
                    "rename",
                    file=self._files.name(path),
                    target=self._files.name(target),
                    checksum=sum_of(path, self._files.sizes[file_no]),
                )
                journal.sync()
            self._disk.rename(path, target)
            # Sync the target folder first, or a crash may leave the file in neither folder.
            for folder in dict.fromkeys((target.parent, path.parent)):
                self._disk.sync_folder(folder)
            self._files.forget(file_no)

    def _begin_file(self, file_no: int, data: bytes) -> None:
        """Prepare the beginning of a new file. A file that is only a header is cut to 0 bytes."""
        if len(data) < FILE_HEADER_SIZE:
            raise ValueError(f"file {file_no:#x} is begun with less than its header")
        size = self._files.sizes.get(file_no)
        if size is None:
            self._files.begin(file_no)
        elif size > FILE_HEADER_SIZE or file_no in self._files.grown:
            raise ValueError(f"file {file_no:#x} is there already")
        elif size:
            # An engine stopped just after it had begun the file.
            self.cut(file_no, 0)
