"""Erasure of one file in kind: its redo journal first, then its entries."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from je_tools.erase.file_outcomes import FileOutcome, outcome_before_change
from je_tools.erase.in_kind.blanks import find_blanks
from je_tools.erase.in_kind.overwriting import apply_redo
from je_tools.erase.in_kind.redo_journal import RedoJournal, read_redo
from je_tools.erase.throttle import FILE_WORK
from je_tools.log.file_names import home_of

if TYPE_CHECKING:
    from je_tools.erase.results import ErasureHooks, ErasureResult
    from je_tools.log.log_files import LogFile
    from je_tools.log.scan import Scanner
    from je_tools.writing.disk import Disk


def blank_file(
    file: LogFile, scanner: Scanner, result: ErasureResult, hooks: ErasureHooks, disk: Disk
) -> FileOutcome:
    """Overwrite the entries of a file in kind.

    Once the redo journal is durable, the file is overwritten to its end: hooks cannot stop it.

    Args:
        file: the file; the lock of its environment is held.
        scanner: scanner for reading the log.
        result: result to whose counts it adds; its plan says what to erase.
        hooks: functions that are called meanwhile.
        disk: disk to write to.

    Raises:
        RefusedError: the file is not what it was when the log was read.
        OSError: the system refuses a step.
        StoppedError, InputError: the file cannot be read any more.
    """
    home = home_of(file.path)
    journal = RedoJournal(home, file, disk)
    try:
        for blanks in find_blanks(file, scanner, result.plan.rules):
            outcome = outcome_before_change(file, hooks)
            if outcome is not None:
                return outcome
            journal.add(blanks)
        # All waiting of a throttled erasure comes before the first change.
        hooks.on_work(FILE_WORK * file.size)
        outcome = outcome_before_change(file, hooks)
        if outcome is not None:
            return outcome
        journal.finish()
    finally:
        journal.discard()
    result.counts.fsync_count += 1
    redo = read_redo(home, is_own=True)
    assert redo is not None
    hooks.on_fsync(redo.path, time.time_ns() // 1_000_000)
    apply_redo(home, redo, disk, result.counts, hooks)
    return FileOutcome.ERASED
