"""Progress of a cycle: update the eraser's record when files are done.

A checkpoint follows the record, so that the next run finds the log at a checkpoint. If a crash
comes before its end, the next run undoes both, and processes the files again, which changes
nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from je_tools.append.apply import append_under_lock
from je_tools.checkpoint.apply import apply_under_lock
from je_tools.checkpoint.options import CheckpointOptions
from je_tools.erase.done_files import finished_files, vanished_files
from je_tools.erase.journal_clearing import drop_journal
from je_tools.log.opening import open_environment
from je_tools.operations.eraser_progress import EraserProgress
from je_tools.operations.names import PROGRESS

if TYPE_CHECKING:
    from pathlib import Path

    from je_tools.erase.results import ErasureResult
    from je_tools.formats.je.internal.cleaner import EraserState
    from je_tools.log.scan import Scanner
    from je_tools.writing.disk import Disk
    from je_tools.writing.lock import EnvironmentLock


def note_progress(
    lock: EnvironmentLock,
    home: Path,
    scanner: Scanner,
    result: ErasureResult,
    now_ms: int,
    disk: Disk,
) -> EraserState | None:
    """Write the eraser's record as it is after an erasure; return it, or None without a cycle.

    The lock must have been held since the record was read, as in `ErasureHooks.on_erased`.

    Raises:
        RefusedError: a step failed.
        InputError, StoppedError: as `apply_append`.
    """
    cycle = result.plan.cycle
    if cycle is None:
        return None
    state = cycle.after(finished_files(result), vanished_files(result))
    if cycle.is_resumed and state == cycle.state:
        return state
    _, noted = append_under_lock(
        lock, open_environment([home]), scanner, EraserProgress(state), now_ms, disk=disk
    )
    options = CheckpointOptions(part_of=PROGRESS)
    _, written = apply_under_lock(
        lock, open_environment([home]), scanner, options, now_ms, disk=disk
    )
    for number in (written.journal_no, noted.journal_no):
        drop_journal(home, number, disk)
    return state
