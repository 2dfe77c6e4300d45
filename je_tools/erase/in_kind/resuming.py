"""Completion of an interrupted erasure in kind."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from je_tools.erase.control_files import protected_names
from je_tools.erase.file_protection import keep_reason, reason_while_erasing
from je_tools.erase.in_kind.overwriting import apply_redo
from je_tools.erase.in_kind.redo_journal import read_redo, remove_redo, remove_unfinished_redo
from je_tools.errors import RefusedError

if TYPE_CHECKING:
    from je_tools.erase.control_files import ErasureControl
    from je_tools.erase.file_access import OverwriteCounts
    from je_tools.erase.reasons import KeepReason
    from je_tools.erase.results import ErasureHooks
    from je_tools.log.environment import Environment
    from je_tools.writing.disk import Disk


class RedoState(StrEnum):
    """States of a redo journal."""

    UNFINISHED = "unfinished"
    """Entries of a file may be overwritten only in part."""
    FILE_GONE = "file-gone"
    """The cleaner has removed the file since, so nothing is left to overwrite."""


class UnfinishedInKind(Struct, frozen=True):
    """An erasure in kind that was interrupted.

    Attributes:
        log_path: the log file whose entries were being overwritten.
        entry_count: number of these entries.
        state: what is left to do.
        kept: reason to leave the log file as it is; None if it may be changed.
    """

    log_path: Path
    entry_count: int
    state: RedoState
    kept: KeepReason | None = None


def find_unfinished_in_kind(home: Path) -> UnfinishedInKind | None:
    """Return the erasure in kind that was interrupted; None if none was, or nothing was changed.

    Raises:
        RefusedError: its journal is damaged, or was made for a file of another size.
        OSError: it cannot be read.
    """
    redo = read_redo(home)
    if redo is None:
        return None
    if not os.path.lexists(redo.log_path):
        return UnfinishedInKind(redo.log_path, redo.entry_count, RedoState.FILE_GONE)
    if not redo.log_path.is_file():
        raise RefusedError(f"{redo.log_path}: expected a log file, found something that is no file")
    size = redo.log_path.stat().st_size
    if size != redo.file_size:
        raise RefusedError(
            f"{redo.log_path}: the redo journal {redo.path} was made for a file of "
            f"{redo.file_size:,} bytes, and this one has {size:,}. If the file was restored since, "
            "move the journal away"
        )
    kept = keep_reason(redo.log_path, protected_names(home))
    return UnfinishedInKind(redo.log_path, redo.entry_count, RedoState.UNFINISHED, kept)


def complete_in_kind(
    environment: Environment,
    disk: Disk,
    counts: OverwriteCounts,
    hooks: ErasureHooks,
    control: ErasureControl,
) -> UnfinishedInKind | None:
    """Complete the erasure in kind that was interrupted; return it, or None if none was.

    A file that has another name or is protected stays as it is, and so does the journal.

    Args:
        environment: the environment, whose lock is held.
        disk: disk to write to.
        counts: counts to add to.
        hooks: functions that are called meanwhile.
        control: control of the erasure.

    Raises:
        RefusedError, OSError: as `find_unfinished_in_kind` and `apply_redo`; the journal stays.
    """
    home = Path(environment.name)
    remove_unfinished_redo(home, disk)
    found = find_unfinished_in_kind(home)
    if found is None:
        return None
    if found.state is RedoState.FILE_GONE:
        remove_redo(home, disk)
        return found
    file = next(each for each in environment.files if each.path == found.log_path)
    kept = reason_while_erasing(file, control.is_protected)
    if kept is not None:
        return replace(found, kept=kept)
    redo = read_redo(home)
    assert redo is not None
    try:
        apply_redo(home, redo, disk, counts, hooks)
    except RefusedError as error:
        raise RefusedError(
            f"{error}. The redo journal {redo.path} stays. If it is that of another log, or the "
            "file was restored since, move it away"
        ) from error
    return found
