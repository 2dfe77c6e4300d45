"""End of a log: the files and bytes after it, and the file to which a checkpoint appends."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from je_tools.core.properties import FORCE_NEW_FILE, read_settings
from je_tools.recovery.end import EndReason
from je_tools.recovery.marks import IMMUTABLE_NO

if TYPE_CHECKING:
    from je_tools.log.log_files import LogFile
    from je_tools.recovery.snapshot import Snapshot


def files_after(snapshot: Snapshot) -> tuple[LogFile, ...]:
    """Return the files after the one in which the log ends."""
    last = snapshot.end.files[-1].file_no
    return tuple(file for file in snapshot.environment.files if file.file_no > last)


def is_to_cut(snapshot: Snapshot) -> bool:
    """Return True if anything after the end of the log has to be cut off or set aside."""
    if snapshot.end.reason is EndReason.CHOSEN and files_after(snapshot):
        return True
    return snapshot.end.cut_size > 0 or any(each.put_aside for each in snapshot.end.skipped)


def must_begin_file(snapshot: Snapshot) -> bool:
    """Return True if nothing may be appended to the last file, since a backup relies on it.

    Source: RecoveryManager.findEndOfLog, recover, DbBackup.startBackup, JE 7.5.11.
    """
    if any(mark.type_no == IMMUTABLE_NO for mark in snapshot.end.marks):
        return True
    return read_settings(Path(snapshot.environment.name)).switch(FORCE_NEW_FILE)
