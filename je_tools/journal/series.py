"""Databases of a front end: journals by series and first id, and the epochs.

Source: je-log.md "Journals of front ends"; BDBJEJournal.rollJournal, BDBEnvironment
.getDatabaseNamesWithPrefix, StarRocks 3.x; BDBJEJournal, Apache Doris 2.x.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from je_tools.recovery.database import Database

EPOCH_DB = "epochDB"
"""Name of the database that gets a record at each change of the leader."""

GROUP_NAME = "PALO_JOURNAL_GROUP"
"""Name of the replication group. Source: BDBEnvironment, StarRocks and Apache Doris."""

ID_MAX = (1 << 63) - 1
"""Largest journal id: a key is a long."""

_NAME = re.compile(r"(|.*_)(0|[1-9][0-9]{0,17})", re.DOTALL)


class JournalDatabase(Struct, frozen=True):
    """A database that is a journal.

    Attributes:
        database: the database.
        series: text before the number in its name, such as `starmgr_`; usually empty.
        named_id: number in its name, which is the first id that it may hold.
    """

    database: Database
    series: str
    named_id: int

    @property
    def name(self) -> str:
        """Name of the database."""
        return self.database.name or ""


def journals_among(databases: Iterable[Database]) -> list[JournalDatabase]:
    """Return the journals among databases, by series and first id."""
    found = []
    for each in databases:
        match = _NAME.fullmatch(each.name or "")
        if match and not each.is_internal:
            found.append(JournalDatabase(each, match[1], int(match[2])))
    return sorted(found, key=lambda each: (each.series, each.named_id))


def epochs_among(databases: Iterable[Database]) -> Database | None:
    """Return the database of epochs; None without one."""
    return next((each for each in databases if each.name == EPOCH_DB), None)
