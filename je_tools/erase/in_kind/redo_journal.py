"""Redo journals: the places to overwrite in one log file, without the bytes in them.

A journal is a file `redo` in the folder `.je-tools-erase`, made of frames (`writing/frames.py`):
`begin` names the log file, each `blanks` has entries as zlib-compressed bytes (`Blanks.encode`),
and `end` counts them. While it is written it is called `redo.new`. It is renamed once it is
durable, before the log file is changed. So if there is a `redo.new`, which may be torn, nothing was
changed. A `redo` is complete unless it was damaged later.

Unlike an undo journal it holds no bytes of the log: offsets, sizes, types and new checksums.
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from msgspec import Struct

from je_tools import __version__
from je_tools.erase.in_kind.blanks import Blanks
from je_tools.errors import RefusedError
from je_tools.writing.frames import (
    JournalError,
    Kinds,
    RawFrame,
    check_fields,
    encode_frame,
    is_log_name,
    is_number,
    is_text,
    read_frame,
)
from je_tools.writing.journal_folders import real_folder
from je_tools.writing.lock import check_new_files
from je_tools.writing.redo_folder import BEGUN, FILE_NAME, FOLDER

if TYPE_CHECKING:
    from je_tools.log.log_files import LogFile
    from je_tools.writing.disk import Disk

_MAGIC = b"JER1"
_VERSION = 1
_RAW_MAX = 32 << 20
"""Largest number of bytes of a frame when it is not compressed."""

_KINDS: Kinds = {
    "begin": {
        "version": is_number,
        "tool": is_text,
        "time_ms": is_number,
        "file": is_log_name,
        "file_size": is_number,
        "log_version": is_number,
    },
    "blanks": {"entry_count": is_number, "raw_size": is_number},
    "end": {"entry_count": is_number},
}


class RedoJournal:
    """A redo journal that is being written."""

    def __init__(self, home: Path, file: LogFile, disk: Disk) -> None:
        """Begin a journal, in place of a torn one if there is one.

        Args:
            home: home of the environment, whose lock is held.
            file: the file whose entries will be overwritten.
            disk: disk to write to.

        Raises:
            RefusedError: a new file would have another owner than the log file.
            OSError: it cannot be created.
        """
        self._path = _redo_path(home)
        self._begun = self._path.with_name(BEGUN)
        self._home = home
        self._disk = disk
        self._at = self._entry_count = 0
        like = file.path.stat()
        check_new_files(home, like)
        remove_unfinished_redo(home, disk)
        if not self._path.parent.is_dir():
            disk.mkdir(self._path.parent, home.stat())
        disk.sync_folder(home)
        disk.create(self._begun, like)
        self._write(
            record="begin",
            version=_VERSION,
            tool=__version__,
            time_ms=time.time_ns() // 1_000_000,
            file=file.path.relative_to(home).as_posix(),
            file_size=file.size,
            log_version=file.version,
        )

    def add(self, blanks: Blanks) -> None:
        """Add entries, in the order of their offsets."""
        raw = blanks.encode()
        self._entry_count += len(blanks)
        blob = zlib.compress(raw, 1)
        self._write(blob, record="blanks", entry_count=len(blanks), raw_size=len(raw))

    def finish(self) -> None:
        """End the journal, and make it durable: the log file may be changed afterwards."""
        self._write(record="end", entry_count=self._entry_count)
        self._disk.sync(self._begun)
        self._disk.rename(self._begun, self._path)
        self._disk.sync_folder(self._path.parent)

    def discard(self) -> None:
        """Remove the journal if it has not been finished; the log file must be unchanged."""
        with suppress(OSError):
            remove_unfinished_redo(self._home, self._disk)

    def _write(self, blob: bytes = b"", **head: object) -> None:
        frame = encode_frame(head, blob, _MAGIC)
        self._disk.write(self._begun, self._at, frame)
        self._at += len(frame)


class RecordedRedo(Struct, frozen=True):
    """A complete redo journal.

    Attributes:
        path: the journal.
        log_path: the log file whose entries are overwritten.
        file_size: size of the log file.
        log_version: log version of the log file.
        entry_count: number of entries.
    """

    path: Path
    log_path: Path
    file_size: int
    log_version: int
    entry_count: int

    def batches(self) -> Iterator[Blanks]:
        """Yield the entries in batches, in the order of the file.

        Raises:
            RefusedError: the journal is damaged.
        """
        end = 0
        with self.path.open("rb") as file:
            try:
                for frame in _frames(file):
                    if frame.head["record"] == "blanks":
                        blanks = _decoded(frame)
                        if int(blanks.entries.offset[0]) < end:
                            raise JournalError("entries that are not in order")
                        end = int((blanks.entries.offset + blanks.entries.size)[-1])
                        if end > self.file_size:
                            raise JournalError("entries after the end of the file")
                        yield blanks
            except JournalError as error:
                raise _damaged(self.path, error) from error


def read_redo(home: Path, *, is_own: bool = False) -> RecordedRedo | None:
    """Return the redo journal of an environment, after checking all of it; None if it has none.

    A torn journal counts as none: nothing of the log was changed.

    Args:
        home: home of the environment.
        is_own: True if this process has just written it, so that only checksums are checked.

    Raises:
        RefusedError: it is damaged, or written by a later je-tools.
        OSError: it cannot be read.
    """
    path = _redo_path(home)
    if not os.path.lexists(path):
        return None
    if path.is_symlink() or not path.is_file():
        raise RefusedError(f"{path}: expected a redo journal, found something that is no file")
    with path.open("rb") as file:
        try:
            heads = [frame.head for frame in _frames(file)]
        except JournalError as error:
            raise _damaged(path, error) from error
    counted = sum(head["entry_count"] for head in heads[1:-1])
    records = [head["record"] for head in heads]
    middle = set(records[1:-1])
    is_whole = len(records) > 1 and (records[0], records[-1]) == ("begin", "end")
    if not is_whole or middle - {"blanks"} or heads[-1]["entry_count"] != counted:
        raise _damaged(path, "frames are missing")
    begin = heads[0]
    log_path = home / begin["file"]
    found = RecordedRedo(path, log_path, begin["file_size"], begin["log_version"], counted)
    for _ in () if is_own else found.batches():
        pass
    return found


def remove_redo(home: Path, disk: Disk) -> None:
    """Remove the journal of a log file whose entries are durably overwritten, and an empty folder.

    Raises:
        OSError: it cannot be removed.
    """
    path = _redo_path(home)
    disk.unlink(path)
    disk.sync_folder(path.parent)
    remove_unfinished_redo(home, disk)


def remove_unfinished_redo(home: Path, disk: Disk) -> None:
    """Remove a journal that was never finished, and the folder if nothing else lies in it.

    Raises:
        OSError: it cannot be removed.
    """
    begun = _redo_path(home).with_name(BEGUN)
    folder = begun.parent
    if not folder.is_dir():
        return
    if os.path.lexists(begun):
        disk.unlink(begun)
        disk.sync_folder(folder)
    # The control files of an erasure may lie there too.
    if not any(folder.iterdir()):
        disk.rmdir(folder)
        disk.sync_folder(home)


def _redo_path(home: Path) -> Path:
    """Return the path of the redo journal of an environment.

    Raises:
        RefusedError: its folder is something else.
    """
    return real_folder(home / FOLDER, "a redo journal") / FILE_NAME


def _frames(file: BinaryIO) -> Iterator[RawFrame]:
    """Yield all frames of a journal.

    Raises:
        JournalError: a frame is incomplete, or has fields that are never written.
    """
    total = os.fstat(file.fileno()).st_size
    at = 0
    while at < total:
        frame = read_frame(file, at, total, _MAGIC)
        if frame is None:
            raise JournalError(f"the frame at byte {at:,} of {total:,} is not complete")
        check_fields(frame.head, _KINDS, _VERSION)
        yield frame
        at = frame.blob_at + len(frame.blob)


def _decoded(frame: RawFrame) -> Blanks:
    """Return the entries of a frame.

    Raises:
        JournalError: the frame is damaged.
    """
    raw_size = frame.head["raw_size"]
    if raw_size > _RAW_MAX:
        raise JournalError(f"a frame of {raw_size:,} bytes")
    unpacking = zlib.decompressobj()
    try:
        # One byte more shows that there are too many; 0 would mean no limit.
        raw = unpacking.decompress(frame.blob, raw_size + 1)
        if len(raw) != raw_size or not unpacking.eof:
            raise JournalError("a frame of another size")
        return Blanks.decode(raw, frame.head["entry_count"])
    except JournalError:
        raise
    except (zlib.error, ValueError) as error:
        raise JournalError(str(error)) from error


def _damaged(path: Path, what: object) -> RefusedError:
    return RefusedError(
        f"{path}: the redo journal cannot be used: {what}. An erasure was interrupted, and cannot "
        "be completed in one log file: `je-tools verify` shows the entries with wrong checksums. "
        "Restore that file from a backup, or move the journal away if no checksum is wrong"
    )
