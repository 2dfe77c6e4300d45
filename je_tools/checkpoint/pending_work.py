"""Work for a checkpoint: what the engine would do when it opens the log.

Source: je-log.md "Checkpoints"; RecoveryManager.recover, JE 18.3.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from je_tools.checkpoint.expiration_records import files_without_expirations
from je_tools.checkpoint.file_summaries import files_without_summary
from je_tools.checkpoint.new_databases import with_internal_databases
from je_tools.checkpoint.rollbacks import missing_invisible_marks
from je_tools.checkpoint.stale_records import finished_removals, stale_records
from je_tools.checkpoint.vlsn_records import is_outdated
from je_tools.formats.je.internal.names import UTILIZATION_DB, VLSN_MAP_DB
from je_tools.recovery.database import ID_DB, NAME_DB
from je_tools.recovery.interval_tables import DELETED

if TYPE_CHECKING:
    from je_tools.recovery.snapshot import Snapshot

_ALWAYS_CHANGED = (UTILIZATION_DB, VLSN_MAP_DB)
"""Databases that the engine's checkpoints change after they have written the trees of these."""


def is_needed(snapshot: Snapshot) -> bool:
    """Return True if a checkpoint would leave the engine less to do when it opens the environment.

    If the log ends with a checkpoint, the engine writes no other, even if it has to undo the same
    open transactions each time it opens the log.
    """
    if snapshot.checkpoint.end_lsn != snapshot.end.last_lsn:
        return True
    removed = nameless_databases(snapshot)
    if removed or finished_removals(snapshot, removed) or with_internal_databases(snapshot)[1]:
        return True
    if stale_records(snapshot):
        return True
    if files_without_summary(snapshot, snapshot.checkpoint.start_lsn) or files_without_expirations(
        snapshot
    ):
        return True
    if is_outdated(snapshot) or missing_invisible_marks(snapshot):
        return True
    return any(
        len(snapshot.overlay(db_id)) or database.root_lsn != database.stored_root_lsn
        for db_id, database in snapshot.databases.items()
        if database.name not in _ALWAYS_CHANGED and db_id != ID_DB
    )


def nameless_databases(snapshot: Snapshot) -> frozenset[int]:
    """Return the ids of databases that an unfinished removal or undone creation left nameless.

    A removal whose transaction stays open is left out: it may still be rolled back.
    """
    nameless = {
        db_id
        for db_id, database in snapshot.databases.items()
        if database.name is None and db_id not in (ID_DB, NAME_DB)
    }
    lns = snapshot.interval.lns
    open_removals = (lns.db_id == NAME_DB) & (lns.flags & DELETED != 0)
    open_removals &= np.isin(lns.txn_id, list(snapshot.kept_txns))
    for lsn in lns.lsn[open_removals].tolist():
        entry = snapshot.entry(lsn)
        if entry is not None:
            nameless.discard(int(entry.fields["name_db_id"]))
    return frozenset(nameless)
