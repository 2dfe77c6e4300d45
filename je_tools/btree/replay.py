"""Replayed nodes: the place that recovery gives to each node logged since the last checkpoint.

The engine replays these nodes one by one, in log order. A logged root replaces the root if it is
newer. For any other node the engine descends from the root by the node's identifier key until a
slot leads to a node with the same id; if the slot names an older version, it takes the new one. A
node that is not found on this path is skipped. The root is never found: no slot names it.

This module decides the same for many slots at once. After the replay, a slot names the newest
version that

1. is not marked as a root, and has the node id of the node that the slot names;
2. has an identifier key in the key range of the slot;
3. is newer than the version that the slot names;
4. was logged after the replayed version of the node above, which brings its own slots.

Engines up to JE 5 replay twice if nodes of several levels of a database were logged. The second
pass brings back versions that the first lost by condition 4.

`docs/formats/je-log.md`, "Replay of nodes by sets", explains why the result is the same.

Source: RecoveryManager.replayINs, recoverIN, recoverRootIN, recoverChildIN and
Tree.getParentINForChildIN, JE 7.5.11, 18.3.12 and 25.3.17; RecoveryManager.buildINs,
repeatReadINs, LevelRecorder and IN.findParent, JE 5.0.73.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.formats.je.btree.keysort import order_keys, search_sorted
from je_tools.formats.je.header import NULL_LSN
from je_tools.formats.spans import Spans

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints


class KeyOrder(Struct, frozen=True):
    """The order of the keys of a database.

    Attributes:
        ordered: True if keys are ordered by their bytes, not by a comparator of the application.
        two_part: True for two-part keys, those of a database with duplicates.
    """

    ordered: bool = True
    two_part: bool = False

    @property
    def by_parts(self) -> bool:
        """True if keys are compared by their two parts."""
        return self.two_part and self.ordered

    def sort(self, keys: Spans) -> Ints:
        """Return the rows of `keys` in ascending order."""
        return order_keys(keys, two_part=self.by_parts)

    def before(self, keys: Spans, bounds: Spans, open_end: int) -> Ints:
        """Return the number of ascending `keys` before each bound; `open_end` for a null bound."""
        found = search_sorted(keys, bounds, two_part=self.by_parts)
        return np.where(bounds.sizes < 0, open_end, found)


class Since(Struct, frozen=True):
    """The LSN after which a version must be logged to get into a slot, in each pass of the replay.

    It is the LSN of the newest replayed version of a node above the slot: see condition 4.

    Attributes:
        last_lsn: int64; in the last pass; NULL_LSN if no node above was replayed.
        first_lsn: int64; in the pass before; NEVER if that pass did not see the slot.
    """

    last_lsn: Ints
    first_lsn: Ints

    def select(self, rows: Ints) -> Since:
        """Select rows by an index array."""
        return Since(self.last_lsn[rows], self.first_lsn[rows])


NEVER = 1 << 62
"""A number above any LSN."""


class ReplaySlots(Struct, frozen=True):
    """Slots of upper nodes, as replay sees them.

    Attributes:
        lsn: int64; LSN of the version that each slot names.
        since: LSNs after which versions count.
        low, high: key range [low, high) of each slot; a null bound is open.
    """

    lsn: Ints
    since: Since
    low: Spans
    high: Spans


class _Newest(Struct, frozen=True):
    """A table of the newest LSN in any range of keys within a group of nodes.

    Attributes:
        group: int64, distinct groups, ascending.
        place: int64, ascending; `group index * width + rank of the key` of each node.
        width: a number above the highest rank.
        newest_of: int64 arrays; the i-th holds the newest LSN of each 2**i consecutive nodes.
    """

    group: Ints
    place: Ints
    width: int
    newest_of: list[Ints]

    @classmethod
    def of(cls, groups: Ints, ranks: Ints, lsns: Ints) -> _Newest:
        """Build the table; all arguments have the same length."""
        group, index = np.unique(groups, return_inverse=True)
        width = len(groups) + 1
        place = index.astype(np.int64) * width + ranks
        order = np.argsort(place, kind="stable")
        newest = [lsns[order]]
        largest = int(np.bincount(index).max(initial=0))
        step = 1
        while 2 * step <= largest:
            newest.append(np.maximum(newest[-1][:-step], newest[-1][step:]))
            step *= 2
        return cls(group, place[order], width, newest)

    def find(self, groups: Ints, first: Ints, last: Ints) -> Ints:
        """Return the newest LSN of each group among ranks [first, last); NULL_LSN for none."""
        found = np.full(len(groups), NULL_LSN, np.int64)
        if not len(self.group):
            return found
        index = np.minimum(np.searchsorted(self.group, groups), len(self.group) - 1)
        known = self.group[index] == groups
        begin = np.searchsorted(self.place, index * self.width + first)
        end = np.searchsorted(self.place, index * self.width + last)
        for power, newest in enumerate(self.newest_of):
            step = 1 << power
            rows = np.flatnonzero(known & (end - begin >= step) & (end - begin < 2 * step))
            found[rows] = np.maximum(newest[begin[rows]], newest[end[rows] - step])
        return found


class Replayed(Struct, frozen=True, dict=True):
    """Nodes of one database that recovery replays, none of them marked as a root.

    Attributes:
        lsn: int64.
        node_id: int64.
        level: int64; as logged, without the bits that mark the tree.
        key: identifier keys; null for a node that has none.
        order: order of the keys.
        is_twice: True if the engine replays them twice.
    """

    lsn: Ints
    node_id: Ints
    level: Ints
    key: Spans
    order: KeyOrder
    is_twice: bool = False

    def __len__(self) -> int:
        return len(self.lsn)

    def place(self, node_ids: Ints, slots: ReplaySlots) -> tuple[Ints, Since]:
        """Decide which version of each node is in its slot after the replay.

        Args:
            node_ids: int64 (n,); ids of the nodes that the slots name.
            slots: these n slots.

        Returns:
            The LSN of each version, int64 (n,), and the LSNs after which versions count in the
            slots of that version.
        """
        if not self.is_twice:
            lsns = self._newest(node_ids, slots, slots.lsn, slots.since.last_lsn)
            last = np.where(lsns != slots.lsn, lsns, slots.since.last_lsn)
            return lsns, Since(last, last)
        once = self._newest(node_ids, slots, slots.lsn, slots.since.first_lsn)
        twice = self._newest(node_ids, slots, once, slots.since.last_lsn)
        again = twice != once
        last = np.where(again, twice, slots.since.last_lsn)
        first = np.where(once != slots.lsn, once, slots.since.first_lsn)
        return twice, Since(last, np.where(again, NEVER, first))

    def _newest(self, node_ids: Ints, slots: ReplaySlots, lsns: Ints, since_lsn: Ints) -> Ints:
        """Return the LSNs after one pass over slots that hold the versions at `lsns`."""
        if not len(self):
            return lsns
        after = np.maximum(lsns, since_lsn)
        rows = np.flatnonzero(self.newest_of_node(node_ids) > after)
        found = self._find(self._by_node, node_ids[rows], slots, rows)
        newest = lsns.copy()
        newest[rows] = np.where(found > after[rows], found, lsns[rows])
        return newest

    def newest_of_node(self, node_ids: Ints) -> Ints:
        """Return the newest LSN of each node wherever it is; NULL_LSN if it is not replayed."""
        ids, lsns = self._newest_by_id
        at = np.minimum(np.searchsorted(ids, node_ids), len(ids) - 1)
        return np.where(ids[at] == node_ids, lsns[at], NULL_LSN)

    def newest_at(self, level: int, slots: ReplaySlots, rows: Ints) -> Ints:
        """Return the LSNs of replacements for nodes that cannot be read.

        The ids of these nodes are unknown, so each slot gets the newest node of the level whose
        key leads there. If there is none, or keys have no known order, the slot keeps its LSN.

        Args:
            level: level of the nodes.
            slots: slots of one level.
            rows: int64; rows of the slots whose nodes cannot be read.
        """
        lsns = slots.lsn[rows]
        if not len(self) or not self.order.ordered:
            return lsns
        found = self._find(self._by_level, np.full(len(rows), level), slots, rows)
        return np.where(found > np.maximum(lsns, slots.since.last_lsn[rows]), found, lsns)

    def _find(self, table: _Newest, groups: Ints, slots: ReplaySlots, rows: Ints) -> Ints:
        first, last = np.zeros(len(rows), np.int64), np.full(len(rows), table.width - 1)
        if self.order.ordered and len(rows):
            keys = self.sorted_keys
            first = self.order.before(keys, slots.low.select(rows), 0)
            last = self.order.before(keys, slots.high.select(rows), len(keys))
        return table.find(groups, first, last)

    @cached_property
    def _newest_by_id(self) -> tuple[Ints, Ints]:
        """Distinct node ids, ascending, and the LSN of the newest version of each."""
        order = np.lexsort((self.lsn, self.node_id))
        node_id = self.node_id[order]
        last = np.append(np.diff(node_id) != 0, True)[: len(order)]
        return node_id[last], self.lsn[order][last]

    @cached_property
    def _usable(self) -> Ints:
        """The rows that can be placed, in key order if that is known."""
        if not self.order.ordered:
            return np.arange(len(self))
        rows = np.flatnonzero(self.key.sizes >= 0)
        ordered: Ints = rows[self.order.sort(self.key.select(rows))]
        return ordered

    @cached_property
    def sorted_keys(self) -> Spans:
        """The identifier keys, ascending; in log order if the order of keys is unknown."""
        return self.key.select(self._usable)

    @cached_property
    def _by_node(self) -> _Newest:
        rows = self._usable
        return _Newest.of(self.node_id[rows], np.arange(len(rows)), self.lsn[rows])

    @cached_property
    def _by_level(self) -> _Newest:
        rows = self._usable
        return _Newest.of(self.level[rows], np.arange(len(rows)), self.lsn[rows])


def nothing_replayed(order: KeyOrder) -> Replayed:
    """Return a `Replayed` without nodes."""
    none = np.empty(0, np.int64)
    return Replayed(none, none, none, Spans(np.empty(0, np.uint8), none, none), order)
