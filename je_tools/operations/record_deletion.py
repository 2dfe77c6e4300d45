"""Deletion of records in one local transaction, so that an erasure can overwrite them.

The new entries hold the keys, but no data: they are erased as soon as a checkpoint follows them.

Source: je-log.md "Records"; Txn.commit, LN.optionalLog, JE 18.3.12.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from je_tools.append.operation import AppendLog, AppendOperation, PlannedChange
from je_tools.core.escaping import printable
from je_tools.errors import RefusedError
from je_tools.formats.je.btree.keys import join_two_part
from je_tools.formats.je.write.transactions import OldVersion
from je_tools.log.record_sets import RecordSet
from je_tools.operations.names import DELETION
from je_tools.operations.record_changes import WrittenRecord, other_changes
from je_tools.recovery.internal_databases import is_replicated

if TYPE_CHECKING:
    from je_tools.recovery.database import Database
    from je_tools.recovery.snapshot import Snapshot

Doomed = Mapping[int, Sequence[tuple[bytes, bytes | None]]]
"""Records to delete by database id: key, and data in a database with duplicates, else None."""


class RecordDeletion(AppendOperation):
    """The deletion of records of a standalone environment.

    Attributes:
        doomed: the records.
    """

    name = DELETION

    def __init__(self, doomed: Doomed) -> None:
        self.doomed = doomed

    def write(self, log: AppendLog) -> None:
        """Append the deletions and the Commit.

        Raises:
            RefusedError: the environment is replicated, a database has a comparator of its
                application, or a record does not exist any more.
        """
        snapshot = log.snapshot
        check_standalone(snapshot)
        transaction = log.local_transaction()
        for db_id, records in sorted(self.doomed.items()):
            database = snapshot.databases[db_id]
            _check_order(snapshot, database)
            for key, lsn in _places(snapshot, database, records):
                deletion = WrittenRecord(transaction, database, key, None, OldVersion(lsn, None))
                deletion.write(log, "it is to be erased")
        written = transaction.commit()
        log.note(PlannedChange("commit", written.lsn, "all deletions take effect at once"))

    def difference(self, before: Snapshot, after: Snapshot) -> str:
        """Check that the records are gone, and only they."""
        deleted = {
            db_id: _set_of(before.databases[db_id], records)
            for db_id, records in self.doomed.items()
        }
        return other_changes(before, after, (), deleted)


def check_standalone(snapshot: Snapshot) -> None:
    """Check that an environment is not replicated.

    Raises:
        RefusedError: it is.
    """
    if is_replicated(snapshot):
        raise RefusedError(
            f"{snapshot.environment.name}: the environment is replicated, so the other nodes would "
            "keep the records. Delete them through the application, then run `je-tools erase run "
            "--checkpoint-first --rewrite DB --apply` on every node"
        )


def _check_order(snapshot: Snapshot, database: Database) -> None:
    if database.comparators:
        raise RefusedError(
            f"{snapshot.environment.name}: database {printable(database.name or '')} has a "
            "comparator of its application, so only the application can delete records in it"
        )


def _places(
    snapshot: Snapshot, database: Database, records: Sequence[tuple[bytes, bytes | None]]
) -> list[tuple[bytes, int]]:
    """Return the keys of records as slots have them, and the LSNs of their entries.

    Raises:
        RefusedError: a record does not exist.
    """
    wanted = _set_of(database, records)
    found: dict[bytes, int] = {}
    two_part = database.has_duplicates
    for batch in snapshot.records(database, with_data=two_part, show_expired=True):
        rows = np.flatnonzero(wanted.holds(batch))
        for row, lsn in zip(rows.tolist(), batch.lsn[rows].tolist(), strict=True):
            key = batch.key[row] or b""
            found[join_two_part(key, batch.data[row]) if two_part else key] = lsn
    if len(found) < wanted.count:
        raise RefusedError(
            f"{snapshot.environment.name}: {wanted.count - len(found):,} records of database "
            f"{printable(database.name or '')} do not exist any more; run the command again"
        )
    return sorted(found.items())


def _set_of(database: Database, records: Sequence[tuple[bytes, bytes | None]]) -> RecordSet:
    return RecordSet.of(records, two_part=database.has_duplicates)
