"""Deletion of live records before an erasure, without an undo journal, which would keep them.

Source: je-log.md "Data eraser".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from je_tools.append.apply import append_under_lock
from je_tools.erase.journal_clearing import check_no_journals, clear_own_journals, drop_journal
from je_tools.log.opening import open_environment
from je_tools.operations.record_deletion import RecordDeletion
from je_tools.writing.disk import Disk
from je_tools.writing.lock import EnvironmentLock

if TYPE_CHECKING:
    from pathlib import Path

    from je_tools.log.scan import Scanner
    from je_tools.operations.record_deletion import Doomed


def delete_records(
    home: Path, scanner: Scanner, doomed: Doomed, now_ms: int, *, disk: Disk | None = None
) -> None:
    """Delete records of a standalone environment in place.

    Afterwards `run_erasure` erases what is left of them, with a checkpoint that writes the trees of
    their databases anew. If the deletion is interrupted, all records are deleted, or none.

    Args:
        home: directory of the environment.
        scanner: scanner for reading the log.
        doomed: the records; if there are none, nothing is written.
        now_ms: current time.
        disk: disk to write to.

    Raises:
        RefusedError: the environment is in use or replicated, it has undo journals, or a record
            does not exist any more; or a step failed.
        InputError, StoppedError: as `apply_append`.
    """
    if not any(doomed.values()):
        return
    disk = disk or Disk()
    with EnvironmentLock(home, disk, instead="stop that first") as lock:
        clear_own_journals(home, disk)
        check_no_journals(home)
        environment, operation = open_environment([home]), RecordDeletion(doomed)
        _, done = append_under_lock(lock, environment, scanner, operation, now_ms, disk=disk)
        drop_journal(home, done.journal_no, disk)
