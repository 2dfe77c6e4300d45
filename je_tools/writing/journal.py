"""Undo journals: what a command that writes has cut off, moved, appended and flipped.

A journal is a folder in the environment whose name the engine passes over:
`.je-tools-undo/000001`. In it `journal` is a list of frames, each a JSON object and bytes, and
files that were taken out of the log lie beside it, or in a folder of the same name in the data
directory that they come from. So a journal holds data of the log: it is a copy of it.

| offset | size | field of a frame |
|---|---|---|
| 0 | 4 | `JEU1` |
| 4 | 4 | CRC-32C of all that follows, little endian |
| 8 | 4 | size of the JSON object |
| 12 | 4 | size of the bytes |
| 16 | | the object, then the bytes |

A frame is where it stays before the step that it tells of is begun; the object says how much of the
journal was where it stays when it was written (`sure`). The folder gets its name when the first
frame is where it stays. So a power cut can only tear frames behind all that another one is sure of,
and of those it leaves each sector as it was written, or zeros, or nothing. Anything else that is
not whole is damage.
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

from je_tools.environment import is_data_directory_name
from je_tools.errors import RefusedError
from je_tools.plain import counted
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
"""Most bytes of a frame, that a reader holds at once."""

_HEAD = struct.Struct("<4sIII")
_MAGIC = b"JEU1"
_BEGUN = ".new"
_DROPPED = ".dropped"
_NAME = re.compile(r"([0-9]{6,})(\.new|\.dropped)?")
_PIECE = 1 << 20


class Journal:
    """A journal that is added to.

    Attributes:
        home: of the environment.
        number: of the journal, from 1 on.
        folder: where it is.
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
        """Make a journal; its first frame is where it stays when this comes back.

        Args:
            home: of the environment.
            disk: that is written to.
            like: a log file, whose owner, group and mode it gets.
            fields: of the first frame.

        Raises:
            OSError: it cannot be made; nothing is left of it.
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
        """Write a frame; it is where it stays after `sync`."""
        head = json.dumps({"record": record, "sure": self._sure, **fields}).encode()
        rest = struct.pack("<II", len(head), len(blob)) + head + blob
        frame = _MAGIC + struct.pack("<I", crc32c(rest)) + rest
        self._disk.write(self.folder / FILE_NAME, self._size, frame)
        self._size += len(frame)

    def sync(self) -> None:
        """Bring all frames to where they stay."""
        self._disk.sync(self.folder / FILE_NAME)
        self._sure = self._size


def make_folder(disk: Disk, folder: Path) -> None:
    """Make a journal's folder, and the one around it, where they are not there yet."""
    like = folder.parent.parent.stat()
    for each in (folder.parent, folder):
        if not each.is_dir():
            disk.mkdir(each, like)
        disk.sync_folder(each.parent)


def clear_begun(home: Path, disk: Disk) -> None:
    """Remove journals that were not begun when their making was stopped; nothing was changed.

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
    """Remove a folder of a journal and the files in it; what else is there stays, with it.

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
    """The home of an environment, and its data directories."""
    below = (path for path in home.iterdir() if is_data_directory_name(path.name))
    return [home, *sorted(path for path in below if path.is_dir())]


def journal_folder(home: Path, number: int) -> Path:
    """Where a journal lies, or what it keeps of a data directory."""
    return home / FOLDER / f"{number:06d}"


def journal_numbers(home: Path) -> list[int]:
    """Numbers of the journals of an environment, in order.

    Also of one of which there is only what it keeps in a data directory: it has been lost.

    Raises:
        RefusedError: something else has the name of one of its folders, as a symbolic link.
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
    """Numbers that no new journal may have: somebody's files may still lie under them."""
    return [number for folder in log_folders(home) for number in _listed(folder).values()]


def check_folders(home: Path) -> None:
    """Make sure that what has the name of a journal's folder is one.

    Raises:
        RefusedError: as `journal_numbers`.
    """
    for folder in log_folders(home):
        _listed(folder)


def dropped_numbers(home: Path) -> list[int]:
    """Numbers of journals whose removal was begun.

    Raises:
        RefusedError: as `journal_numbers`.
    """
    return [number for name, number in _listed(home).items() if name.endswith(_DROPPED)]


def dropped_folder(home: Path, number: int) -> Path:
    """What a journal's folder is called while it is removed."""
    return home / FOLDER / f"{number:06d}{_DROPPED}"


def _names(folder: Path) -> list[str]:
    try:
        return sorted(path.name for path in folder.iterdir())
    except FileNotFoundError:
        return []


def _listed(home: Path) -> dict[str, int]:
    """Folders of journals in a home or data directory: their names, and numbers.

    Raises:
        RefusedError: one is no folder: what is done with it would be done elsewhere.
    """
    outer = home / FOLDER
    found = {}
    for name in _names(_real_folder(outer)):
        match = _NAME.fullmatch(name)
        # Of several spellings of a number only one is ours.
        if match is not None and match[1] == f"{int(match[1]):06d}":
            _real_folder(outer / name)
            found[name] = int(match[1])
    return found


def _real_folder(path: Path) -> Path:
    """A folder, or nothing at all.

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
    """Where a log file goes that is taken out of the log.

    It stays in the file system that it is in: a rename copies nothing.
    """
    return journal_folder(path.parent, number) / f"{path.name}{REMOVED}"


def place_of(kept: Path) -> Path:
    """Where a file was that is kept under the name of `kept_path`."""
    return kept.parent.parent.parent / kept.name.removesuffix(REMOVED)


def kept_files(home: Path, number: int) -> list[Path]:
    """What lies beside a journal: files that were taken out of the log."""
    return [
        folder / name
        for folder in (journal_folder(each, number) for each in log_folders(home))
        for name in _names(folder)
        if folder / name != journal_folder(home, number) / FILE_NAME
    ]


class Recorded(Struct, frozen=True):
    """A journal that was read.

    Attributes:
        home: of the environment.
        number: of the journal.
        frames: whole ones, in order, up to the first that is not; the first is `begin`.
        size: bytes of them.
        damage: what is wrong with it; None of a journal that is whole, or that a crash has left.
        is_newer: whether nothing is wrong but that a later je-tools has written it.
        later: whole frames behind the damage.
        file_size: bytes of the file that they were read from.
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
        """Where it is."""
        return journal_folder(self.home, self.number)

    def first(self, record: str) -> Frame | None:
        """The first frame that tells this; None without one."""
        return next((frame for frame in self.frames if frame.record == record), None)

    def blob(self, frame: Frame, start: int = 0, stop: int | None = None) -> bytes:
        """Bytes of a frame.

        Raises:
            OSError: they cannot be read.
        """
        stop = frame.blob_size if stop is None else stop
        with (self.folder / FILE_NAME).open("rb") as file:
            file.seek(frame.blob_at + start)
            return file.read(stop - start)


def read_journal(home: Path, number: int) -> Recorded:
    """Read a journal up to the first frame that is not whole; every checksum is looked at.

    Raises:
        OSError: it cannot be read.
    """
    path = journal_folder(home, number) / FILE_NAME
    try:
        # Of a pipe nothing comes, and nobody else's file is read.
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
    """The frame that begins at an offset; None where none is whole.

    Raises:
        JournalError: it is whole, and none that is written.
    """
    file.seek(at)
    head = file.read(_HEAD.size)
    if len(head) < _HEAD.size:
        return None
    magic, checksum, head_size, blob_size = _HEAD.unpack(head)
    # Torn frames have any sizes: no more is read than there is.
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
    """Whole frames anywhere behind an offset.

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
    """Whether a crash can have left of a frame what begins at an offset.

    The end is missing, or a sector of it: that reads as zeros.
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
