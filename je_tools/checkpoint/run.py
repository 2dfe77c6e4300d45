"""Write a checkpoint: the environment as recovery leaves it, in the engine's order.

The same code writes and plans a checkpoint: the caller's `emit` decides what happens to the bytes.

Source: je-log.md "Checkpoints"; Checkpointer.doCheckpoint, RecoveryManager.recover, JE 18.3.12.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING

from je_tools.checkpoint.checkpoint_log import CheckpointLog
from je_tools.checkpoint.contents import CheckpointContents, CheckpointSettings
from je_tools.checkpoint.database_writer import DatabaseWriter
from je_tools.checkpoint.file_summaries import count_files
from je_tools.checkpoint.internal_records import files_to_track, write_internal_records
from je_tools.checkpoint.log_end import must_begin_file
from je_tools.checkpoint.new_databases import with_internal_databases
from je_tools.checkpoint.pending_work import nameless_databases
from je_tools.checkpoint.removed_databases import sum_removed
from je_tools.checkpoint.root_entries import first_active, write_end, write_start
from je_tools.checkpoint.utilization_tracker import track_utilization
from je_tools.checkpoint.vlsn_records import write_index
from je_tools.formats.je.internal.names import VLSN_MAP_DB
from je_tools.formats.je.write.writer import Appender, Emit, LogTail

if TYPE_CHECKING:
    from je_tools.checkpoint.record_changes import Fields
    from je_tools.recovery.snapshot import Snapshot


def write_checkpoint(
    snapshot: Snapshot, settings: CheckpointSettings, emit: Emit
) -> CheckpointContents:
    """Write the entries of a checkpoint after the end of a log.

    Args:
        snapshot: the log as recovery leaves it.
        settings: settings of the checkpoint.
        emit: called with file number, offset and bytes, in log order.

    Raises:
        RefusedError: a tree cannot be written. The entries emitted so far have no effect, since a
            checkpoint counts only with its CkptEnd.
    """
    return _Checkpointer(snapshot, settings, emit).write()


class _Checkpointer:
    """The state of one checkpoint while it is written."""

    def __init__(self, snapshot: Snapshot, settings: CheckpointSettings, emit: Emit) -> None:
        snapshot, new = with_internal_databases(snapshot)
        self.snapshot = snapshot
        self.settings = settings
        last = snapshot.end.files[-1]
        tail = LogTail(
            last.file_no,
            snapshot.end.next_offset,
            snapshot.end.last_lsn & 0xFFFFFFFF,
            last.version,
        )
        self.tracked = track_utilization(snapshot, files_to_track(snapshot))
        self.scanner = snapshot.scanner.staged("checkpoint", 0)
        self.emit = emit
        self.log = self._log_at(tail, self._emit_and_advance)
        created = {each.db_id: each for each in new}
        self.databases = DatabaseWriter(snapshot, self.log, settings, created)
        self.done = CheckpointContents(created=created, removed=nameless_databases(snapshot))
        self.counted: Mapping[bytes, Fields | None] = {}

    def _log_at(self, tail: LogTail, emit: Emit) -> CheckpointLog:
        appender = Appender(
            tail, file_max=self.settings.file_max, created_ms=self.settings.now_ms, emit=emit
        )
        return CheckpointLog(appender, self.snapshot.image.data, self.tracked.last_ids)

    def _emit_and_advance(self, file_no: int, offset: int, data: bytes) -> None:
        self.emit(file_no, offset, data)
        self.scanner.advance(len(data))

    def write(self) -> CheckpointContents:
        """Write the whole checkpoint."""
        snapshot, done, log = self.snapshot, self.done, self.log
        now_ms = self.settings.now_ms
        if self.settings.begins_file or must_begin_file(snapshot):
            log.appender.flip()
        self.databases.write_temporary_names()
        done.start_lsn = write_start(snapshot, log, now_ms)
        done.records[VLSN_MAP_DB] = write_index(
            snapshot, self.tracked.stream, log, now_ms, self.settings.first_vlsn
        )
        done.first_active_lsn = first_active(snapshot, done.start_lsn)
        self.databases.write_recovered(done.removed)
        removed = sum_removed(snapshot, done.removed)
        self.counted = count_files(snapshot, self.tracked, log, done.start_lsn, removed)
        self._write_rest(self._last_file_no())
        log.appender.flush()
        done.map_lns = self.databases.map_lns
        done.node_counts, done.node_sizes = log.node_counts, log.node_sizes
        done.entry_counts = log.appender.counts
        done.last_file_no = log.appender.tail.file_no
        return done

    def _last_file_no(self) -> int:
        """Return the number of the file in which the checkpoint will end.

        The internal databases need records of all files before the last one, also of files that
        these records fill. So the rest of the checkpoint is encoded, without being written, until
        the number no longer changes.
        """
        guess, found = -1, self.log.appender.tail.file_no
        while found != guess:
            guess = found
            trial = copy.copy(self)
            trial.done = copy.deepcopy(self.done)
            trial.log = self._log_at(self.log.appender.tail, nowhere)
            trial.log.last_ids = copy.deepcopy(self.log.last_ids)
            trial.log.expiring = copy.deepcopy(self.log.expiring)
            trial.databases = self.databases.on_trial(trial.log)
            trial._write_rest(guess)
            found = trial.log.appender.tail.file_no
        return found

    def _write_rest(self, last_file_no: int) -> None:
        """Write the records and trees of internal databases, the DbTree and the CkptEnd."""
        snapshot, done = self.snapshot, self.done
        done.records |= write_internal_records(
            snapshot,
            self.tracked,
            self.log,
            self.counted,
            last_file_no=last_file_no,
            removed=done.removed,
        )
        self.databases.write_changed(done.records)
        descriptors = self.databases.write_roots()
        write_end(snapshot, self.log, self.settings, descriptors, done)


def nowhere(_file_no: int, _offset: int, _data: bytes) -> None:
    """Discard bytes, for a checkpoint that is only counted."""
