"""Last ids that a log has given to nodes, databases, transactions and scans.

Source: RecoveryManager.recover, CheckpointEnd, JE 18.3.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from je_tools.checkpoint.sequences import Sequences
from je_tools.formats.je.internal.cleaner import DatabaseExtinction, RecordExtinction
from je_tools.formats.je.internal.names import EXTINCT_SCANS_DB
from je_tools.recovery.utilization import internal_records

if TYPE_CHECKING:
    from je_tools.recovery.snapshot import Snapshot


def find_last_ids(snapshot: Snapshot) -> Sequences:
    """Return the last ids found in the checkpoint, the DbTree and what recovery replays."""
    sequences = Sequences()
    sequences.saw_fields(snapshot.checkpoint.fields)
    root = snapshot.entry(snapshot.checkpoint.root_lsn)
    sequences.saw_fields(root.fields if root is not None else {})
    sequences.saw_all("txn", snapshot.interval.lns.txn_id)
    sequences.saw_all("txn", snapshot.interval.ends.txn_id)
    sequences.saw_all("db", np.array(list(snapshot.databases), np.int64))
    sequences.saw_all("db", snapshot.interval.lns.db_id)
    for typed in internal_records(snapshot, EXTINCT_SCANS_DB):
        if isinstance(typed, DatabaseExtinction | RecordExtinction):
            sequences.saw("extinction", typed.scan_id)
    return sequences
