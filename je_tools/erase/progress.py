"""Progress of a cycle: the eraser's record is brought up to date when files are done.

A checkpoint follows the record, so that the next run finds the log at a checkpoint. If a crash
comes before it, the files are processed again, which changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from je_tools.append.apply import apply_append
from je_tools.checkpoint.apply import apply_checkpoint
from je_tools.checkpoint.options import CheckpointOptions
from je_tools.erase.journals import drop_journal
from je_tools.operations.eraser_progress import EraserProgress
from je_tools.writing.disk import Disk

if TYPE_CHECKING:
    from pathlib import Path

    from je_tools.erase.results import ErasureResult
    from je_tools.formats.je.internal.cleaner import EraserState
    from je_tools.log.scan import Scanner


def note_progress(
    home: Path,
    scanner: Scanner,
    result: ErasureResult,
    now_ms: int,
    *,
    disk: Disk | None = None,
) -> EraserState | None:
    """Write the eraser's record as it is after an erasure; return it, or None without a cycle.

    Args:
        home: directory of the environment.
        scanner: scanner for reading the log.
        result: result of the erasure.
        now_ms: current time.
        disk: disk that is written to.

    Raises:
        RefusedError: the environment is in use, or a step failed.
        InputError, StoppedError: as `apply_append`.
    """
    cycle = result.plan.cycle
    if cycle is None:
        return None
    left = {file.file_no for file in (*result.pending, *result.protected, *result.shared)}
    kept = {each.file.file_no for each in result.plan.files if each.kept is not None}
    state = cycle.after(set(cycle.state.pending) - left - kept)
    if cycle.is_resumed and state == cycle.state:
        return state
    disk = disk or Disk()
    _, appended = apply_append(home, scanner, EraserProgress(state), now_ms, disk=disk)
    _, written = apply_checkpoint(home, scanner, CheckpointOptions(), now_ms, disk=disk)
    for number in (written.journal_no, appended.journal_no):
        drop_journal(home, number, disk)
    return state
