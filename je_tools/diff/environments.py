"""The databases of two environments, and what differs in each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from je_tools.diff.records import Change, Changes, Comparison
from je_tools.snapshot import Database, Snapshot


@dataclass(frozen=True)
class Pair:
    """A database by its name in two snapshots; None where it is not there."""

    name: str
    a: Database | None
    b: Database | None

    @property
    def either(self) -> Database:
        """One of them."""
        database = self.a or self.b
        assert database is not None
        return database


@dataclass
class Tally:
    """How two databases differ.

    Attributes:
        pair: which.
        only_a_count, only_b_count, changed_count: records.
    """

    pair: Pair
    only_a_count: int = 0
    only_b_count: int = 0
    changed_count: int = 0

    @property
    def state(self) -> str:
        """In a word."""
        if self.pair.a is None:
            return "only-b"
        if self.pair.b is None:
            return "only-a"
        return "differs" if self.differs else "same"

    @property
    def differs(self) -> bool:
        """Whether anything does."""
        lone = self.pair.a is None or self.pair.b is None
        return lone or bool(self.only_a_count or self.only_b_count or self.changed_count)

    def add(self, changes: Changes) -> None:
        """Count some more."""
        counts = np.bincount(changes.change, minlength=len(Change))
        self.only_a_count += int(counts[Change.ONLY_A])
        self.only_b_count += int(counts[Change.ONLY_B])
        self.changed_count += int(counts[Change.CHANGED_A])


def pairs(a: Snapshot, b: Snapshot, names: tuple[str, ...], *, internal: bool) -> list[Pair]:
    """The databases of both, by name.

    Args:
        a, b: the snapshots.
        names: only these; empty for all.
        internal: where none is named, those of the engine too.
    """
    named = [
        {each.name: each for each in snapshot.databases.values() if each.name is not None}
        for snapshot in (a, b)
    ]
    found = [Pair(name, named[0].get(name), named[1].get(name)) for name in named[0] | named[1]]
    found.sort(key=lambda pair: pair.name)
    if names:
        return [pair for pair in found if pair.name in names]
    return [pair for pair in found if internal or not pair.either.is_internal]


def differences(a: Snapshot, b: Snapshot, pair: Pair) -> Iterator[Changes]:
    """What differs in a database, in the order of its keys."""
    sides = (pair.a, pair.b)
    there = [side for side in sides if side is not None]
    how = Comparison(
        two_part=any(side.has_duplicates and not side.old_duplicates for side in there),
        ordered=not any(side.comparators for side in there),
        fast=a.fast or b.fast,
    )
    yield from how.differences(
        a.records(pair.a) if pair.a is not None else iter(()),
        b.records(pair.b) if pair.b is not None else iter(()),
    )
