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

A frame is where it stays before the step that it tells of is begun. What is behind the first frame
that is not whole was never begun.
"""

from __future__ import annotations

import json
import os
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crc32c import crc32c

from je_tools.writing.disk import Disk

FOLDER = ".je-tools-undo"
"""Of all journals of an environment, in its home and in its data directories."""

FILE_NAME = "journal"
VERSION = 1

BLOB_MAX = 16 << 20
"""Most bytes of a frame, that a reader holds at once."""

_HEAD = struct.Struct("<4sIII")
_MAGIC = b"JEU1"
_NUMBER = re.compile(r"[0-9]{6,}")
_DROPPED = ".dropped"


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame.

    Attributes:
        head: the JSON object; `record` says what it tells.
        blob_at, blob_size: where its bytes are in the journal.
    """

    head: Mapping[str, Any]
    blob_at: int
    blob_size: int

    @property
    def record(self) -> str:
        """What it tells."""
        return str(self.head["record"])


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
        self.folder = home / FOLDER / f"{number:06d}"
        self._disk = disk
        self._size = size

    @classmethod
    def create(cls, home: Path, disk: Disk, like: os.stat_result) -> Journal:
        """Make an empty journal; its name is where it stays when this comes back.

        Args:
            home: of the environment.
            disk: that is written to.
            like: a log file, whose owner, group and mode it gets.

        Raises:
            OSError: it cannot be made.
        """
        number = max((*journal_numbers(home), 0)) + 1
        journal = cls(home, number, disk)
        make_folder(disk, journal.folder)
        disk.create(journal.folder / FILE_NAME, like)
        disk.sync_folder(journal.folder)
        return journal

    def add(self, record: str, blob: bytes = b"", **fields: Any) -> None:
        """Write a frame; it is where it stays after `sync`."""
        head = json.dumps({"record": record, **fields}).encode()
        rest = struct.pack("<II", len(head), len(blob)) + head + blob
        frame = _MAGIC + struct.pack("<I", crc32c(rest)) + rest
        self._disk.write(self.folder / FILE_NAME, self._size, frame)
        self._size += len(frame)

    def sync(self) -> None:
        """Bring all frames to where they stay."""
        self._disk.sync(self.folder / FILE_NAME)


def make_folder(disk: Disk, folder: Path) -> None:
    """Make a journal's folder, and the one around it, where they are not there yet."""
    like = folder.parent.parent.stat()
    for each in (folder.parent, folder):
        if not each.is_dir():
            disk.mkdir(each, like)
        disk.sync_folder(each.parent)


def journal_numbers(home: Path) -> list[int]:
    """Numbers of the journals of an environment, in order."""
    return sorted(int(name) for name in _names(home) if _NUMBER.fullmatch(name))


def dropped_folders(home: Path) -> list[Path]:
    """Folders of journals whose removal was begun."""
    return [home / FOLDER / name for name in _names(home) if name.endswith(_DROPPED)]


def dropped_name(folder: Path) -> Path:
    """What a journal's folder is called while it is removed."""
    return folder.with_name(folder.name + _DROPPED)


def _names(home: Path) -> list[str]:
    try:
        return sorted(path.name for path in (home / FOLDER).iterdir())
    except FileNotFoundError:
        return []


def kept_path(path: Path, number: int) -> Path:
    """Where a log file goes that is taken out of the log.

    It stays in the file system that it is in: a rename copies nothing.
    """
    return path.parent / FOLDER / f"{number:06d}" / f"{path.name}.removed"


@dataclass(frozen=True)
class Recorded:
    """A journal that was read.

    Attributes:
        home: of the environment.
        number: of the journal.
        frames: whole ones, in order; the first is `begin`. None where nothing was begun.
        size: bytes of the whole frames.
    """

    home: Path
    number: int
    frames: tuple[Frame, ...]
    size: int

    @property
    def folder(self) -> Path:
        """Where it is."""
        return self.home / FOLDER / f"{self.number:06d}"

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
    folder = home / FOLDER / f"{number:06d}"
    frames: list[Frame] = []
    size = 0
    try:
        with (folder / FILE_NAME).open("rb") as file:
            for frame in _frames(file):
                frames.append(frame)
                size = frame.blob_at + frame.blob_size
    except FileNotFoundError:
        pass
    if frames and frames[0].record != "begin":
        frames, size = [], 0
    return Recorded(home, number, tuple(frames), size)


def _frames(file: Any) -> Iterator[Frame]:
    at = 0
    while True:
        head = file.read(_HEAD.size)
        if len(head) < _HEAD.size:
            return
        magic, checksum, head_size, blob_size = _HEAD.unpack(head)
        # Torn frames have any sizes: no more is read than there is.
        if magic != _MAGIC or blob_size > BLOB_MAX + (1 << 20):
            return
        rest = file.read(head_size + blob_size)
        if len(rest) < head_size + blob_size or crc32c(rest, crc32c(head[8:])) != checksum:
            return
        at += _HEAD.size + head_size
        yield Frame(json.loads(rest[:head_size]), at, blob_size)
        at += blob_size
