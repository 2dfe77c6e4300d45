"""Records of the VLSN index, which a checkpoint brings up to date.

They are written in one transaction. The log of a checkpoint without an end must have all of them
or none, because the engine does not continue with buckets that do not match their range.

Source: je-log.md "The VLSN index"; VLSNIndex.init, VLSNTracker.flushToDatabase,
UtilizationProfile.populateCache, JE 7.5.11 and 18.3.12.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from je_tools.checkpoint.internal_databases import (
    environment_flags,
    internal_database,
    is_replicated,
)
from je_tools.checkpoint.record_changes import NO_LN, RecordChanges
from je_tools.checkpoint.vlsn_index import (
    EMPTY_RANGE,
    NO_VLSN,
    Bucket,
    BucketRules,
    Matchpoint,
    MisfitError,
    VlsnIndex,
    merged,
    tracked,
    without_head,
)
from je_tools.errors import RefusedError
from je_tools.formats.je.flags import DbTreeFlag, LnFlag, LnFlag2, LnFlag3
from je_tools.formats.je.header import NULL_LSN
from je_tools.formats.je.internal.names import VLSN_MAP_DB
from je_tools.formats.je.internal.records import Unreadable
from je_tools.formats.je.internal.replication import GhostBucket, VlsnBucket, VlsnRange
from je_tools.formats.je.log.fetch import fetch
from je_tools.recovery.interval_tables import INVISIBLE, REPLICATED
from je_tools.recovery.utilization import internal_records, record_places, reserved_files

if TYPE_CHECKING:
    from je_tools.checkpoint.log import CheckpointLog
    from je_tools.checkpoint.record_changes import WrittenEntry
    from je_tools.checkpoint.replication_stream import ReplicationStream
    from je_tools.recovery.snapshot import Snapshot


_ABORT_LSN_FLAG_SINCE, _NOBODY_SINCE = 12, 22
"""Log versions since which a flag marks an abort LSN, and since which nobody's id is -1, not 0."""


def is_outdated(snapshot: Snapshot) -> bool:
    """Return True if the engine would update the index when it opens the log."""
    if not is_replicated(snapshot):
        return False
    start = snapshot.checkpoint.start_lsn
    lns, ends = snapshot.interval.lns, snapshot.interval.ends
    shown = (lns.flags & (REPLICATED | INVISIBLE)) == REPLICATED
    if bool((shown & (lns.lsn >= start)).any()) or _rollbacks(snapshot):
        return True
    if bool(((ends.txn_id < 0) & (ends.lsn >= start)).any()):
        return True
    gone = _lost_vlsns(snapshot)
    return gone is not None and read_index(snapshot).range.first <= gone[0]


def _rollbacks(snapshot: Snapshot) -> list[tuple[int, Matchpoint]]:
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


def read_index(snapshot: Snapshot) -> VlsnIndex:
    """Return the index as stored in the database.

    Raises:
        RefusedError: one of its records cannot be read.
    """
    found, buckets = EMPTY_RANGE, list[Bucket]()
    for record in internal_records(snapshot, VLSN_MAP_DB):
        if isinstance(record, VlsnRange):
            found = record
        elif isinstance(record, VlsnBucket | GhostBucket):
            buckets.append(record)
        elif isinstance(record, Unreadable):
            raise _refused(snapshot, f"one of its records is not readable: {record.reason}")
    database = internal_database(snapshot, VLSN_MAP_DB)
    if database is not None and any(
        fault.db_id == database.db_id for fault in snapshot.faults.damage
    ):
        raise _refused(snapshot, "one of its records is not readable")
    return VlsnIndex(found, buckets)


def index_to_be(snapshot: Snapshot, stream: ReplicationStream) -> VlsnIndex:
    """Return the index as the engine would have it after recovery.

    Args:
        snapshot: the log.
        stream: replication stream since the last checkpoint began.

    Raises:
        RefusedError: the engine would not continue, or would use VLSNs twice.
    """
    rollbacks = _rollbacks(snapshot)
    matchpoint = rollbacks[-1][1] if rollbacks else None
    if internal_database(snapshot, VLSN_MAP_DB) is None and (len(stream) or rollbacks):
        raise _refused(snapshot, "its database does not exist yet")
    rules = BucketRules.of(Path(snapshot.environment.name))
    index, gone = read_index(snapshot), _lost_vlsns(snapshot)
    converted = bool(environment_flags(snapshot) & DbTreeFlag.CONVERTED)
    try:
        left = tracked(stream, rollbacks)
        index = merged(index, left, matchpoint, rules, converted=converted)
        return index if gone is None else without_head(index, *gone)
    except MisfitError as error:
        raise _refused(snapshot, str(error)) from error


def check_index(snapshot: Snapshot, stream: ReplicationStream) -> None:
    """Check that the index can be brought up to date, before anything is changed.

    Args:
        snapshot: the log.
        stream: replication stream since the last checkpoint began.

    Raises:
        RefusedError: the engine would not continue with it, or would use VLSNs twice.
    """
    index_to_be(snapshot, stream)


def _refused(snapshot: Snapshot, what: str) -> RefusedError:
    return RefusedError(
        f"{snapshot.environment.name}: the VLSN index does not match the log: {what}. A "
        "checkpoint would make that permanent, and the node would reuse VLSNs that other "
        "nodes have. Open the node with the engine and its group. If the engine refuses, "
        "restore the whole node from another one (network restore)."
    )


def write_index(
    snapshot: Snapshot, stream: ReplicationStream, log: CheckpointLog, now_ms: int
) -> RecordChanges:
    """Bring the index up to date and return the changed records.

    Args:
        snapshot: the log.
        stream: replication stream since the last checkpoint began.
        log: log to append to.
        now_ms: current time.

    Raises:
        RefusedError: the engine would not continue with the index, or would use VLSNs twice.
    """
    if not is_replicated(snapshot):
        return {}
    old = read_index(snapshot).encode()
    new = index_to_be(snapshot, stream).encode()
    changed = {key: data for key, data in new.items() if old.get(key) != data}
    gone = dict.fromkeys(old.keys() - new.keys())
    if not changed and not gone:
        return {}
    return _LocalTransaction(snapshot, log, now_ms).write({**gone, **changed})


class _LocalTransaction:
    """A local transaction that writes records of the index."""

    def __init__(self, snapshot: Snapshot, log: CheckpointLog, now_ms: int) -> None:
        database = internal_database(snapshot, VLSN_MAP_DB)
        assert database is not None
        self.log = log
        self.db_id = database.db_id
        self.txn_id = log.sequences.local["txn"] + 1
        log.sequences.saw("txn", self.txn_id)
        self.now_ms = now_ms
        self.last_lsn = NULL_LSN
        self.slots = dict(record_places(snapshot, VLSN_MAP_DB))
        lsns = np.array(list(self.slots.values()), np.int64)
        sizes = fetch(snapshot.image, lsns).size
        self.sizes = dict(zip(self.slots, sizes.tolist(), strict=True))

    def write(self, records: Mapping[bytes, bytes | None]) -> RecordChanges:
        """Append LNs and the Commit; None removes a record."""
        written: RecordChanges = {key: self._write(key, data) for key, data in records.items()}
        nobody = 0 if self.log.version < _NOBODY_SINCE else -1
        fields = {"last_lsn": self.last_lsn, "txn_id": self.txn_id, "time_ms": self.now_ms}
        fields |= {"master_node_id": nobody, "dtvlsn": 0, "master_term": 0}
        self.log.entry("Commit", fields)
        return written

    def _write(self, key: bytes, data: bytes | None) -> WrittenEntry | None:
        slot = self.slots.get(key)
        fields: dict[str, Any] = {**NO_LN, "db_id": self.db_id, "key": key, "data": data}
        fields |= {"txn_id": self.txn_id, "txn_prev_lsn": self.last_lsn, "abort_lsn": NULL_LSN}
        fields |= {"modified_ms": self.now_ms, "created_ms": 0}
        if slot is None:
            name = "INS_LN_TX"
            fields |= {"flags3": LnFlag3.CREATED_IN_INSERT}
        else:
            name = "DEL_LN_TX" if data is None else "UPD_LN_TX"
            flags = LnFlag.ABORT_LSN if self.log.version >= _ABORT_LSN_FLAG_SINCE else 0
            fields |= {"flags": flags, "abort_lsn": slot}
            fields |= {"flags2": LnFlag2.PRIOR_SIZE, "prior_size": self.sizes[key]}
        if slot is not None and data is None:
            fields |= {
                "flags2": LnFlag2.PRIOR_SIZE | LnFlag2.PRIOR_FILE,
                "prior_file_no": slot >> 32,
            }
        written = self.log.entry(name, fields)
        self.last_lsn = written.lsn
        return None if data is None else written
