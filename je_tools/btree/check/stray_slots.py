"""Slots whose keys are outside the range of their node: stale copies, or records out of reach.

A crash can leave such slots, and the engine keeps them when it recovers, logs and closes: searches
never reach them, so nothing removes them. They are stale copies, unless the log holds no newer
version of the record. The engine's recovery itself can put records out of reach.

Source: je-log.md "Recovery"; Tree.getParentINForChildIN, Tree.getNextIN, JE 18.3.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from je_tools.btree.check.checked_nodes import CheckedNodes, near_descents
from je_tools.btree.check.expected_records import FoundRecord, classify_records
from je_tools.btree.check.problems import OpenSlot, TreeProblem
from je_tools.formats.je.btree.keysort import search_sorted
from je_tools.formats.je.header import NULL_LSN
from je_tools.formats.je.log.fetch import fetch
from je_tools.recovery.slot_matching import match_slots

if TYPE_CHECKING:
    from je_tools.btree.check.expected_records import ExpectedRecords
    from je_tools.btree.children import LoadedNodes
    from je_tools.btree.tree import Tree
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.spans import Spans

JUDGED_MAX = 1 << 14
"""Number of stray slots of a batch of nodes for which the tree is searched.

A crash leaves a few. In a hostile tree, all slots may be out of range, and each batch would read
the whole tree.
"""

_NO_LOSS = (FoundRecord.ABSENT, FoundRecord.ERASED, FoundRecord.BLANK)
"""States of a record that was not needed when the cleaner or an eraser came to it."""

_EXPECTED = "a key in the range that the parents give the node"
_UNREACHED = "a key outside of it, to which no search leads"
_STALE = "a key outside of it, with a stale copy of its record"
_LOST = "a key outside of it, whose record no search finds"


class StraySlots(Struct, frozen=True):
    """Slots of some nodes whose keys are outside the range of their node.

    Attributes:
        part: the nodes.
        row: int64, ascending; rows of the slots. Slots that are out of order are left out.
        is_lost: bool; True if the slot does not lead to the record of its key, or is not judged.
        is_open: bool; True if no search finds the record, so that it may be the newest version.
        is_twice: bool; mask of the nodes that are also in another place, which is right for them.
    """

    part: CheckedNodes
    row: Ints
    is_lost: Mask
    is_open: Mask
    is_twice: Mask

    def without(self, nodes: Mask) -> StraySlots:
        """Return the slots of all nodes but some."""
        stays = ~nodes[self.part.nodes.slot_node[self.row]]
        return StraySlots(
            self.part, self.row[stays], self.is_lost[stays], self.is_open[stays], self.is_twice
        )

    @property
    def lost(self) -> Ints:
        """The rows of slots that are known to be no stale copies."""
        return self.row[self.is_lost]

    @property
    def stale(self) -> Ints:
        """The rows of slots that are known to be stale copies."""
        return self.row[~self.is_lost & ~self.is_open]

    def stale_problem(self, row: int) -> TreeProblem:
        """Return the problem of a stale copy."""
        found = _UNREACHED if self.part.is_upper else _STALE
        return self.part.of_slot("tree-stray", row, _EXPECTED, found, loses=False)

    def lost_problem(self, row: int) -> TreeProblem:
        """Return the problem of a record that is out of reach."""
        return self.part.of_slot("tree-bounds", row, _EXPECTED, _LOST, loses=True)

    def open_slots(self) -> list[OpenSlot]:
        """Return the slots that are judged by the versions in the log."""
        slots = self.part.nodes.slots
        return [
            OpenSlot(
                slots.key[row] or b"",
                int(slots.lsn[row]),
                self.stale_problem(row),
                self.lost_problem(row),
            )
            for row in self.row[self.is_open].tolist()
        ]


class _InPlace(Struct, frozen=True):
    """Results of a search for some keys.

    Attributes:
        lsn: int64; LSN of each key's slot, NULL_LSN if there is none.
        node_id: int64; id of the node of a level on the way to each key, NULL_LSN if unreadable.
    """

    lsn: Ints
    node_id: Ints


def stray_slots(part: CheckedNodes, expected: ExpectedRecords) -> StraySlots:
    """Find the stray slots of some nodes, and judge them by a search of the tree.

    A slot of an upper node has no record; the slots of BINs below it are judged for themselves.
    """
    row = np.flatnonzero(part.outside & ~near_descents(part))
    is_lost, is_open = np.zeros((2, len(row)), np.bool_)
    is_twice = np.zeros(len(part.nodes), np.bool_)
    found = StraySlots(part, row, is_lost, is_open, is_twice)
    if not len(row):
        return found
    judged = np.arange(min(len(row), JUDGED_MAX))
    slots = part.nodes.slots.select(row[judged])
    tree = part.tree
    in_place = _in_place(tree, slots.key, part.children.level)
    owner = part.nodes.slot_node[row[judged]]
    is_twice[owner[part.nodes.node_id[owner] == in_place.node_id]] = True
    if part.is_upper:
        return found
    is_lost[len(judged) :] = True
    live = ~slots.deleted & (slots.lsn != NULL_LSN) & (in_place.lsn < slots.lsn)
    live &= (slots.expires_ms <= 0) | (slots.expires_ms >= expected.now_ms)
    live &= ~match_slots(tree, expected.overlay.key, slots)[1]
    live &= ~expected.cleaner.is_obsolete(slots.lsn)
    asked = np.flatnonzero(live)
    slots = slots.select(asked)
    record, _ = classify_records(tree, fetch(tree.image, slots.lsn), slots, expected.family)
    is_open[asked] = record == FoundRecord.GOOD
    is_wrong = (record != FoundRecord.GOOD) & ~np.isin(record, _NO_LOSS)
    # A slot may lead to a tree of duplicates.
    is_lost[asked] = is_wrong & ~(tree.old_duplicates & (record == FoundRecord.OTHER_TYPE))
    return found


def _in_place(tree: Tree, keys: Spans, level: int) -> _InPlace:
    """Search the tree for keys.

    Args:
        tree: the tree.
        keys: in any order, with repetitions.
        level: level of the nodes whose ids are returned.
    """
    order = tree.order.sort(keys)
    ascending = keys.select(order)
    found = _InPlace(*np.full((2, len(keys)), NULL_LSN, np.int64))
    # Other threads have their own faults.
    tree = replace(tree, faults=[])

    def see(loaded: LoadedNodes) -> None:
        if loaded.children.level == level:
            first = tree.order.before(ascending, loaded.children.low, 0)
            last = tree.order.before(ascending, loaded.children.high, len(keys))
            for row in np.flatnonzero(first < last).tolist():
                found.node_id[first[row] : last[row]] = loaded.nodes.node_id[row]

    for children in tree.unread_bins(ascending, seen=see):
        loaded = tree.read(children)
        see(loaded)
        slots = loaded.nodes.slots.select(tree.are_in_range(loaded))
        at, same = match_slots(tree, ascending, slots)
        found.lsn[at[same]] = slots.lsn[same]
    # A slot matches the first of equal keys.
    first = search_sorted(ascending, ascending, two_part=tree.by_parts)
    back = np.argsort(order)
    return _InPlace(found.lsn[first][back], found.node_id[back])
