"""The B-tree of one database as recovery leaves it before LNs are undone and redone.

The tree is read from its root down, many nodes at once. Each slot gets the version of the node that
recovery puts there (`je_tools.btree.replay`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from je_tools.btree.children import NODES_AT_ONCE, Children, LoadedNodes, batch_size_below, bound
from je_tools.btree.fault_kinds import Fault, FaultKind
from je_tools.btree.node_reader import NodeReader
from je_tools.btree.number_set import NumberSet
from je_tools.btree.replay import Since
from je_tools.formats.je.btree.node_merging import within
from je_tools.formats.je.btree.nodes import IN_NO, Nodes, read_nodes
from je_tools.formats.je.header import NULL_LSN
from je_tools.formats.je.log.fetch import Found, fetch
from je_tools.formats.spans import Spans, joined_spans

if TYPE_CHECKING:
    from je_tools.btree.key_ranges import KeyRange
    from je_tools.formats.arrays import Ints, Mask


class _Descent(Struct):
    """Settings and state of one descent through the tree by `unread_bins`.

    Attributes:
        choose: selects the children to read or yield.
        seen: called with the upper nodes that were read; None for nothing.
        at_once: largest number of BINs to yield together.
        with_lost: True to yield unreadable upper nodes too.
        read, named: LSNs of the upper nodes read, and of all children chosen. Each node is visited
            once, since the number of paths through a damaged tree may be exponential.
    """

    choose: Callable[[Children], Children]
    seen: Callable[[LoadedNodes], None] | None
    at_once: int
    with_lost: bool
    read: NumberSet = field(default_factory=NumberSet)
    named: NumberSet = field(default_factory=NumberSet)


class Tree(NodeReader, frozen=True):
    """The B-tree of one database.

    Attributes:
        root_lsn: LSN of the root; NULL_LSN for a database without one.
        old_duplicates: True if duplicates are in separate trees, as before log version 8.
        faults: faults of upper nodes so far. Threads read BINs, whose faults are in `LoadedNodes`.
    """

    root_lsn: int
    old_duplicates: bool = False
    faults: list[Fault] = field(default_factory=list)

    def root(self) -> Children:
        """Return the root, unread; there must be one."""
        lone, none = np.array([self.root_lsn], np.int64), np.array([NULL_LSN], np.int64)
        # Engines that replay twice place roots and other nodes together in log order: in the first
        # pass, nodes older than the root are lost.
        first = lone if self.replayed.is_twice else none
        since = Since(none, first)
        return Children(lone, none, bound(None), bound(None), since, np.ones(1, np.bool_), 0)

    def unread_bins(
        self,
        keys: Spans | None = None,
        *,
        inside: KeyRange | None = None,
        seen: Callable[[LoadedNodes], None] | None = None,
        at_once: int = NODES_AT_ONCE,
        with_lost: bool = False,
    ) -> Iterator[Children]:
        """Yield the BINs, unread, in key order.

        Args:
            keys: ascending; yield only BINs whose range holds one of these. Ignored if the order
                of keys is unknown.
            inside: yield only BINs whose range overlaps this one. Ignored if the order of keys is
                unknown.
            seen: called with the upper nodes as they are read.
            at_once: largest number of BINs to yield together.
            with_lost: if an upper node cannot be read, yield it in place of the BINs below it.
                Reading it again gives no slots, and the same faults.
        """

        def choose(children: Children) -> Children:
            if keys is not None and self.ordered:
                children = children.select(self.holding(children, keys))
            if inside is not None and self.ordered:
                children = children.select(self._overlapping(children, inside))
            return children

        if self.root_lsn != NULL_LSN:
            yield from self._below(self.root(), _Descent(choose, seen, at_once, with_lost))

    def _below(self, parents: Children, descent: _Descent) -> Iterator[Children]:
        loaded = self.read(parents)
        self.faults.extend(loaded.faults)
        if descent.seen is not None:
            descent.seen(loaded)
        again = loaded.nodes.good & ~descent.read.first_times(loaded.nodes.lsn)
        self.faults.extend(self._shared(loaded.nodes.lsn, loaded.children, again))
        upper = replace(loaded, nodes=loaded.nodes.without(again))
        children, first = self.children_of(upper), upper.nodes.first
        lost = np.flatnonzero(~loaded.nodes.good) if descent.with_lost else np.empty(0, np.int64)
        begin = 0
        descent = replace(descent, at_once=batch_size_below(upper.nodes, descent.at_once))
        for row in lost.tolist():
            yield from self._named_below(children.select(slice(begin, first[row])), descent)
            yield loaded.children.select(slice(row, row + 1))
            begin = int(first[row])
        yield from self._named_below(children.select(slice(begin, None)), descent)

    def _named_below(self, children: Children, descent: _Descent) -> Iterator[Children]:
        children = descent.choose(children)
        new = descent.named.first_times(children.lsn) | (children.lsn == NULL_LSN)
        self.faults.extend(self._shared(children.lsn, children, ~new))
        children = children.select(new)
        are_bins = children.level <= 1
        size = descent.at_once if are_bins else NODES_AT_ONCE
        for first in range(0, len(children), size):
            some = children.select(slice(first, first + size))
            if are_bins:
                yield some
            else:
                yield from self._below(some, descent)

    def _shared(self, lsns: Ints, children: Children, again: Mask) -> list[Fault]:
        """Return one fault for each node that is reached by more than one path."""
        found = {}
        for row in np.flatnonzero(again).tolist():
            found[int(lsns[row])] = Fault(
                FaultKind.SHARED,
                self.db_id,
                int(lsns[row]),
                int(children.parent_lsn[row]),
                children.low[row],
                children.high[row],
            )
        return list(found.values())

    def splits_cut_short(self) -> list[Fault]:
        """Return faults for full nodes that the engine was about to split when the log ended.

        The engine splits a node right after the one below took its last free slot. In between,
        engines before JE 6 log the full node so that recovery uses it; later engines do so only
        below a new root.
        """
        if self.root_lsn == NULL_LSN:
            return []
        keys, faults = self._keys_of_full_nodes(), []
        children = self.children_of(self.read(self.root()))
        under_lone_slot = len(children) == 1
        if not under_lone_slot:
            children = children.select(self.holding(children, keys))
        while len(children) and (under_lone_slot or children.level > 1):
            loaded, under_lone_slot = self.read(children), False
            full = np.flatnonzero(loaded.nodes.good & loaded.nodes.is_full)
            faults += [self._fault(FaultKind.SPLIT_CUT_SHORT, loaded, row) for row in full.tolist()]
            below = self.children_of(loaded)
            children = below.select(self.holding(below, keys))
        return faults

    def _keys_of_full_nodes(self) -> Spans:
        """Return the identifier keys, ascending, of full upper nodes that recovery replays."""
        entries = fetch(self.image, self.replayed.lsn, check=False)
        lsns = entries.lsn[(entries.found >= Found.BAD) & (entries.type == IN_NO)]
        nodes = read_nodes(fetch(self.image, lsns))
        keys = nodes.identifier_key.select(nodes.good & nodes.is_full)
        return keys.select(self.order.sort(keys))

    def holding(self, children: Children, keys: Spans) -> Mask:
        """Return a mask of the children whose range holds one of these ascending keys."""
        low = self.order.before(keys, children.low, 0)
        high = self.order.before(keys, children.high, len(keys))
        return low < high

    def _overlapping(self, children: Children, inside: KeyRange) -> Mask:
        """Return a mask of the children whose range overlaps `inside`."""
        overlaps = np.ones(len(children), np.bool_)
        if inside.low is not None:
            overlaps &= self.order.before(bound(inside.low), children.high, 1) > 0
        if inside.high is not None:
            overlaps &= self.order.before(bound(inside.high), children.low, 0) < 1
        return overlaps

    def in_range(self, keys: Spans, inside: KeyRange) -> Mask:
        """Return a mask of the keys that lie in a range."""
        both = joined_spans([bound(inside.low), bound(inside.high)])
        low, high = both.select(slice(0, 1)), both.select(slice(1, 2))
        first = np.array([0, len(keys)], np.int64)
        return within(keys, first, low, high, two_part=self.by_parts)

    def children_of(self, upper: LoadedNodes) -> Children:
        """Return the children of some upper nodes, with their key ranges.

        The first slot of a node stands for all keys below the second. Ranges are clamped to that of
        the node: a crash can leave slots outside of it, which no search reaches.
        """
        nodes, parents = upper.nodes, upper.children
        slots, owner = nodes.slots, nodes.slot_node
        n = len(slots)
        bounds = joined_spans([slots.key, parents.low, parents.high])
        is_first = np.zeros(n, np.bool_)
        is_last = np.zeros(n, np.bool_)
        filled = np.diff(nodes.first) > 0
        is_first[nodes.first[:-1][filled]] = True
        is_last[nodes.first[1:][filled] - 1] = True
        own = self._clamped(nodes, parents)
        low = np.where(is_first, n + owner, own)
        high = np.where(is_last, n + len(parents) + owner, np.append(own[1:], n)[:n])
        return Children(
            slots.lsn,
            nodes.lsn[owner],
            bounds.select(low),
            bounds.select(high),
            upper.since.select(owner),
            ((np.diff(nodes.first) == 1) & (parents.parent_lsn == NULL_LSN))[owner],
            max(parents.level - 1, 0),
        )

    def raised_first_keys(self, keys: Spans, owner: Ints, upper: LoadedNodes) -> Spans:
        """Return keys of slots; the first of a node is raised to the lower bound of the node.

        A crash can leave a first slot with a lower key. It stands for the keys from that bound on.
        An identifier key that is equal to it leads the engine's scans to another node.

        Args:
            keys: keys of the slots of upper nodes.
            owner: int64, ascending; node of each.
            upper: the nodes.
        """
        if not self.ordered:
            return keys
        first = np.flatnonzero(np.diff(owner, prepend=-1))
        low = upper.children.low.select(owner[first])
        none = Spans(low.data, np.zeros(len(first), np.int64), np.full(len(first), -1))
        each = np.arange(len(first) + 1)
        stays = within(keys.select(first), each, low, none, two_part=self.by_parts)
        rows = np.arange(len(keys))
        rows[first[~stays]] = len(keys) + np.flatnonzero(~stays)
        return joined_spans([keys, low]).select(rows)

    def _clamped(self, nodes: Nodes, parents: Children) -> Ints:
        """Return the row of each slot's key, or of the bound of its node if the key is outside.

        Rows count the keys of the slots, then the lower bounds of the nodes, then the upper bounds.
        """
        n, owner = len(nodes.slots), nodes.slot_node
        rows = np.arange(n)
        if not self.ordered or not n:
            return rows
        open_end = parents.low.select(np.zeros(0, np.int64))
        none = Spans(open_end.data, np.zeros(len(parents), np.int64), np.full(len(parents), -1))
        from_low, to_high = (
            within(nodes.slots.key, nodes.first, low, high, two_part=self.by_parts)
            for low, high in ((parents.low, none), (none, parents.high))
        )
        rows = np.where(from_low, rows, n + owner)
        return np.where(to_high, rows, n + len(parents) + owner)
