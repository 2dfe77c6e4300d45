"""Internal database records of files and databases that no longer exist.

To remove such a record, a checkpoint leaves out its slot. No entry is logged.

Source: je-log.md "Databases of the engine"; ExpirationProfile.populateCache,
UtilizationProfile.populateCache, JE 18.3.12.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import TYPE_CHECKING

from je_tools.formats.je.internal.cleaner import DatabaseExtinction, Expirations, FileSummaryKey
from je_tools.formats.je.internal.names import (
    EXTINCT_SCANS_DB,
    UTILIZATION_DB,
)
from je_tools.formats.je.tuples import TupleError
from je_tools.recovery.utilization import (
    expirations,
    internal_records,
    missing_in_use,
    record_places,
    reserved_files,
)

if TYPE_CHECKING:
    from je_tools.checkpoint.record_changes import RecordChanges
    from je_tools.recovery.snapshot import Snapshot


def complete_files(snapshot: Snapshot) -> frozenset[int]:
    """Return the numbers of the files before the last one."""
    return frozenset(file.file_no for file in snapshot.end.files[:-1])


def gone_expirations(snapshot: Snapshot, there: Set[int]) -> RecordChanges:
    """Return removals of the records of expirations in files that are not in `there`."""
    gone = expirations(snapshot).keys() - there
    return {Expirations(file_no, False, ()).encode()[0]: None for file_no in gone}


def files_in_use(snapshot: Snapshot) -> Set[int]:
    """Return the numbers of files that exist and are not reserved."""
    last_no = snapshot.end.files[-1].file_no
    return (complete_files(snapshot) | {last_no}) - reserved_files(snapshot).keys()


def _summary_keys(snapshot: Snapshot) -> Iterator[tuple[int, bytes]]:
    """Yield the file number and the key of each record of a summary."""
    for key, _ in record_places(snapshot, UTILIZATION_DB):
        try:
            yield FileSummaryKey.decode(key).file_no, key
        except TupleError:
            continue


def gone_summaries(snapshot: Snapshot) -> RecordChanges:
    """Return removals of the summaries of files that are missing or reserved.

    Summaries of missing files that are in use stay, so that commands still report the loss.
    """
    there = files_in_use(snapshot) | set(missing_in_use(snapshot))
    return {key: None for file_no, key in _summary_keys(snapshot) if file_no not in there}


def stale_records(snapshot: Snapshot) -> RecordChanges:
    """Return removals of the records of missing or reserved files that the engine would remove."""
    gone = gone_expirations(snapshot, complete_files(snapshot))
    return gone | gone_summaries(snapshot) | gone_reserved_files(snapshot)


def gone_reserved_files(snapshot: Snapshot) -> RecordChanges:
    """Return removals of the records of reserved files that no longer exist."""
    there = {file.file_no for file in snapshot.end.files}
    reserved = reserved_files(snapshot)
    return {each.encode()[0]: None for no, each in reserved.items() if no not in there}


def finished_removals(snapshot: Snapshot, removed: frozenset[int]) -> RecordChanges:
    """Return removals of the records of scans for databases that no longer exist.

    Such a scan counts the contents of a database's tree as obsolete, and these trees are gone.
    """
    left = snapshot.databases.keys() - removed
    return {
        scan.encode()[0]: None
        for scan in internal_records(snapshot, EXTINCT_SCANS_DB)
        if isinstance(scan, DatabaseExtinction) and scan.db_id not in left
    }
