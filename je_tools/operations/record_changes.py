"""Changes to records by an operation: those that it writes, and those that must not be there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.append.operation import PlannedChange
from je_tools.checkpoint.comparison import NOTHING_DELETED, compare_records

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from je_tools.append.operation import AppendLog
    from je_tools.formats.je.write.transactions import OldVersion, TransactionWriter
    from je_tools.log.record_sets import RecordSet
    from je_tools.recovery.database import Database
    from je_tools.recovery.snapshot import Snapshot


class WrittenRecord(Struct, frozen=True):
    """A change to one record, and the transaction that makes it.

    Attributes:
        transaction: the transaction.
        database: the database.
        key: key of the record.
        data: its new data; None for a deletion.
        old: its present version; None if it does not exist.
    """

    transaction: TransactionWriter
    database: Database
    key: bytes
    data: bytes | None
    old: OldVersion | None

    def write(
        self, log: AppendLog, why: str, old_text: str | None = None, new_text: str | None = None
    ) -> None:
        """Append the LN, and note the change with the texts of both versions."""
        written = self.transaction.write(self.database.db_id, self.key, self.data, self.old)
        kind = "delete" if self.data is None else "insert" if self.old is None else "update"
        vlsn = None if self.transaction.next_vlsn is None else self.transaction.next_vlsn - 1
        log.note(
            PlannedChange(
                kind,
                written.lsn,
                why,
                vlsn=vlsn,
                db_id=self.database.db_id,
                db=self.database.name,
                key=self.key,
                old=old_text,
                new=new_text,
            )
        )


def other_changes(
    before: Snapshot,
    after: Snapshot,
    written: Container[str],
    deleted: Mapping[int, RecordSet] = NOTHING_DELETED,
) -> str:
    """Return a text on databases whose records have changed, but should not; empty for none.

    Args:
        before: the log before the operation.
        after: the log after it.
        written: names of the databases that the operation changes.
        deleted: records that the operation deletes, by database id.

    Raises:
        StoppedError: a file shrank meanwhile.
    """
    different = compare_records(before, after, written, deleted).different
    return f"the records of {', '.join(different)} have changed" if different else ""
