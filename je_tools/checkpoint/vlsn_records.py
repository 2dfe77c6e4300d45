"""Records of the VLSN index, which a checkpoint brings up to date.

They are written in one transaction, so that an interrupted checkpoint leaves all of them or none:
the engine does not continue an index whose buckets do not match its range.

Source: je-log.md "The VLSN index"; VLSNTracker.flushToDatabase,
UtilizationProfile.populateCache, JE 7.5.11 and 18.3.12.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from je_tools.checkpoint.old_versions import old_versions
from je_tools.core.escaping import quoted
from je_tools.errors import RefusedError
from je_tools.formats.je.internal.names import VLSN_MAP_DB
from je_tools.formats.je.write.transactions import TransactionWriter
from je_tools.recovery.internal_databases import internal_database, is_replicated
from je_tools.vlsn import recovered_index
from je_tools.vlsn.index import MisfitError, VlsnIndex, from_bucket

if TYPE_CHECKING:
    from je_tools.checkpoint.checkpoint_log import CheckpointLog
    from je_tools.checkpoint.record_changes import RecordChanges
    from je_tools.recovery.snapshot import Snapshot
    from je_tools.vlsn.stream import ReplicationStream


def is_outdated(snapshot: Snapshot) -> bool:
    """Return True if the engine would update the index when it opens the log.

    Raises:
        RefusedError: one of its records cannot be read.
    """
    with _refusing(snapshot):
        return recovered_index.is_outdated(snapshot)


def read_index(snapshot: Snapshot) -> VlsnIndex:
    """Return the index as stored in the database.

    Raises:
        RefusedError: one of its records cannot be read.
    """
    with _refusing(snapshot):
        return recovered_index.read_index(snapshot)


def recovered_vlsn_index(snapshot: Snapshot, stream: ReplicationStream) -> VlsnIndex:
    """Return the index as the engine would have it after recovery.

    Args:
        snapshot: the log.
        stream: replication stream since the last checkpoint began.

    Raises:
        RefusedError: the engine would not continue, or would use VLSNs twice.
    """
    with _refusing(snapshot):
        return recovered_index.recovered_index(snapshot, stream)


@contextmanager
def _refusing(snapshot: Snapshot) -> Iterator[None]:
    """Turn the error of an index that the engine would not continue into a refusal."""
    try:
        yield
    except MisfitError as error:
        name = snapshot.environment.name
        raise RefusedError(
            f"{name}: the VLSN index does not match the log: {error}. A "
            "checkpoint would make that permanent, and the node would reuse VLSNs that other "
            f"nodes have. `je-tools vlsn rebuild {quoted(name)}` shows how to build it anew. "
            "Or restore the whole node from another one (network restore)."
        ) from error


def write_index(
    snapshot: Snapshot,
    stream: ReplicationStream,
    log: CheckpointLog,
    now_ms: int,
    first_vlsn: int | None = None,
) -> RecordChanges:
    """Bring the index up to date and return the changed records.

    Args:
        snapshot: the log.
        stream: replication stream since the last checkpoint began.
        log: log to append to.
        now_ms: current time.
        first_vlsn: first VLSN to keep, with which a bucket begins; None for all.

    Raises:
        RefusedError: the engine would not continue with the index, or would use VLSNs twice.
    """
    if not is_replicated(snapshot):
        return {}
    old = read_index(snapshot).encode()
    index = recovered_vlsn_index(snapshot, stream)
    if first_vlsn is not None:
        index = from_bucket(index, first_vlsn)
    new = index.encode()
    changes: dict[bytes, bytes | None] = dict.fromkeys(sorted(old.keys() - new.keys()))
    changes |= {key: data for key, data in new.items() if old.get(key) != data}
    if not changes:
        return {}
    database = internal_database(snapshot, VLSN_MAP_DB)
    assert database is not None
    transaction = TransactionWriter(log, log.last_ids.next_local("txn"), now_ms)
    replaced = old_versions(snapshot, database)
    written: RecordChanges = {}
    for key, data in changes.items():
        entry = transaction.write(database.db_id, key, data, replaced.get(key))
        written[key] = None if data is None else entry
    transaction.commit()
    return written
