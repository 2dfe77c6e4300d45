"""Deletion of live records before an erasure, without an undo journal that would keep them.

Source: je-log.md "Data eraser".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from je_tools.append.apply import apply_append
from je_tools.erase.journals import check_no_journals, drop_journal
from je_tools.operations.record_deletion import RecordDeletion
from je_tools.writing.disk import Disk

if TYPE_CHECKING:
    from pathlib import Path

    from je_tools.log.scan import Scanner
    from je_tools.operations.record_deletion import Doomed


def delete_records(
    home: Path, scanner: Scanner, doomed: Doomed, now_ms: int, *, disk: Disk | None = None
) -> None:
    """Delete records of a standalone environment in place.

    `run_erasure` then erases what is left of them, with a checkpoint first that writes the trees of
    their databases anew. If it is interrupted, the records are deleted or not.

    Args:
        home: directory of the environment.
        scanner: scanner for reading the log.
        doomed: the records; if there are none, nothing is written.
        now_ms: current time.
        disk: disk that is written to.

    Raises:
        RefusedError: the environment is in use or replicated, it has undo journals, or a record
            does not exist any more; or a step failed.
        InputError, StoppedError: as `apply_append`.
    """
    check_no_journals(home)
    if any(doomed.values()):
        disk = disk or Disk()
        _, appended = apply_append(home, scanner, RecordDeletion(doomed), now_ms, disk=disk)
        drop_journal(home, appended.journal_no, disk)
