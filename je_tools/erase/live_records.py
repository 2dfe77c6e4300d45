"""Erasure of live records: they are deleted, the trees that had them are written anew, then erased.

Source: je-log.md "Data eraser".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from je_tools.append.apply import apply_append
from je_tools.erase.journals import check_no_journals, drop_journal
from je_tools.erase.run import run_erasure
from je_tools.operations.record_deletion import RecordDeletion
from je_tools.writing.disk import Disk

if TYPE_CHECKING:
    from pathlib import Path

    from je_tools.erase.options import ErasureOptions
    from je_tools.erase.results import ErasureHooks, ErasureResult
    from je_tools.log.scan import Scanner
    from je_tools.operations.record_deletion import Doomed


def erase_records(
    home: Path,
    scanner: Scanner,
    doomed: Doomed,
    options: ErasureOptions,
    now_ms: int,
    hooks: ErasureHooks | None = None,
    *,
    disk: Disk | None = None,
) -> ErasureResult:
    """Delete records of a standalone environment, and erase everything that nothing needs.

    If it is interrupted, the records are deleted or not; running it again, or `run_erasure` with
    the databases in `options.rewritten`, does the rest.

    Args:
        home: directory of the environment.
        scanner: scanner for reading the log.
        doomed: the records; none to erase only what is left of records deleted before.
        options: options of the erasure. Its `rewritten` names the databases of the records, and
            those in which keys of deleted records are left.
        now_ms: current time.
        hooks: functions that are called meanwhile.
        disk: disk that is written to.

    Raises:
        RefusedError: the environment is in use or replicated, a record does not exist any more, or
            nothing may be erased; or a step failed.
        InputError, StoppedError: as `run_erasure`.
    """
    disk = disk or Disk()
    check_no_journals(home)
    if any(doomed.values()):
        _, appended = apply_append(home, scanner, RecordDeletion(doomed), now_ms, disk=disk)
        drop_journal(home, appended.journal_no, disk)
    options = replace(options, checkpoint_first=True)
    return run_erasure(home, scanner, options, now_ms, hooks, disk=disk)
