"""Parts of undo that logs and stores share: the state of an undo, and how a step is undone."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from je_tools.errors import RefusedError
from je_tools.writing.checksums import crc32c
from je_tools.writing.journal_folders import FILE_NAME
from je_tools.writing.journal_replay import UndoKind, UndoStep

if TYPE_CHECKING:
    from je_tools.writing.disk import Disk
    from je_tools.writing.journal_reading import RecordedJournal


class UndoState(StrEnum):
    """States of an operation and its undo."""

    NOTHING = "not-begun"
    """It was stopped before its first change."""
    UNFINISHED = "unfinished"
    """It was stopped by a crash or an error."""
    FINISHED = "done"
    HALF_BACK = "half-back"
    """Its undo was stopped."""
    BACK = "back"
    """It has been undone, but its journal still exists."""
    PUT_BACK = "put-back"
    """It has just been undone, and its journal removed."""
    REMOVED = "removed"
    """Its journal has just been removed, with the bytes that it saved."""
    DAMAGED = "damaged"
    """Its journal cannot be read: nothing is put back, and nothing removed."""


def recorded_state(
    *, is_damaged: bool, has_steps: bool, is_finished: bool, is_begun: bool, is_undone: bool
) -> UndoState:
    """Return the state of an operation and its undo, as their journal records it.

    Args:
        is_damaged: True if the journal is.
        has_steps: True if the operation may have changed something.
        is_finished: True if the operation finished.
        is_begun, is_undone: True if its undo has begun, or finished.
    """
    if is_damaged:
        return UndoState.DAMAGED
    if not has_steps:
        return UndoState.NOTHING
    if is_undone:
        return UndoState.BACK
    if is_begun:
        return UndoState.HALF_BACK
    return UndoState.FINISHED if is_finished else UndoState.UNFINISHED


def revert_step(
    step: UndoStep, path_of: Callable[[str], Path], recorded: RecordedJournal, disk: Disk
) -> None:
    """Undo a step, durably; it can be repeated.

    Args:
        step: a step of any kind except UNFLIP.
        path_of: returns the path of a file by its name in the journal.
        recorded: the journal.
        disk: disk to write to.

    Raises:
        OSError: a file cannot be written.
        RefusedError: the journal has other bytes than when it was read before.
    """
    path = path_of(step.name)
    if step.what is UndoKind.REMOVE:
        if path.exists():
            disk.unlink(path)
            disk.sync_folder(path.parent)
    elif step.what is UndoKind.RENAME:
        target = path_of(step.target)
        if path.exists():
            disk.rename(path, target)
        for folder in dict.fromkeys((target.parent, path.parent)):
            if folder.is_dir():
                disk.sync_folder(folder)
    elif step.what is UndoKind.CUT:
        if path.stat().st_size > step.offset:
            disk.truncate(path, step.offset)
        disk.sync(path)
    else:
        for frame in step.saved:
            data = recorded.blob(frame)
            if crc32c(data) != frame.blob_sum:
                raise RefusedError(
                    f"{recorded.folder / FILE_NAME}: the file was read before, and now has other "
                    "bytes: the disk is unreliable"
                )
            disk.write(path, frame.head["offset"], data)
        disk.sync(path)
