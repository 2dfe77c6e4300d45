"""Databases of two environments, paired by name, and their differences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.diff.records import ChangedRecords, Comparison, RecordChange

if TYPE_CHECKING:
    from je_tools.recovery.database import Database
    from je_tools.recovery.snapshot import Snapshot

BY_ID = "id:"
"""Prefix of an id that is given instead of a name."""


class Pair(Struct, frozen=True):
    """A database of two snapshots, paired by name; None on a side that lacks it.

    Attributes:
        name: name of the database; None if no name leads to it, so that it is paired by id.
        a, b: the database in each snapshot.
    """

    name: str | None
    a: Database | None
    b: Database | None

    @property
    def either(self) -> Database:
        """The database in `a`, or else in `b`."""
        database = self.a or self.b
        assert database is not None
        return database

    @property
    def label(self) -> str:
        """The name, or the id as `--db` takes it."""
        return f"{BY_ID}{self.either.db_id}" if self.name is None else self.name

    @property
    def kinds_differ(self) -> bool:
        """True if exactly one of the two databases has duplicates."""
        both = self.a is not None and self.b is not None
        return both and len({side.has_duplicates for side in self.sides}) > 1

    @property
    def sides(self) -> list[Database]:
        """The databases that exist: one or two."""
        return [side for side in (self.a, self.b) if side is not None]

    def is_called(self, name: str) -> bool:
        """Return True if this is its name, or `id:7` for its id in either snapshot."""
        if name.startswith(BY_ID):
            return any(f"{BY_ID}{side.db_id}" == name for side in self.sides)
        return name == self.name


class DatabaseDifferences(Struct):
    """Summary of the differences between two databases.

    Attributes:
        pair: the two databases.
        only_a_count, only_b_count, changed_count: numbers of records.
    """

    pair: Pair
    only_a_count: int = 0
    only_b_count: int = 0
    changed_count: int = 0

    @property
    def state(self) -> str:
        """Result: `only-a`, `only-b`, `other-kind`, `differs` or `same`."""
        if self.pair.a is None:
            return "only-b"
        if self.pair.b is None:
            return "only-a"
        if self.pair.kinds_differ:
            return "other-kind"
        return "differs" if self.differs else "same"

    @property
    def differs(self) -> bool:
        """True if one side lacks the database, or the kinds or any records differ."""
        alike = None not in (self.pair.a, self.pair.b) and not self.pair.kinds_differ
        return not alike or bool(self.only_a_count or self.only_b_count or self.changed_count)

    def add(self, changes: ChangedRecords) -> None:
        """Add the counts of a batch of changes."""
        counts = np.bincount(changes.change, minlength=len(RecordChange))
        self.only_a_count += int(counts[RecordChange.ONLY_A])
        self.only_b_count += int(counts[RecordChange.ONLY_B])
        self.changed_count += int(counts[RecordChange.CHANGED_A])


def pairs(a: Snapshot, b: Snapshot, names: tuple[str, ...], *, internal: bool) -> list[Pair]:
    """Pair the databases of two snapshots by name.

    Args:
        a, b: the snapshots.
        names: names to include, or `id:7` for an id in either snapshot; empty for all that have a
            name.
        internal: if `names` is empty, include internal databases.
    """
    sides = [
        {
            (each.name, each.db_id if each.name is None else 0): each
            for each in of.databases.values()
        }
        for of in (a, b)
    ]
    found = [Pair(key[0], sides[0].get(key), sides[1].get(key)) for key in sides[0] | sides[1]]
    found.sort(key=lambda pair: pair.label)
    if names:
        return [pair for pair in found if any(map(pair.is_called, names))]
    named = [pair for pair in found if pair.name is not None]
    return [pair for pair in named if internal or not pair.either.is_internal]


def differences(a: Snapshot, b: Snapshot, pair: Pair) -> Iterator[ChangedRecords]:
    """Yield the differences of a database, in key order."""
    how = Comparison(
        by_data=any(side.has_duplicates for side in pair.sides),
        ordered=not any(side.comparators for side in pair.sides),
    )
    yield from how.differences(
        a.records(pair.a) if pair.a is not None else iter(()),
        b.records(pair.b) if pair.b is not None else iter(()),
    )
