"""What is wrong with a B-tree, place by place, and what it costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from msgspec import Struct, field

from je_tools.formats.arrays import Ints

LISTED = 100
"""Problems of one code and database that are told one by one."""


class Problem(Struct, frozen=True):
    """Something wrong in one place of a tree.

    Attributes:
        code: of the finding that it becomes.
        db_id: of the tree.
        lsn: of the entry that it is about: what a slot names, or the node itself.
        parent_lsn: of the node whose slot leads there, or is at fault; NULL_LSN for a root.
        slot: of that node; -1 for a root, or for all of the node.
        expected, found: what should be there, and what is.
        low, high: keys that cannot be read or found, from `low` on and below `high`, None where
            open; the same twice for one key.
        loses: whether any are.
    """

    code: str
    db_id: int
    lsn: int
    parent_lsn: int
    slot: int
    expected: str
    found: str
    low: bytes | None = None
    high: bytes | None = None
    loses: bool = True


class Problems(Struct):
    """Problems as they are found.

    Attributes:
        listed: those that are told one by one.
        unlisted: how many more there are of each code.
    """

    listed: list[Problem] = field(default_factory=list)
    unlisted: Counter[str] = field(default_factory=Counter)

    def add(self, code: str, rows: Ints, make: Callable[[int], Problem]) -> None:
        """Take the problems of some rows, of which the first are made."""
        self.listed += map(make, rows[:LISTED].tolist())
        if len(rows) > LISTED:
            self.unlisted[code] += len(rows) - LISTED

    def take(self, others: Problems, counts: Counter[str]) -> None:
        """Take those of a part of one tree.

        Args:
            others: of the part.
            counts: how many of each code the tree has so far; it is filled.
        """
        for each in others.listed:
            counts[each.code] += 1
            if counts[each.code] > LISTED:
                self.unlisted[each.code] += 1
            else:
                self.listed.append(each)
        self.unlisted += others.unlisted
