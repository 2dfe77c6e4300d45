"""The VLSN index of a node after recovery.

Recovery merges the stream since the last checkpoint began into the index, cuts off its end after a
rollback, and its head if reserved files are gone.

Source: je-log.md "The VLSN index"; VLSNIndex.init and merge, VLSNTracker, JE 7.5.11 and 18.3.12.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from je_tools.formats.je.flags import DbTreeFlag
from je_tools.formats.je.internal.names import VLSN_MAP_DB
from je_tools.formats.je.internal.records import Unreadable
from je_tools.formats.je.internal.replication import GhostBucket, VlsnBucket, VlsnRange
from je_tools.recovery.internal_databases import (
    environment_flags,
    internal_database,
    is_replicated,
)
from je_tools.recovery.interval_tables import INVISIBLE, REPLICATED
from je_tools.recovery.utilization import internal_records, reserved_files
from je_tools.vlsn.index import (
    EMPTY_RANGE,
    NO_VLSN,
    Bucket,
    BucketRules,
    Matchpoint,
    MisfitError,
    VlsnIndex,
    merge_stream,
    stream_after_rollbacks,
    without_head,
)
from je_tools.vlsn.stream import ReplicationStream

if TYPE_CHECKING:
    from je_tools.formats.je.log.entry_rows import Rows
    from je_tools.recovery.snapshot import Snapshot


class UnreadableIndexError(MisfitError):
    """A record of the index that cannot be read."""


def read_index(snapshot: Snapshot) -> VlsnIndex:
    """Return the index as stored in the database; empty if the database does not exist.

    Raises:
        UnreadableIndexError: one of its records cannot be read.
    """
    found, buckets = EMPTY_RANGE, list[Bucket]()
    for record in internal_records(snapshot, VLSN_MAP_DB):
        if isinstance(record, VlsnRange):
            found = record
        elif isinstance(record, VlsnBucket | GhostBucket):
            buckets.append(record)
        elif isinstance(record, Unreadable):
            raise UnreadableIndexError(f"one of its records is not readable: {record.reason}")
    database = internal_database(snapshot, VLSN_MAP_DB)
    if database is not None and any(
        fault.db_id == database.db_id for fault in snapshot.faults.damage
    ):
        raise UnreadableIndexError("one of its records is not readable")
    return VlsnIndex(found, buckets)


def is_outdated(snapshot: Snapshot) -> bool:
    """Return True if the engine would update the index when it opens the log.

    Raises:
        UnreadableIndexError: one of its records cannot be read.
    """
    if not is_replicated(snapshot):
        return False
    start = snapshot.checkpoint.start_lsn
    lns, ends = snapshot.interval.lns, snapshot.interval.ends
    shown = (lns.flags & (REPLICATED | INVISIBLE)) == REPLICATED
    if bool((shown & (lns.lsn >= start)).any()) or rollbacks_since_checkpoint(snapshot):
        return True
    if bool(((ends.txn_id < 0) & (ends.lsn >= start)).any()):
        return True
    gone = _lost_vlsns(snapshot)
    return gone is not None and read_index(snapshot).range.first <= gone[0]


def recovered_index(snapshot: Snapshot, stream: ReplicationStream) -> VlsnIndex:
    """Return the index as the engine would have it after recovery.

    Args:
        snapshot: the log.
        stream: result of `stream_since_checkpoint`.

    Raises:
        MisfitError: the engine would not continue the index, or would use VLSNs twice.
    """
    return merged_index(snapshot, read_index(snapshot), stream)


def merged_index(
    snapshot: Snapshot, index: VlsnIndex, stream: ReplicationStream, *, is_new: bool = False
) -> VlsnIndex:
    """Return what recovery makes of an index; see `recovered_index`.

    Args:
        snapshot: the log.
        index: the index that recovery would read.
        stream: replication stream since the last checkpoint began.
        is_new: True if the index is about to be written, so that its database need not exist.

    Raises:
        MisfitError: the engine would not continue the index, or would use VLSNs twice.
    """
    rollbacks = rollbacks_since_checkpoint(snapshot)
    matchpoint = rollbacks[-1][1] if rollbacks else None
    is_lacking = internal_database(snapshot, VLSN_MAP_DB) is None and not is_new
    if is_lacking and (len(stream) or rollbacks):
        raise MisfitError("its database does not exist yet")
    rules = BucketRules.of(Path(snapshot.environment.name))
    converted = bool(environment_flags(snapshot) & DbTreeFlag.CONVERTED)
    left = stream_after_rollbacks(stream, rollbacks)
    index = merge_stream(index, left, matchpoint, rules, converted=converted)
    gone = _lost_vlsns(snapshot)
    return index if gone is None else without_head(index, *gone)


def rollbacks_since_checkpoint(snapshot: Snapshot) -> list[tuple[int, Matchpoint]]:
    """Return the LSN and the matchpoint of each RollbackStart since the checkpoint began."""
    found = []
    for period in snapshot.interval.periods:
        entry = snapshot.entry(period.start_lsn)
        if period.start_lsn < snapshot.checkpoint.start_lsn or entry is None:
            continue
        if "matchpoint_vlsn" in entry.fields:
            point = Matchpoint(int(entry.fields["matchpoint_vlsn"]), period.matchpoint_lsn)
            found.append((period.start_lsn, point))
    return found


def stream_since_checkpoint(snapshot: Snapshot) -> ReplicationStream:
    """Read the replication stream since the last checkpoint began, up to the end of the log.

    Raises:
        StoppedError: a file shrank, vanished or was replaced meanwhile.
        InputError: a file cannot be read.
    """
    first_lsn, next_lsn = max(snapshot.checkpoint.start_lsn, 0), snapshot.end.next_lsn

    def select(rows: Rows) -> ReplicationStream:
        return ReplicationStream.of_rows(rows, first_lsn, next_lsn)

    files = tuple(file for file in snapshot.end.files if file.file_no >= first_lsn >> 32)
    scanner = replace(snapshot.scanner, progress=None)
    parts = scanner.scan(replace(snapshot.environment, files=files), select)
    return ReplicationStream.joined([each for part in parts for each in part.results])


def _lost_vlsns(snapshot: Snapshot) -> tuple[int, int] | None:
    """Return the last VLSN in missing reserved files, and the number of the file after them."""
    there = [file.file_no for file in snapshot.end.files]
    gone = [
        each
        for each in reserved_files(snapshot).values()
        if each.file_no not in there and each.last_vlsn != NO_VLSN
    ]
    if not gone:
        return None
    later = [number for number in there if number > gone[-1].file_no]
    return gone[-1].last_vlsn, later[0] if later else there[-1]
