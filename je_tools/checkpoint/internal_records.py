"""Records of internal databases that a checkpoint brings up to date.

Source: je-log.md "Databases of the engine", JE 18.3.12.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from je_tools.checkpoint.expiration_records import files_without_expirations, write_expirations
from je_tools.checkpoint.file_summaries import files_without_summary, write_summaries
from je_tools.checkpoint.stale_records import finished_removals, gone_reserved_files
from je_tools.formats.je.internal.names import (
    EXPIRATION_DB,
    EXTINCT_SCANS_DB,
    RESERVED_FILES_DB,
    UTILIZATION_DB,
)

if TYPE_CHECKING:
    from je_tools.checkpoint.checkpoint_log import CheckpointLog
    from je_tools.checkpoint.record_changes import Fields, RecordChanges
    from je_tools.checkpoint.utilization_tracker import TrackedUtilization
    from je_tools.recovery.snapshot import Snapshot


def files_to_track(snapshot: Snapshot) -> frozenset[int]:
    """Return the files to read for the records: the last one, and those that lack a record."""
    lacking = files_without_summary(snapshot, snapshot.end.next_lsn) | files_without_expirations(
        snapshot
    )
    return lacking | {snapshot.end.files[-1].file_no}


def write_internal_records(
    snapshot: Snapshot,
    tracked: TrackedUtilization,
    log: CheckpointLog,
    counted: Mapping[bytes, Fields | None],
    *,
    last_file_no: int,
    removed: frozenset[int],
) -> dict[str, RecordChanges]:
    """Write the records, except those of the VLSN index; return the changes by database name.

    Args:
        snapshot: the log as recovery leaves it.
        tracked: contents of the files of `files_to_track`.
        log: log to append to.
        counted: fields of the file summaries that change; see `count_files`.
        last_file_no: number of the file in which the checkpoint will end.
        removed: ids of databases whose removal the checkpoint completes.
    """
    return {
        RESERVED_FILES_DB: gone_reserved_files(snapshot),
        EXTINCT_SCANS_DB: finished_removals(snapshot, removed),
        UTILIZATION_DB: write_summaries(counted, log),
        EXPIRATION_DB: write_expirations(snapshot, tracked, log, last_file_no),
    }
