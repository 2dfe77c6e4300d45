"""Last journal id of a StarRocks or Doris front end, to compare its nodes.

A journal is a database named by its first id in decimal, and its keys are ids.

Source: BDBJEJournal, StarRocks 3.3 and Doris 2.1; LongBinding, JE 18.3.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from je_tools.formats.je.tuples import TupleError, TupleReader, decode_whole

if TYPE_CHECKING:
    from je_tools.recovery.database import Database
    from je_tools.recovery.snapshot import Snapshot


def last_journal_id(snapshot: Snapshot) -> int | None:
    """Return the last id of the newest journal; None without a journal, or if it is damaged.

    Only keys are read, those of the last nodes of the newest journal that has any.
    """
    journals = {
        int(each.name): each
        for each in snapshot.databases.values()
        if each.name is not None
        and each.name.isascii()
        and each.name.isdigit()
        # Without an order of its keys, the last node need not have the last one.
        and not each.comparators
    }
    for _, database in sorted(journals.items(), reverse=True):
        last = _last_key(snapshot, database)
        if last is not None:
            try:
                return decode_whole(last, TupleReader.i64)
            except TupleError:
                return None
    return None


def _last_key(snapshot: Snapshot, database: Database) -> bytes | None:
    """Return the last key of a database; None without records."""
    reading = snapshot.reading(database, False, True)
    last: bytes | None = None
    for children in reversed(list(reading.children())):
        records, faults = reading.read(children)
        snapshot.faults.extend(faults)
        if len(records):
            last = records.key[len(records) - 1]
            break
    snapshot.faults.extend(reading.tree.faults)
    return last
