"""Records of the expirations in each file, which a checkpoint brings up to date.

The engine itself adds missing records when it opens a log.

Source: je-log.md "Databases of the engine"; ExpirationProfile.populateCache, JE 18.3.12.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from je_tools.checkpoint.stale_records import complete_files, gone_expirations
from je_tools.formats.je.internal.cleaner import Expirations
from je_tools.formats.je.internal.names import (
    EXPIRATION_DB,
)
from je_tools.formats.je.write.transactions import NO_LN
from je_tools.recovery.internal_databases import internal_database
from je_tools.recovery.utilization import (
    expirations,
)

if TYPE_CHECKING:
    from je_tools.checkpoint.checkpoint_log import CheckpointLog
    from je_tools.checkpoint.record_changes import RecordChanges
    from je_tools.checkpoint.utilization_tracker import TrackedUtilization
    from je_tools.recovery.snapshot import Snapshot

_HOURS_A_DAY = 24


def files_without_expirations(snapshot: Snapshot) -> frozenset[int]:
    """Return the files before the last one that have no record of their expirations."""
    if internal_database(snapshot, EXPIRATION_DB) is None:
        return frozenset()
    return complete_files(snapshot) - expirations(snapshot).keys()


def write_expirations(
    snapshot: Snapshot, tracked: TrackedUtilization, log: CheckpointLog, last_file_no: int
) -> RecordChanges:
    """Write missing records of expirations; return the changes, also those of missing files.

    Args:
        snapshot: the log.
        tracked: contents of files without a record.
        log: log to append to.
        last_file_no: number of the file in which the checkpoint will end. It gets no record.
    """
    database = internal_database(snapshot, EXPIRATION_DB)
    if database is None:
        return {}
    known = expirations(snapshot)
    first_new = snapshot.end.files[-1].file_no
    there = complete_files(snapshot) | set(range(first_new, last_file_no))
    records = gone_expirations(snapshot, there)
    for file_no in sorted(there - known.keys()):
        hours = tracked.expiring.get(file_no, Counter()) + log.expiring[file_no]
        key, data = _expirations_of(file_no, hours).encode()
        fields = NO_LN | {"db_id": database.db_id, "key": key, "data": data}
        records[key] = log.entry("INS_LN", fields)
    return records


def _expirations_of(file_no: int, hours: Mapping[int, int]) -> Expirations:
    times = sorted(hour for hour, size in hours.items() if size)
    in_hours = any(hour % _HOURS_A_DAY for hour in times)
    unit = 1 if in_hours else _HOURS_A_DAY
    return Expirations(file_no, in_hours, tuple((time // unit, hours[time]) for time in times))
