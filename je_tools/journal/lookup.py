"""Look-up of the records of a journal id, by a descent of the trees."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.btree.key_ranges import KeyRange
from je_tools.formats.je.log.fetch import fetch
from je_tools.formats.je.tuples import long_key
from je_tools.journal.payload import DecodedValue, decode_value
from je_tools.journal.series import journals_among
from je_tools.log.records import NO_VLSN

if TYPE_CHECKING:
    from je_tools.journal.series import JournalDatabase
    from je_tools.recovery.snapshot import Snapshot


class JournalRecord(Struct, frozen=True):
    """A record of a journal.

    Attributes:
        database: name of the journal.
        journal_id: its id.
        lsn, vlsn: of its entry; NULL_LSN and NO_VLSN if unknown.
        value: its value, decoded.
    """

    database: str
    journal_id: int
    lsn: int
    vlsn: int
    value: DecodedValue


def records_of_id(snapshot: Snapshot, journal_id: int) -> Iterator[JournalRecord]:
    """Yield the records of an id, one for each journal that has it.

    Series number their records separately, so that several journals may have an id.
    """
    inside = _range_of(journal_id)
    for journal in journals_among(snapshot.databases.values()):
        found = snapshot.records(journal.database, show_expired=True, inside=inside)
        for records in found:
            # Slots that hold a record have no VLSN of it.
            entries = fetch(snapshot.image, records.lsn)
            for row in range(len(records)):
                vlsn = int(records.vlsn[row])
                if vlsn == NO_VLSN and entries.good[row]:
                    vlsn = int(entries.vlsn[row])
                yield JournalRecord(
                    database=journal.name,
                    journal_id=journal_id,
                    lsn=int(records.lsn[row]),
                    vlsn=vlsn,
                    value=decode_value(records.data[row]),
                )


def has_id(snapshot: Snapshot, journal: JournalDatabase, journal_id: int) -> bool:
    """Return whether a journal has a record with an id."""
    inside = _range_of(journal_id)
    found = snapshot.records(journal.database, with_data=False, show_expired=True, inside=inside)
    return any(len(records) for records in found)


def _range_of(journal_id: int) -> KeyRange:
    return KeyRange(long_key(journal_id), long_key(journal_id) + b"\0")


def journal_for(snapshot: Snapshot, journal_id: int) -> str | None:
    """Return the name of the journal that should hold an id, of the first series; None for none."""
    names = [
        each.name
        for each in journals_among(snapshot.databases.values())
        if each.named_id <= journal_id and not each.series
    ]
    return names[-1] if names else None
