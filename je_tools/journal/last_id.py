"""Last journal id of a front end, to compare nodes: only the last records are read.

Source: je-log.md "Journals of front ends"; BDBJEJournal, StarRocks 3.3 and Apache Doris 2.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from je_tools.formats.je.tuples import TupleError, TupleReader, decode_whole
from je_tools.journal.series import journals_among

if TYPE_CHECKING:
    from je_tools.recovery.database import Database
    from je_tools.recovery.snapshot import Snapshot


def last_journal_id(snapshot: Snapshot) -> int | None:
    """Return the last id of the newest journal; None without a journal, or if it is damaged.

    Only keys are read, those of the last nodes of the newest journal that has any.
    """
    for journal in reversed(journals_among(snapshot.databases.values())):
        # With another order of its keys, the last node need not have the last id.
        if journal.series or journal.database.comparators:
            continue
        last, is_whole = _last_key(snapshot, journal.database)
        if not is_whole:
            return None
        if last is not None:
            try:
                return decode_whole(last, TupleReader.i64)
            except TupleError:
                return None
    return None


def _last_key(snapshot: Snapshot, database: Database) -> tuple[bytes | None, bool]:
    """Return the last key of a database, None without records; and False if it has damage.

    Faults are added to `snapshot.faults`.
    """
    reader = snapshot.record_reader(database, False, True)
    last: bytes | None = None
    for children in reversed(list(reader.children())):
        records, faults = reader.read(children)
        snapshot.faults.extend(faults)
        if len(records):
            last = records.key[len(records) - 1]
            break
    snapshot.faults.extend(reader.tree.faults)
    is_whole = all(fault.db_id != database.db_id for fault in snapshot.faults.damage)
    return last, is_whole
