"""Reading of undo journals: frames up to the first incomplete one, and frames after damage."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from stat import S_ISREG
from typing import Any, BinaryIO

from msgspec import Struct

from je_tools.core.escaping import counted
from je_tools.writing.checksums import crc32c
from je_tools.writing.disk import SECTOR
from je_tools.writing.frames import (
    FRAME_HEAD,
    FRAME_MAGIC,
    Frame,
    JournalError,
    NewerJournalError,
    check_frame,
    read_frame,
)
from je_tools.writing.journal_folders import FILE_NAME, journal_folder

_PIECE = 1 << 20

FrameCheck = Callable[[Any, int, int], None]
"""A check like `check_frame`, of the frames that an operation may write."""


class RecordedJournal(Struct, frozen=True):
    """A journal that was read.

    Attributes:
        home: home of the environment.
        number: number of the journal.
        frames: frames in order, up to the first incomplete one; without damage, the first is
            `begin`.
        size: number of bytes of `frames`.
        damage: description of the damage; None if the journal is complete or torn by a crash.
        is_newer: True if a later je-tools wrote the journal in a format that is unknown here.
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


def read_journal(home: Path, number: int, check: FrameCheck = check_frame) -> RecordedJournal:
    """Read a journal up to the first incomplete frame, and check every checksum.

    Args:
        home: folder around that of the journals.
        number: number of the journal.
        check: check of the fields of each frame.

    Raises:
        OSError: it cannot be read.
    """
    path = journal_folder(home, number) / FILE_NAME
    try:
        # Neither wait for a pipe nor follow a link to another file.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return RecordedJournal(home, number, (), 0, f"it has no file {FILE_NAME}")
    except OSError as error:
        if not path.is_symlink() and path.is_file():
            raise OSError(error.errno, error.strerror, str(path)) from error
        return RecordedJournal(home, number, (), 0, _NO_FILE)
    if not S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return RecordedJournal(home, number, (), 0, _NO_FILE)
    with os.fdopen(descriptor, "rb") as file:
        return _read(home, number, file, check)


_NO_FILE = f"{FILE_NAME} is not a regular file"


def _read(home: Path, number: int, file: BinaryIO, check: FrameCheck) -> RecordedJournal:
    total = os.fstat(file.fileno()).st_size
    frames: list[Frame] = []
    size = 0
    try:
        while (frame := _frame_at(file, size, total, number, check)) is not None:
            frames.append(frame)
            size = frame.blob_at + frame.blob_size
        is_begun = bool(frames) and frames[0].record == "begin"
        if is_begun and size == total:
            return RecordedJournal(home, number, tuple(frames), size)
        later = _frames_after(file, size, total, number, check)
    except NewerJournalError as error:
        return RecordedJournal(home, number, (), 0, str(error), file_size=total, is_newer=True)
    except JournalError as error:
        text = f"the frame at byte {size:,} of {total:,} is not valid: {error}"
        return RecordedJournal(home, number, tuple(frames), size, text, file_size=total)
    damage: str | None = None
    if not is_begun or any(frame.head["sure"] > size for frame in later):
        damage = f"the bytes from {size:,} of {total:,} on are not readable"
    elif not _may_be_torn(file, size, total):
        damage = f"the bytes from {size:,} of {total:,} on were changed"
    if damage is not None and later:
        damage += f", and {counted(len(later), 'step')} after them are readable"
    return RecordedJournal(home, number, tuple(frames), size, damage, later, total)


def _frame_at(file: BinaryIO, at: int, total: int, number: int, check: FrameCheck) -> Frame | None:
    """Read the frame at an offset; return None if there is no complete one.

    Raises:
        JournalError: it is complete, but no operation writes such a frame.
    """
    raw = read_frame(file, at, total)
    if raw is None:
        return None
    check(raw.head, len(raw.blob), number)
    return Frame(raw.head, raw.blob_at, len(raw.blob), crc32c(raw.blob))


def _frames_after(
    file: BinaryIO, start: int, total: int, number: int, check: FrameCheck
) -> tuple[Frame, ...]:
    """Find complete frames anywhere after an offset.

    Raises:
        JournalError: as `_frame_at`.
    """
    found = []
    at = start
    while at < total:
        file.seek(at)
        place = file.read(_PIECE).find(FRAME_MAGIC)
        if place < 0:
            at += _PIECE - len(FRAME_MAGIC) + 1
            continue
        frame = _frame_at(file, at + place, total, number, check)
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
    head = file.read(FRAME_HEAD.size)
    first, second = head[: bound - start], head[bound - start :]
    if not any(first):
        return True
    if not first.startswith(FRAME_MAGIC[: len(first)]):
        return False
    if len(head) < FRAME_HEAD.size or (second and not any(second)):
        return True
    stop = start + FRAME_HEAD.size + sum(FRAME_HEAD.unpack(head)[2:])
    if stop > total:
        return True
    for at in (start, *range(bound, stop, SECTOR)):
        file.seek(at)
        if not any(file.read(min(SECTOR - at % SECTOR, stop - at))):
            return True
    return False
