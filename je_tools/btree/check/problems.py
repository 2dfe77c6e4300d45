"""Problems of B-trees: their places, and the keys that cannot be read because of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from msgspec import Struct, field

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints

LISTED = 100
"""Number of problems of one code in one database that are reported one by one."""

OPEN_MAX = 1 << 14
"""Number of stray slots of a tree that are judged by the versions in the log.

A crash leaves a few. Others are reported as records that are out of reach.
"""


class TreeProblem(Struct, frozen=True):
    """A problem in one place of a tree.

    Attributes:
        code: code of the finding.
        db_id: id of the database.
        lsn: LSN of the entry concerned: the one that a slot names, or the node itself.
        parent_lsn: LSN of the node whose slot leads there or is at fault; NULL_LSN for a root.
        slot: number of that slot; -1 for a root, or for the node as a whole.
        expected, found: texts for the finding.
        low, high: keys that cannot be read or found, [low, high); a bound of None is open. Both are
            the same for one key.
        loses: True if there are such keys.
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


class OpenSlot(Struct, frozen=True):
    """A stray slot whose record no search finds.

    Attributes:
        key: its key.
        lsn: LSN of its record.
        if_stale: its problem if the log holds a newer version of the record.
        if_newest: its problem if not.
    """

    key: bytes
    lsn: int
    if_stale: TreeProblem
    if_newest: TreeProblem


class TreeProblems(Struct):
    """A collection of problems.

    Attributes:
        listed: problems that are reported one by one.
        unlisted: number of further problems of each code.
        open_slots: stray slots that are not judged yet; the first OPEN_MAX of a tree.
    """

    listed: list[TreeProblem] = field(default_factory=list)
    unlisted: Counter[str] = field(default_factory=Counter)
    open_slots: list[OpenSlot] = field(default_factory=list)

    def add(self, code: str, rows: Ints, make: Callable[[int], TreeProblem]) -> None:
        """Add one problem a row; build only the first LISTED and count the others."""
        self.listed += map(make, rows[:LISTED].tolist())
        if len(rows) > LISTED:
            self.unlisted[code] += len(rows) - LISTED

    def merge(self, others: TreeProblems, counts: Counter[str]) -> None:
        """Merge the problems of a part of a tree.

        Args:
            others: problems of the part.
            counts: number of problems of each code found in the tree so far; updated.
        """
        self.merge_listed(others.listed, counts)
        self.unlisted += others.unlisted
        room = max(OPEN_MAX - len(self.open_slots), 0)
        self.open_slots += others.open_slots[:room]
        self.merge_listed([each.if_newest for each in others.open_slots[room:]], counts)

    def merge_listed(self, listed: Iterable[TreeProblem], counts: Counter[str]) -> None:
        """Merge some problems; `counts` as for `merge`."""
        for each in listed:
            counts[each.code] += 1
            if counts[each.code] > LISTED:
                self.unlisted[each.code] += 1
            else:
                self.listed.append(each)
