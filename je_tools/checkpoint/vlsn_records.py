"""Records of the VLSN index, which a checkpoint brings up to date.

They are written in one transaction. The log of a checkpoint without an end must have all of them
or none, because the engine does not continue with buckets that do not match their range.

Source: je-log.md "The VLSN index"; VLSNTracker.flushToDatabase,
UtilizationProfile.populateCache, JE 7.5.11 and 18.3.12.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from je_tools.checkpoint.record_changes import NO_LN, RecordChanges
from je_tools.errors import RefusedError
from je_tools.formats.je.flags import LnFlag, LnFlag2, LnFlag3
from je_tools.formats.je.header import NULL_LSN
from je_tools.formats.je.internal.names import VLSN_MAP_DB
from je_tools.formats.je.log.fetch import fetch
from je_tools.recovery.internal_databases import internal_database, is_replicated
from je_tools.recovery.utilization import record_places
from je_tools.vlsn import recovered
from je_tools.vlsn.index import MisfitError, VlsnIndex

if TYPE_CHECKING:
    from je_tools.checkpoint.log import CheckpointLog
    from je_tools.checkpoint.record_changes import WrittenEntry
    from je_tools.recovery.snapshot import Snapshot
    from je_tools.vlsn.stream import ReplicationStream


_ABORT_LSN_FLAG_SINCE, _NOBODY_SINCE = 12, 22
"""Log versions since which a flag marks an abort LSN, and since which nobody's id is -1, not 0."""


def is_outdated(snapshot: Snapshot) -> bool:
    """Return True if the engine would update the index when it opens the log.

    Raises:
        RefusedError: one of its records cannot be read.
    """
    with _refusing(snapshot):
        return recovered.is_outdated(snapshot)


def read_index(snapshot: Snapshot) -> VlsnIndex:
    """Return the index as stored in the database.

    Raises:
        RefusedError: one of its records cannot be read.
    """
    with _refusing(snapshot):
        return recovered.read_index(snapshot)


def index_to_be(snapshot: Snapshot, stream: ReplicationStream) -> VlsnIndex:
    """Return the index as the engine would have it after recovery.

    Args:
        snapshot: the log.
        stream: replication stream since the last checkpoint began.

    Raises:
        RefusedError: the engine would not continue, or would use VLSNs twice.
    """
    with _refusing(snapshot):
        return recovered.index_to_be(snapshot, stream)


def check_index(snapshot: Snapshot, stream: ReplicationStream) -> None:
    """Check that the index can be brought up to date, before anything is changed.

    Args:
        snapshot: the log.
        stream: replication stream since the last checkpoint began.

    Raises:
        RefusedError: the engine would not continue with it, or would use VLSNs twice.
    """
    index_to_be(snapshot, stream)


@contextmanager
def _refusing(snapshot: Snapshot) -> Iterator[None]:
    """Turn an index with which the engine would not continue into a refusal."""
    try:
        yield
    except MisfitError as error:
        raise RefusedError(
            f"{snapshot.environment.name}: the VLSN index does not match the log: {error}. A "
            "checkpoint would make that permanent, and the node would reuse VLSNs that other "
            "nodes have. Open the node with the engine and its group. If the engine refuses, "
            "restore the whole node from another one (network restore)."
        ) from error


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
