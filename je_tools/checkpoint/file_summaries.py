"""File summaries, which a checkpoint brings up to date.

The engine refuses to open a log read-only if a file has no summary.

Source: je-log.md "Databases of the engine"; UtilizationProfile.populateCache and
flushFileSummary, JE 18.3.12.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import asdict

from je_tools.checkpoint.obsolete_entries import ObsoleteEntries, joined_obsolete, obsolete_by_file
from je_tools.checkpoint.stale_records import complete_files, files_in_use, gone_summaries
from je_tools.formats.je.header import NULL_LSN
from je_tools.formats.je.internal.cleaner import FileSummaryKey
from je_tools.formats.je.internal.names import (
    UTILIZATION_DB,
)
from je_tools.formats.je.log.fetch import fetch
from je_tools.formats.je.write.transactions import NO_LN
from je_tools.recovery.internal_databases import internal_database
from je_tools.recovery.utilization import (
    FileSummary,
    file_summaries,
    reserved_files,
    stored_summaries,
)

if TYPE_CHECKING:
    from je_tools.checkpoint.checkpoint_log import CheckpointLog
    from je_tools.checkpoint.record_changes import Fields, RecordChanges
    from je_tools.checkpoint.utilization_tracker import TrackedUtilization
    from je_tools.recovery.snapshot import Snapshot


def files_without_summary(snapshot: Snapshot, start_lsn: int) -> frozenset[int]:
    """Return the files that have no summary and are not reserved.

    Args:
        snapshot: the log.
        start_lsn: LSN of a CkptStart. Only files before its own need a summary.
    """
    known = file_summaries(snapshot).keys() | reserved_files(snapshot).keys()
    return frozenset(no for no in complete_files(snapshot) - known if no < start_lsn >> 32)


def count_files(
    snapshot: Snapshot,
    tracked: TrackedUtilization,
    log: CheckpointLog,
    start_lsn: int,
    removed: Mapping[int, FileSummary],
) -> dict[bytes, Fields | None]:
    """Return the fields of the file summaries that change, by key.

    Files that are gone or reserved lose their summaries. Entries that this checkpoint itself
    replaces are counted but not listed: a crash before its end would bring them back into use.

    Args:
        snapshot: the log.
        tracked: contents of files without a summary, and obsolete entries that no summary counts.
        log: log with the entries of all other databases.
        start_lsn: LSN of the CkptStart. Files after its own get no summary, since the next
            recovery reads all of them.
        removed: totals of the databases that the checkpoint removes, by file.

    Returns:
        The fields of each summary; None for a summary that is removed. That of the last file comes
        first, because the others are written to that file.
    """
    database = internal_database(snapshot, UTILIZATION_DB)
    if database is None:
        return {}
    there = files_in_use(snapshot)
    records: dict[bytes, Fields | None] = dict.fromkeys(gone_summaries(snapshot))
    stored = stored_summaries(snapshot)
    known = {file_no: summary for file_no, _, summary in stored.newest()}
    # The engine may have listed entries already. A crash leaves no trace of the reason.
    found = joined_obsolete(tracked.obsolete)
    found = found.select(~found.is_listed | ~np.isin(found.lsn, stored.summaries.obsolete))
    obsolete = obsolete_by_file(joined_obsolete([found, *_replaced(snapshot, log)]))
    none = FileSummary()
    for file_no in sorted((no for no in there if no <= start_lsn >> 32), reverse=True):
        begun = known.get(file_no) or tracked.summaries.get(file_no, none)
        more, offsets = obsolete.get(file_no, (none, ()))
        more += tracked.since.get(file_no, none) if file_no in known else none
        more += log.totals[file_no] + removed.get(file_no, none)
        if file_no in known and more == none:
            continue
        summary = begun + more
        key = FileSummaryKey(file_no, summary.counted).encode()
        counted = {"summary": asdict(summary), "obsolete_offsets": offsets}
        fields = {"db_id": database.db_id, "key": key, "data": b"", "anchor_lsn": NULL_LSN}
        records[key] = NO_LN | fields | counted
    return records


def write_summaries(counted: Mapping[bytes, Fields | None], log: CheckpointLog) -> RecordChanges:
    """Append the summaries of `count_files`."""
    return {
        key: None if fields is None else log.entry("FileSummaryLN", fields)
        for key, fields in counted.items()
    }


def _replaced(snapshot: Snapshot, log: CheckpointLog) -> list[ObsoleteEntries]:
    """Return the entries that this checkpoint has replaced so far."""
    nodes = np.concatenate([*log.replaced_nodes, np.empty(0, np.int64)])
    lns = np.array(log.replaced_lns, np.int64)
    sizes = fetch(snapshot.image, lns, check=False).size
    return [
        ObsoleteEntries.of(nodes[nodes != NULL_LSN], is_ln=False, is_listed=False),
        ObsoleteEntries.of(lns, sizes, is_ln=True, is_listed=False),
    ]
