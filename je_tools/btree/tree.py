"""The B-tree of one database as recovery leaves it before LNs are undone and redone.

The tree is read from its root down, many nodes at once. Each slot gets the version of the node that
recovery puts there (`je_tools.btree.replay`).

Source: IN.fetchIN, BIN.reconstituteBIN, JE 18.3.12.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field
from msgspec.structs import replace

from je_tools.btree.replay import KeyOrder, Replayed, Since, Slot
from je_tools.formats.je.fetch import Found, fetch
from je_tools.formats.je.header import NULL_LSN
from je_tools.formats.je.nodes import (
    IN_NO,
    IS_ROOT,
    LEVEL_MASK,
    OLD_DELTA_NOS,
    Nodes,
    Slots,
    joined_spans,
    merged,
    no_nodes,
    read_nodes,
    within,
)
from je_tools.formats.spans import Spans

if TYPE_CHECKING:
    from je_tools.btree.key_ranges import KeyRange
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.image import Image

LEVELS_MAX = 64
"""Largest number of levels accepted in a tree; ten already hold more records than exist."""

NODES_AT_ONCE = 256
"""Number of nodes read together: enough for one native call, and some 10 MB."""

BINS_AT_ONCE = 2048
"""Largest number of BINs read together if the data of their records is not read.

Threads take turns at the Python code between native calls, so larger batches are faster.
"""

_SLOTS_AT_ONCE = 1 << 19
"""Largest number of slots in such a batch, counted by the nominal size of the nodes."""


_NO_ID = -(1 << 63)
"""An id that no node has."""


class FaultKind(StrEnum):
    """Kinds of faults of nodes and records."""

    MISSING = "missing"
    DAMAGED = "damaged"
    NOT_A_NODE = "not-a-node"
    WRONG_DATABASE = "wrong-database"
    WRONG_LEVEL = "wrong-level"
    WRONG_ROOT_MARK = "wrong-root-mark"
    """A root that is not marked as one, or another node that is."""
    OTHER_RANGE = "other-range"
    """A node whose identifier key is outside the key range of its slot."""
    NO_FULL_VERSION = "no-full-version"
    NOT_A_RECORD = "not-a-record"
    NOT_TWO_PARTS = "not-two-parts"
    """A key of a database with duplicates that does not end with the record's data."""
    SHARED = "shared"
    """A node that another slot names too: a tree has one path to each node."""
    OTHER_KEY = "other-key"
    """A node of duplicates, in the form before log version 8, that belongs to another key."""
    STRAY_SLOTS = "stray-slots"
    """A BIN with keys outside the range that its parent gives it: a crash can leave these."""
    SPLIT_CUT_SHORT = "root-split-cut-short"
    """A root with one slot over a full node: the log ends in the middle of a split."""
    EXPIRATION_UNIT = "expiration-unit"
    """A BIN with expirations in another unit than it states: engines up to 18.3 wrote these."""


class Fault(Struct, frozen=True):
    """A node or record that is wrong, or cannot be read, or only in part.

    Attributes:
        kind: kind of the fault.
        db_id: id of the database.
        lsn: LSN at which the node or record should be.
        parent_lsn: LSN of the node whose slot names it; NULL_LSN for a root or if unknown.
        low, high: range of keys that it should hold; None if open.
    """

    kind: FaultKind
    db_id: int
    lsn: int
    parent_lsn: int
    low: bytes | None
    high: bytes | None


class Known(Struct):
    """A set of numbers: sorted arrays, each at most half as long as the one before."""

    arrays: list[Ints] = field(default_factory=list)

    def first_times(self, numbers: Ints) -> Mask:
        """Return a mask of the numbers that come for the first time, and add them to the set."""
        fresh, rows = np.unique(numbers, return_index=True)
        new = np.ones(len(fresh), np.bool_)
        for array in self.arrays:
            at = np.minimum(np.searchsorted(array, fresh), len(array) - 1)
            new &= array[at] != fresh
        if new.any():
            self.arrays.append(fresh[new])
        while len(self.arrays) > 1 and len(self.arrays[-2]) < 2 * len(self.arrays[-1]):
            last = self.arrays.pop()
            self.arrays[-1] = np.sort(np.concatenate((self.arrays[-1], last)))
        first = np.zeros(len(numbers), np.bool_)
        first[rows[new]] = True
        return first


class _Way(Struct):
    """Settings and state of a descent by `leaf_children`.

    Attributes:
        choose: selects the children to descend to.
        seen: called with the upper nodes that were read; None for nothing.
        at_once: largest number of BINs to yield together.
        with_lost: True to yield unreadable upper nodes too.
        read, named: LSNs of the upper nodes read, and of all children chosen. Each node is visited
            once, since the number of paths through a damaged tree may be exponential.
    """

    choose: Callable[[Children], Children]
    seen: Callable[[Leaves], None] | None
    at_once: int
    with_lost: bool
    read: Known = field(default_factory=Known)
    named: Known = field(default_factory=Known)


class Children(Struct, frozen=True):
    """Nodes that slots name, not yet read, in key order.

    Attributes:
        lsn, parent_lsn: int64.
        low, high: key range [low, high) of each; a null bound is open.
        since: LSNs from which recovery puts nodes there.
        is_lone: bool; True for the only child of the root.
        level: level of all of them; 0 for a root, whose level is unknown until it is read.
    """

    lsn: Ints
    parent_lsn: Ints
    low: Spans
    high: Spans
    since: Since
    is_lone: Mask
    level: int

    def __len__(self) -> int:
        return len(self.lsn)

    def take(self, keep: Mask | Ints | slice) -> Children:
        """Select rows by a mask, by an index array in its order, or by a slice."""
        rows = np.arange(len(self))[keep]
        return Children(
            self.lsn[rows],
            self.parent_lsn[rows],
            self.low.take(rows),
            self.high.take(rows),
            self.since.take(rows),
            self.is_lone[rows],
            self.level,
        )

    @property
    def slot(self) -> Slot:
        """The slots that name them, for replay."""
        return Slot(self.lsn, self.since, self.low, self.high)


def joined_children(parts: Sequence[Children]) -> Children:
    """Concatenate children of one level."""
    none = np.empty(0, np.int64)
    return Children(
        np.concatenate([none, *(part.lsn for part in parts)]),
        np.concatenate([none, *(part.parent_lsn for part in parts)]),
        joined_spans([part.low for part in parts]),
        joined_spans([part.high for part in parts]),
        Since(
            np.concatenate([none, *(part.since.last_lsn for part in parts)]),
            np.concatenate([none, *(part.since.first_lsn for part in parts)]),
        ),
        np.concatenate([none.astype(np.bool_), *(part.is_lone for part in parts)]),
        parts[0].level if parts else 1,
    )


class Leaves(Struct, frozen=True):
    """Nodes in key order, deltas merged; a node that cannot be read has no slots.

    Attributes:
        nodes: one for each of `children`.
        children: the nodes as described by their parents' slots.
        faults: faults of the nodes.
        logged: the nodes as logged: first the versions in place, deltas not merged, then the full
            versions of the deltas.
        since: LSNs from which recovery puts nodes into their slots.
    """

    nodes: Nodes
    children: Children
    faults: list[Fault]
    logged: tuple[Nodes, Nodes]
    since: Since


def at_once_below(nodes: Nodes, most: int) -> int:
    """Return the number of children to read together: fewer than `most` if nodes are large."""
    return min(most, max(_SLOTS_AT_ONCE // max(int(nodes.max_entries.max(initial=1)), 1), 1))


def bound(key: bytes | None) -> Spans:
    """Return a column of one key; null for None."""
    return Spans.of([key])


class Tree(Struct, frozen=True, dict=True):
    """The B-tree of one database.

    Attributes:
        image: the log.
        db_id: id of the database.
        root_lsn: LSN of the root; NULL_LSN for a database without one.
        replayed: nodes that recovery puts into slots.
        order: order of the keys.
        old_duplicates: True if duplicates are in separate trees, as before log version 8.
        faults: faults of upper nodes so far; those of BINs are in their `Leaves`, since threads
            read these.
    """

    image: Image
    db_id: int
    root_lsn: int
    replayed: Replayed
    order: KeyOrder
    old_duplicates: bool = False
    faults: list[Fault] = field(default_factory=list)

    @property
    def ordered(self) -> bool:
        """True if keys are ordered by their bytes."""
        return self.order.ordered

    @property
    def two_part(self) -> bool:
        """True if the database has duplicates, in two-part keys."""
        return self.order.two_part

    @property
    def by_parts(self) -> bool:
        """True if keys are compared by their two parts."""
        return self.order.by_parts

    def are_in_range(self, leaves: Leaves) -> Mask:
        """Return a mask of the slots of BINs that lie in the range that their parents give them.

        A crash can leave others: stale copies that the engine's searches never reach.
        """
        slots = leaves.nodes.slots
        if not self.ordered or not len(slots):
            return np.ones(len(slots), np.bool_)
        return within(
            slots.key,
            leaves.nodes.first,
            leaves.children.low,
            leaves.children.high,
            two_part=self.by_parts,
        )

    def slots_in_range(self, leaves: Leaves) -> tuple[Slots, list[Fault]]:
        """Return the slots of BINs for which `are_in_range` is true, and the faults."""
        slots = leaves.nodes.slots
        faults = list(leaves.faults)
        inside = self.are_in_range(leaves)
        if inside.all():
            return slots, faults
        nodes = np.unique(leaves.nodes.slot_node[~inside])
        faults += [self._fault(FaultKind.STRAY_SLOTS, leaves, node) for node in nodes.tolist()]
        return slots.take(inside), faults

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
            children = children.take(self.that_hold(children, keys))
        while len(children) and (under_lone_slot or children.level > 1):
            leaves, under_lone_slot = self.read(children), False
            full = np.flatnonzero(leaves.nodes.good & leaves.nodes.is_full)
            faults += [self._fault(FaultKind.SPLIT_CUT_SHORT, leaves, row) for row in full.tolist()]
            below = self.children_of(leaves)
            children = below.take(self.that_hold(below, keys))
        return faults

    def _keys_of_full_nodes(self) -> Spans:
        """Return the identifier keys, ascending, of full upper nodes that recovery replays."""
        entries = fetch(self.image, self.replayed.lsn, check=False)
        lsns = entries.lsn[(entries.found >= Found.BAD) & (entries.type == IN_NO)]
        nodes = read_nodes(fetch(self.image, lsns))
        keys = nodes.identifier_key.take(nodes.good & nodes.is_full)
        return keys.take(self.order.sort(keys))

    def _fault(self, kind: FaultKind, leaves: Leaves, row: int) -> Fault:
        children = leaves.children
        return Fault(
            kind,
            self.db_id,
            int(leaves.nodes.lsn[row]),
            int(children.parent_lsn[row]),
            children.low[row],
            children.high[row],
        )

    def leaf_children(
        self,
        keys: Spans | None = None,
        *,
        inside: KeyRange | None = None,
        seen: Callable[[Leaves], None] | None = None,
        at_once: int = NODES_AT_ONCE,
        with_lost: bool = False,
    ) -> Iterator[Children]:
        """Yield the BINs, unread, in key order.

        Args:
            keys: ascending; yield only BINs whose range holds one of these. Ignored if the order
                of keys is unknown.
            inside: yield only BINs whose range overlaps this one; ignored likewise.
            seen: called with the upper nodes as they are read.
            at_once: largest number of BINs to yield together.
            with_lost: if an upper node cannot be read, yield it in place of the BINs below it.
                Reading it again gives no slots, and the same faults.
        """

        def choose(children: Children) -> Children:
            if keys is not None and self.ordered:
                children = children.take(self.that_hold(children, keys))
            if inside is not None and self.ordered:
                children = children.take(self._that_meet(children, inside))
            return children

        if self.root_lsn != NULL_LSN:
            yield from self._below(self.root(), _Way(choose, seen, at_once, with_lost))

    def root(self) -> Children:
        """Return the root, unread; there must be one."""
        lone, none = np.array([self.root_lsn], np.int64), np.array([NULL_LSN], np.int64)
        # Engines that replay twice take roots and other nodes together in log order: in the first
        # pass, nodes older than the root are lost.
        first = lone if self.replayed.is_twice else none
        since = Since(none, first)
        return Children(lone, none, bound(None), bound(None), since, np.ones(1, np.bool_), 0)

    def _below(self, parents: Children, way: _Way) -> Iterator[Children]:
        leaves = self.read(parents)
        self.faults.extend(leaves.faults)
        if way.seen is not None:
            way.seen(leaves)
        again = leaves.nodes.good & ~way.read.first_times(leaves.nodes.lsn)
        self.faults.extend(self._shared(leaves.nodes.lsn, leaves.children, again))
        upper = replace(leaves, nodes=leaves.nodes.without(again))
        children, first = self.children_of(upper), upper.nodes.first
        lost = np.flatnonzero(~leaves.nodes.good) if way.with_lost else np.empty(0, np.int64)
        begin = 0
        way = replace(way, at_once=at_once_below(upper.nodes, way.at_once))
        for row in lost.tolist():
            yield from self._named_below(children.take(slice(begin, first[row])), way)
            yield leaves.children.take(slice(row, row + 1))
            begin = int(first[row])
        yield from self._named_below(children.take(slice(begin, None)), way)

    def _named_below(self, children: Children, way: _Way) -> Iterator[Children]:
        children = way.choose(children)
        new = way.named.first_times(children.lsn) | (children.lsn == NULL_LSN)
        self.faults.extend(self._shared(children.lsn, children, ~new))
        children = children.take(new)
        are_bins = children.level <= 1
        size = way.at_once if are_bins else NODES_AT_ONCE
        for first in range(0, len(children), size):
            some = children.take(slice(first, first + size))
            if are_bins:
                yield some
            else:
                yield from self._below(some, way)

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

    def replayed_keys(self) -> Spans:
        """Return the identifier keys of all nodes that recovery replays, ascending."""
        return self.replayed.keys()

    def that_hold(self, children: Children, keys: Spans) -> Mask:
        """Return a mask of the children whose range holds one of these ascending keys."""
        low = self.before(keys, children.low, 0)
        high = self.before(keys, children.high, len(keys))
        return low < high

    def _that_meet(self, children: Children, inside: KeyRange) -> Mask:
        """Return a mask of the children that may hold keys of a range."""
        meets = np.ones(len(children), np.bool_)
        if inside.low is not None:
            meets &= self.before(bound(inside.low), children.high, 1) > 0
        if inside.high is not None:
            meets &= self.before(bound(inside.high), children.low, 0) < 1
        return meets

    def in_range(self, keys: Spans, inside: KeyRange) -> Mask:
        """Return a mask of the keys that lie in a range."""
        both = joined_spans([bound(inside.low), bound(inside.high)])
        low, high = both.take(np.array([0])), both.take(np.array([1]))
        first = np.array([0, len(keys)], np.int64)
        return within(keys, first, low, high, two_part=self.by_parts)

    def before(self, keys: Spans, bounds: Spans, open_end: int) -> Ints:
        """Return the number of ascending `keys` before each bound; `open_end` for a null bound."""
        return self.order.before(keys, bounds, open_end)

    def children_of(self, upper: Leaves) -> Children:
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
            bounds.take(low),
            bounds.take(high),
            upper.since.take(owner),
            ((np.diff(nodes.first) == 1) & (parents.parent_lsn == NULL_LSN))[owner],
            max(parents.level - 1, 0),
        )

    def _clamped(self, nodes: Nodes, parents: Children) -> Ints:
        """Return the row of each slot's key, or of the bound of its node if the key is outside.

        Rows count the keys of the slots, then the lower bounds of the nodes, then the upper bounds.
        """
        n, owner = len(nodes.slots), nodes.slot_node
        rows = np.arange(n)
        if not self.ordered or not n:
            return rows
        open_end = parents.low.take(np.zeros(0, np.int64))
        none = Spans(open_end.data, np.zeros(len(parents), np.int64), np.full(len(parents), -1))
        from_low, to_high = (
            within(nodes.slots.key, nodes.first, low, high, two_part=self.by_parts)
            for low, high in ((parents.low, none), (none, parents.high))
        )
        rows = np.where(from_low, rows, n + owner)
        return np.where(to_high, rows, n + len(parents) + owner)

    def read(self, children: Children) -> Leaves:
        """Read nodes, deltas merged; safe in any thread.

        If the level of `children` is 0, it is taken from the first node, the root.
        """
        logged, found, since = self.in_place(children)
        nodes, no_full, fulls = self._with_full(logged)
        level = nodes.level & LEVEL_MASK
        if children.level == 0:
            children = replace(children, level=int(np.clip(level[0], 2, LEVELS_MAX)))
        misplaced = (nodes.db_id != self.db_id) | (level != children.level)
        leaves = Leaves(nodes, children, [], (logged, fulls), since)
        leaves.faults.extend(self._faults(leaves, found, no_full))
        leaves = replace(leaves, nodes=nodes.without(misplaced & nodes.good))
        leaves.faults.extend(self._contradictions(leaves))
        return leaves

    def in_place(self, children: Children) -> tuple[Nodes, npt.NDArray[np.uint8], Since]:
        """Read the nodes that replay leaves in slots, deltas not merged.

        If a node cannot be read, its id is unknown and the engine would not open the log. Then the
        newest node of its level whose identifier key leads there takes its place, if there is one.

        Returns:
            The nodes, a `Found` of each, and the LSNs from which nodes come into their slots.
        """
        nodes, found = self._logged(children.lsn)
        if children.level == 0 or not len(self.replayed):
            return nodes, found, children.since
        node_ids = nodes.node_id
        if np.isin(nodes.type, OLD_DELTA_NOS).any():
            node_ids = self._with_full(nodes)[0].node_id
        node_ids = np.where(nodes.good, node_ids, _NO_ID)
        lsns, since = self.replayed.place(node_ids, children.slot)
        bad = np.flatnonzero(~nodes.good)
        if len(bad):
            lsns = lsns.copy()
            lsns[bad] = self.replayed.newest_at(children.level, children.slot, bad)
        if not np.array_equal(lsns, children.lsn):
            nodes, found = self._logged(lsns)
        return nodes, found, since

    def _logged(self, lsns: Ints) -> tuple[Nodes, npt.NDArray[np.uint8]]:
        """Return nodes as logged, and a `Found` of each."""
        entries = fetch(self.image, lsns)
        return read_nodes(entries), entries.found

    def newest_whole(self, lsns: Ints) -> tuple[Nodes, npt.NDArray[np.uint8], Mask]:
        """Read the newest versions of nodes in trees of old duplicates, deltas merged.

        Returns:
            The nodes, a `Found` of each, and a mask of those that lack their full version.
        """
        logged, found = self._logged(lsns)
        if len(self.replayed):
            whole, _, _ = self._with_full(logged)
            newest = self.replayed.newest_of_node(whole.node_id)
            newest = np.where(logged.good, np.maximum(newest, lsns), lsns)
            if not np.array_equal(newest, lsns):
                logged, found = self._logged(newest)
        whole, no_full, _ = self._with_full(logged)
        return whole, found, no_full

    def _with_full(self, nodes: Nodes) -> tuple[Nodes, Mask, Nodes]:
        """Merge deltas with their full versions.

        Returns:
            The nodes, a mask of the deltas whose full version cannot be read, and the full
            versions.
        """
        deltas = np.flatnonzero(nodes.is_delta)
        missing = np.zeros(len(nodes), np.bool_)
        if not len(deltas):
            return nodes, missing, no_nodes(self.image.data)
        full_lsns = self._own_fulls(nodes.last_full_lsn[deltas], nodes.node_id[deltas])
        fulls = read_nodes(fetch(self.image, full_lsns))
        usable = fulls.good & ~fulls.is_delta & (fulls.db_id == nodes.db_id[deltas])
        # Deltas of the old form do not hold the id of their node.
        node_ids = nodes.node_id[deltas]
        usable &= (node_ids == 0) | (node_ids == fulls.node_id)
        of_delta = np.full(len(nodes), -1, np.int64)
        of_delta[deltas[usable]] = np.flatnonzero(usable)
        missing[deltas[~usable]] = True
        whole = merged(nodes, fulls, of_delta, ordered=self.ordered, two_part=self.by_parts)
        return whole, missing, fulls

    def _own_fulls(self, full_lsns: Ints, node_ids: Ints) -> Ints:
        """Return the LSN of the full version of each delta, no LSN twice; NULL_LSN for the others.

        Damaged deltas may name the same full version. It goes to a delta of the same node if there
        is one.
        """
        distinct, place = np.unique(full_lsns, return_inverse=True)
        if len(distinct) == len(full_lsns):
            return full_lsns
        fulls = read_nodes(fetch(self.image, distinct))
        fits = (node_ids == 0) | (node_ids == fulls.node_id[place])
        order = np.lexsort((~fits, place))
        is_first = np.diff(place[order], prepend=-1) != 0
        own = np.full(len(full_lsns), NULL_LSN, np.int64)
        own[order[is_first]] = full_lsns[order[is_first]]
        return own

    def wrong_root_marks(self, leaves: Leaves) -> Mask:
        """Return a mask of the roots without a root mark, and of other nodes with one.

        A crash between the two steps of a root's split leaves the old root, with its mark, as the
        only child of the new one. That is not wrong.
        """
        nodes, children = leaves.nodes, leaves.children
        marked = nodes.booleans & IS_ROOT != 0
        is_root = children.parent_lsn == NULL_LSN
        wrong: Mask = nodes.good & np.where(is_root, ~marked, marked & ~children.is_lone)
        return wrong

    def wrong_identifiers(self, leaves: Leaves) -> Mask:
        """Return a mask of the nodes whose identifier key is outside the range of their slot."""
        keys, children = leaves.nodes.identifier_key, leaves.children
        if not self.ordered:
            return np.zeros(len(keys), np.bool_)
        inside = within(
            Spans(keys.data, keys.starts, np.maximum(keys.sizes, 0)),
            np.arange(len(keys) + 1),
            children.low,
            children.high,
            two_part=self.by_parts,
        )
        wrong: Mask = leaves.nodes.good & (keys.sizes >= 0) & ~inside
        return wrong

    def _contradictions(self, leaves: Leaves) -> list[Fault]:
        """Return faults of nodes that contradict their place in the tree.

        Their records are read all the same.
        """
        wrongs = {
            FaultKind.WRONG_ROOT_MARK: self.wrong_root_marks(leaves),
            FaultKind.OTHER_RANGE: self.wrong_identifiers(leaves),
        }
        return [
            self._fault(kind, leaves, row)
            for kind, wrong in wrongs.items()
            for row in np.flatnonzero(wrong).tolist()
        ]

    def _faults(self, leaves: Leaves, found: npt.NDArray[np.uint8], no_full: Mask) -> list[Fault]:
        nodes = leaves.nodes
        wrong_level = nodes.level & LEVEL_MASK != leaves.children.level
        wrong_db = nodes.db_id != self.db_id
        troubled = ~nodes.good | wrong_level | wrong_db | no_full
        faults = []
        for row in np.flatnonzero(troubled).tolist():
            if found[row] in (Found.NO_FILE, Found.NO_ENTRY):
                kind = FaultKind.MISSING
            elif found[row] == Found.BAD:
                kind = FaultKind.DAMAGED
            elif not nodes.good[row]:
                kind = FaultKind.NOT_A_NODE
            elif wrong_db[row]:
                kind = FaultKind.WRONG_DATABASE
            else:
                kind = FaultKind.NO_FULL_VERSION if no_full[row] else FaultKind.WRONG_LEVEL
            faults.append(self._fault(kind, leaves, row))
        # Engines up to 18.3 keep the unit of the delta when they merge it.
        wrong_unit = nodes.has_wrong_unit | nodes.have_other_unit(leaves.logged[0].booleans)
        units = np.flatnonzero(wrong_unit & ~troubled)
        return faults + [
            self._fault(FaultKind.EXPIRATION_UNIT, leaves, row) for row in units.tolist()
        ]
