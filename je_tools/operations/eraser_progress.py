"""Update of the eraser's record: its cycle, and the files that are done.

The engine's eraser reads the same record when it starts, so that engine and tool take turns.

Source: je-log.md "Data eraser"; DataEraser.storeState, JE 18.3.12 and 25.3.17.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from je_tools.append.new_trees import append_database
from je_tools.append.operation import AppendLog, AppendOperation
from je_tools.checkpoint.old_versions import old_versions
from je_tools.formats.je.internal.names import METADATA_DB
from je_tools.operations.names import PROGRESS
from je_tools.operations.record_changes import WrittenRecord, other_changes
from je_tools.recovery.internal_databases import internal_database, is_replicated
from je_tools.recovery.utilization import internal_records

if TYPE_CHECKING:
    from je_tools.formats.je.internal.cleaner import EraserState
    from je_tools.recovery.snapshot import Snapshot


class EraserProgress(AppendOperation):
    """The update of the eraser's record.

    Attributes:
        state: the new record.
    """

    name = PROGRESS

    def __init__(self, state: EraserState) -> None:
        self.state = state

    def write(self, log: AppendLog) -> None:
        """Append the record in a transaction, and the database first if the log has none."""
        database = internal_database(log.snapshot, METADATA_DB)
        old = {} if database is None else old_versions(log.snapshot, database)
        if database is None:
            database, _ = append_database(log, METADATA_DB, is_member=is_replicated(log.snapshot))
        key, data = self.state.encode()
        transaction = log.local_transaction()
        record = WrittenRecord(transaction, database, key, data, old.get(key))
        record.write(log, "the files that are done in this cycle")
        transaction.commit()

    def difference(self, before: Snapshot, after: Snapshot) -> str:
        """Compare the record with the new one, and all other records with those of before."""
        if list(internal_records(after, METADATA_DB)) != [self.state]:
            return "the eraser's record is not the new one"
        return other_changes(before, after, {METADATA_DB})
