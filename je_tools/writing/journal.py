"""Undo journals: records of the bytes that a command has cut off, moved, appended and flipped.

A journal is a folder in the environment whose name the engine ignores: `.je-tools-undo/000001`. Its
file `journal` is a list of frames, each a JSON object and bytes. Files that were taken out of the
log lie beside it, or in a folder of the same name in the data directory that they come from. So a
journal holds a copy of data of the log.

| offset | size | field of a frame |
|---|---|---|
| 0 | 4 | `JEU1` |
| 4 | 4 | CRC-32C of all that follows, little endian |
| 8 | 4 | size of the JSON object |
| 12 | 4 | size of the bytes |
| 16 | | the object, then the bytes |

A frame is durable before the step that it records begins. Its object states how many bytes of the
journal were durable when it was written (`sure`). The folder gets its final name once the first
frame is durable. So a power cut can only tear frames after the last `sure` byte, and leaves each of
their sectors as written, as zeros, or missing. Any other incomplete frame is damage.
"""

from __future__ import annotations

import json
import os
import re
import struct
from contextlib import suppress
from pathlib import Path
from stat import S_ISREG
from typing import Any, BinaryIO

from crc32c import crc32c
from msgspec import Struct

from je_tools.core.escaping import counted
from je_tools.errors import RefusedError
from je_tools.log.file_names import is_data_directory_name
from je_tools.writing.disk import SECTOR, Disk
from je_tools.writing.frames import (
    FOLDER,
    REMOVED,
    VERSION,
    Frame,
    JournalError,
    NewerJournalError,
    check_frame,
)

FILE_NAME = "journal"

BLOB_MAX = 16 << 20
"""Largest number of bytes in a frame, which a reader holds in memory."""

_HEAD = struct.Struct("<4sIII")
_MAGIC = b"JEU1"
_BEGUN = ".new"
_DROPPED = ".dropped"
_NAME = re.compile(r"([0-9]{6,})(\.new|\.dropped)?")
_PIECE = 1 << 20


class Journal:
    """A journal that is being written.

    Attributes:
        home: home of the environment.
        number: number of the journal, from 1.
        folder: folder of the journal.
    """

    def __init__(self, home: Path, number: int, disk: Disk, size: int = 0) -> None:
        self.home = home
        self.number = number
        self.folder = journal_folder(home, number)
        self._disk = disk
        self._size = size
        self._sure = 0

    @classmethod
    def create(cls, home: Path, disk: Disk, like: os.stat_result, **fields: Any) -> Journal:
        """Create a journal; its first frame is durable on return.

        Args:
            home: home of the environment.
            disk: disk to write to.
            like: a log file, whose owner, group and mode the journal gets.
            fields: fields of the first frame.

        Raises:
            OSError: it cannot be created; nothing is left of it.
            RefusedError: as `journal_numbers`.
        """
        clear_begun(home, disk)
        journal = cls(home, max((0, *_taken(home))) + 1, disk)
        folder = journal.folder
        journal.folder = folder.with_name(folder.name + _BEGUN)
        try:
            make_folder(disk, journal.folder)
            disk.create(journal.folder / FILE_NAME, like)
            journal.add("begin", version=VERSION, **fields)
            journal.sync()
            disk.sync_folder(journal.folder)
            disk.rename(journal.folder, folder)
            disk.sync_folder(folder.parent)
        except (OSError, KeyboardInterrupt, SystemExit):
            with suppress(OSError):
                if folder.is_dir():
                    disk.rename(folder, journal.folder)
                clear_begun(home, disk)
            raise
        journal.folder = folder
        return journal

    def add(self, record: str, blob: bytes = b"", **fields: Any) -> None:
        """Write a frame; it is durable after `sync`."""
        head = json.dumps({"record": record, "sure": self._sure, **fields}).encode()
        rest = struct.pack("<II", len(head), len(blob)) + head + blob
        frame = _MAGIC + struct.pack("<I", crc32c(rest)) + rest
        self._disk.write(self.folder / FILE_NAME, self._size, frame)
        self._size += len(frame)

    def sync(self) -> None:
        """Make all frames durable."""
        self._disk.sync(self.folder / FILE_NAME)
        self._sure = self._size


def make_folder(disk: Disk, folder: Path) -> None:
    """Create the folder of a journal, and the one around it, if they do not exist."""
    like = folder.parent.parent.stat()
    for each in (folder.parent, folder):
        if not each.is_dir():
            disk.mkdir(each, like)
        disk.sync_folder(each.parent)


def clear_begun(home: Path, disk: Disk) -> None:
    """Remove journals whose creation was interrupted, before any change of the log.

    Raises:
        OSError: one cannot be removed.
        RefusedError: as `journal_numbers`.
    """
    outer = home / FOLDER
    for name in _listed(home):
        if name.endswith(_BEGUN):
            remove_folder(outer / name, disk)
    if outer.is_dir() and not _names(outer):
        disk.rmdir(outer)
        disk.sync_folder(home)


def remove_folder(folder: Path, disk: Disk) -> None:
    """Remove the folder of a journal and its files; if it has subfolders, these and it stay.

    Raises:
        OSError: it cannot be removed.
    """
    if folder.is_symlink() or not folder.is_dir():
        return
    for path in sorted(folder.iterdir()):
        if path.is_symlink() or not path.is_dir():
            disk.unlink(path)
    if not _names(folder):
        disk.rmdir(folder)
    disk.sync_folder(folder.parent)


def log_folders(home: Path) -> list[Path]:
    """Return the home of an environment and its data directories."""
    below = (path for path in home.iterdir() if is_data_directory_name(path.name))
    return [home, *sorted(path for path in below if path.is_dir())]


def journal_folder(home: Path, number: int) -> Path:
    """Return the folder of a journal; in a data directory, that of the files taken from there."""
    return home / FOLDER / f"{number:06d}"


def journal_numbers(home: Path) -> list[int]:
    """Return the numbers of the journals of an environment, in order.

    They include lost journals, of which only files in data directories are left.

    Raises:
        RefusedError: something that is no folder has the name of a journal, as a symbolic link.
    """
    names = _listed(home)
    found = {number for name, number in names.items() if name.isdecimal()}
    dropped = {number for name, number in names.items() if name.endswith(_DROPPED)}
    for folder in log_folders(home)[1:]:
        for name, number in _listed(folder).items():
            if name.isdecimal() and number not in dropped and _names(folder / FOLDER / name):
                found.add(number)
    return sorted(found)


def _taken(home: Path) -> list[int]:
    """Return the numbers that no new journal may have, since files may still lie under them."""
    return [number for folder in log_folders(home) for number in _listed(folder).values()]


def check_folders(home: Path) -> None:
    """Make sure that everything with the name of a journal's folder is a folder.

    Raises:
        RefusedError: as `journal_numbers`.
    """
    for folder in log_folders(home):
        _listed(folder)


def dropped_numbers(home: Path) -> list[int]:
    """Return the numbers of journals whose removal has begun.

    Raises:
        RefusedError: as `journal_numbers`.
    """
    return [number for name, number in _listed(home).items() if name.endswith(_DROPPED)]


def dropped_folder(home: Path, number: int) -> Path:
    """Return the name of a journal's folder during its removal."""
    return home / FOLDER / f"{number:06d}{_DROPPED}"


def _names(folder: Path) -> list[str]:
    try:
        return sorted(path.name for path in folder.iterdir())
    except FileNotFoundError:
        return []


def _listed(home: Path) -> dict[str, int]:
    """Return the folders of journals in a home or data directory, numbers by name.

    Raises:
        RefusedError: one is no folder, so that changes in it would happen elsewhere.
    """
    outer = home / FOLDER
    found = {}
    for name in _names(_real_folder(outer)):
        match = _NAME.fullmatch(name)
        # Accept a number only in the form that `journal_folder` gives it.
        if match is not None and match[1] == f"{int(match[1]):06d}":
            _real_folder(outer / name)
            found[name] = int(match[1])
    return found


def _real_folder(path: Path) -> Path:
    """Return a path after checking that it is a folder or does not exist.

    Raises:
        RefusedError: it is something else.
    """
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        what = "a symbolic link" if path.is_symlink() else "no folder"
        raise RefusedError(
            f"{path}: {what}, and undo journals are in folders of their own; move it away, or "
            "put the folder there that it stands for"
        )
    return path


def kept_path(path: Path, number: int) -> Path:
    """Return the path to which a log file is moved when it is taken out of the log.

    It is in the same file system, so a rename copies nothing.
    """
    return journal_folder(path.parent, number) / f"{path.name}{REMOVED}"


def place_of(kept: Path) -> Path:
    """Return the original path of a file at `kept_path`."""
    return kept.parent.parent.parent / kept.name.removesuffix(REMOVED)


def kept_files(home: Path, number: int) -> list[Path]:
    """Return the files beside a journal: those that were taken out of the log."""
    return [
        folder / name
        for folder in (journal_folder(each, number) for each in log_folders(home))
        for name in _names(folder)
        if folder / name != journal_folder(home, number) / FILE_NAME
    ]


class Recorded(Struct, frozen=True):
    """A journal that was read.

    Attributes:
        home: home of the environment.
        number: number of the journal.
        frames: frames in order, up to the first incomplete one; without damage, the first is
            `begin`.
        size: number of bytes of `frames`.
        damage: description of the damage; None if the journal is complete or torn by a crash.
        is_newer: True if the journal is only unreadable because a later je-tools wrote it.
        later: complete frames after the damage.
        file_size: size of the journal file.
    """

    home: Path
    number: int
    frames: tuple[Frame, ...]
    size: int
    damage: str | None = None
    later: tuple[Frame, ...] = ()
    file_size: int = 0
    is_newer: bool = False

    @property
    def folder(self) -> Path:
        """Folder of the journal."""
        return journal_folder(self.home, self.number)

    def first(self, record: str) -> Frame | None:
        """Return the first frame of a kind; None for none."""
        return next((frame for frame in self.frames if frame.record == record), None)

    def blob(self, frame: Frame, start: int = 0, stop: int | None = None) -> bytes:
        """Read bytes [start, stop) of a frame; all of them by default.

        Raises:
            OSError: they cannot be read.
        """
        stop = frame.blob_size if stop is None else stop
        with (self.folder / FILE_NAME).open("rb") as file:
            file.seek(frame.blob_at + start)
            return file.read(stop - start)


def read_journal(home: Path, number: int) -> Recorded:
    """Read a journal up to the first incomplete frame, and check every checksum.

    Raises:
        OSError: it cannot be read.
    """
    path = journal_folder(home, number) / FILE_NAME
    try:
        # Neither wait for a pipe nor follow a link to another file.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return Recorded(home, number, (), 0, f"there is no file {FILE_NAME} in it")
    except OSError as error:
        if not path.is_symlink() and path.is_file():
            raise OSError(error.errno, error.strerror, str(path)) from error
        return Recorded(home, number, (), 0, _NO_FILE)
    if not S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return Recorded(home, number, (), 0, _NO_FILE)
    with os.fdopen(descriptor, "rb") as file:
        return _read(home, number, file)


_NO_FILE = f"{FILE_NAME} is no regular file"


def _read(home: Path, number: int, file: BinaryIO) -> Recorded:
    total = os.fstat(file.fileno()).st_size
    frames: list[Frame] = []
    size = 0
    try:
        while (frame := _frame_at(file, size, total, number)) is not None:
            frames.append(frame)
            size = frame.blob_at + frame.blob_size
        is_begun = bool(frames) and frames[0].record == "begin"
        if is_begun and size == total:
            return Recorded(home, number, tuple(frames), size)
        later = _frames_behind(file, size, total, number)
    except NewerJournalError as error:
        return Recorded(home, number, (), 0, str(error), file_size=total, is_newer=True)
    except JournalError as error:
        text = f"what begins at byte {size:,} of {total:,} is not what is written: {error}"
        return Recorded(home, number, tuple(frames), size, text, file_size=total)
    damage: str | None = None
    if not is_begun or any(frame.head["sure"] > size for frame in later):
        damage = f"what begins at byte {size:,} of {total:,} cannot be read"
    elif not _may_be_torn(file, size, total):
        damage = f"what begins at byte {size:,} of {total:,} is not what was written"
    if damage is not None and later:
        damage += f", and {counted(len(later), 'step')} behind it can"
    return Recorded(home, number, tuple(frames), size, damage, later, total)


def _frame_at(file: BinaryIO, at: int, total: int, number: int) -> Frame | None:
    """Read the frame at an offset; return None if there is no complete one.

    Raises:
        JournalError: it is complete, but no operation writes such a frame.
    """
    file.seek(at)
    head = file.read(_HEAD.size)
    if len(head) < _HEAD.size:
        return None
    magic, checksum, head_size, blob_size = _HEAD.unpack(head)
    # A torn frame may state any size: do not read past the end.
    is_within = at + _HEAD.size + head_size + blob_size <= total
    if magic != _MAGIC or blob_size > BLOB_MAX + (1 << 20) or not is_within:
        return None
    rest = file.read(head_size + blob_size)
    if len(rest) < head_size + blob_size or crc32c(rest, crc32c(head[8:])) != checksum:
        return None
    try:
        fields = json.loads(rest[:head_size])
    except (ValueError, RecursionError) as error:
        raise JournalError("a frame that is no JSON") from error
    check_frame(fields, blob_size, number)
    blob_sum = crc32c(memoryview(rest)[head_size:])
    return Frame(fields, at + _HEAD.size + head_size, blob_size, blob_sum)


def _frames_behind(file: BinaryIO, start: int, total: int, number: int) -> tuple[Frame, ...]:
    """Find complete frames anywhere after an offset.

    Raises:
        JournalError: as `_frame_at`.
    """
    found = []
    at = start
    while at < total:
        file.seek(at)
        place = file.read(_PIECE).find(_MAGIC)
        if place < 0:
            at += _PIECE - len(_MAGIC) + 1
            continue
        frame = _frame_at(file, at + place, total, number)
        if frame is None:
            at += place + 1
        else:
            found.append(frame)
            at = frame.blob_at + frame.blob_size
    return tuple(found)


def _may_be_torn(file: BinaryIO, start: int, total: int) -> bool:
    """Return True if a crash can have left the bytes at an offset as the rest of a frame.

    Then the end of the frame is missing, or one of its sectors is zeros.
    """
    bound = start - start % SECTOR + SECTOR
    file.seek(start)
    head = file.read(_HEAD.size)
    first, second = head[: bound - start], head[bound - start :]
    if not any(first):
        return True
    if not first.startswith(_MAGIC[: len(first)]):
        return False
    if len(head) < _HEAD.size or (second and not any(second)):
        return True
    stop = start + _HEAD.size + sum(_HEAD.unpack(head)[2:])
    if stop > total:
        return True
    for at in (start, *range(bound, stop, SECTOR)):
        file.seek(at)
        if not any(file.read(min(SECTOR - at % SECTOR, stop - at))):
            return True
    return False
