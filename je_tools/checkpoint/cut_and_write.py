"""Cut off everything after the end of a log, and write a checkpoint there.

Source: RecoveryManager.findEndOfLog, FileManager.truncateLog, JE 18.3.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from je_tools.checkpoint.deferred_writes import DeferredWrites
from je_tools.checkpoint.log_end import files_after, must_begin_file
from je_tools.checkpoint.options import CheckpointOptions, CheckpointResult
from je_tools.checkpoint.pending_work import is_needed
from je_tools.checkpoint.rollbacks import missing_invisible_marks
from je_tools.checkpoint.run import nowhere, write_checkpoint
from je_tools.checkpoint.settings import choose_settings

if TYPE_CHECKING:
    from je_tools.checkpoint.contents import CheckpointSettings
    from je_tools.log.log_files import LogFile
    from je_tools.recovery.snapshot import Snapshot
    from je_tools.writing.session import Session

_AMPLE = 2
"""A checkpoint is smaller than this multiple of the log, since the log has all nodes it writes."""


def cut_and_write(
    snapshot: Snapshot, options: CheckpointOptions, session: Session | None
) -> CheckpointResult:
    """Cut off everything after the end of the log, and write a checkpoint if one is needed.

    Args:
        snapshot: the log as recovery leaves it.
        options: options.
        session: operation that changes the log; None to plan only.

    Raises:
        RefusedError: the checkpoint cannot be written.
    """
    end = snapshot.end
    aside = tuple(each.file for each in end.skipped if each.put_aside)
    after: tuple[LogFile, ...] = ()
    if options.to_lsn is not None:
        aside, after = (), files_after(snapshot)
    if session is not None:
        changed = [mark.file_no for mark in missing_invisible_marks(snapshot)]
        if end.cut_size or not must_begin_file(snapshot):
            changed.append(end.files[-1].file_no)
        session.check_own(changed, [file.file_no for file in (*aside, *after)])

    def cut(session: Session) -> None:
        for file in reversed(aside):
            session.set_aside(file.file_no)
        for file in reversed(after):
            session.remove(file.file_no)
        if end.cut_size:
            session.cut(end.files[-1].file_no, end.next_offset)
        for mark in missing_invisible_marks(snapshot):
            session.flip_bits(mark.file_no, mark.offset, mark.old, mark.new)
        # Marks come first: after the checkpoint, recovery no longer sets missing ones.
        session.sync()

    deferred = DeferredWrites(session, cut, end.cut_size)
    checkpoint = None
    if options.before_erasure or is_needed(snapshot):
        settings = choose_settings(snapshot, options)
        if session is not None:
            _check_room(snapshot, settings, session)
        checkpoint = write_checkpoint(snapshot, settings, deferred)
    deferred.release()
    return CheckpointResult(
        checkpoint,
        end.cut_size,
        tuple(file.path.name for file in aside),
        tuple(file.path.name for file in after),
    )


def _check_room(snapshot: Snapshot, settings: CheckpointSettings, session: Session) -> None:
    """Check that there is room for the whole checkpoint, before any of it is written.

    This encodes the checkpoint one more time, so it is done only if room may be short.
    """
    if session.least_room()[1] >= _AMPLE * snapshot.environment.size:
        return
    size = write_checkpoint(snapshot, settings, nowhere).size
    session.check_space(size + snapshot.end.cut_size)
