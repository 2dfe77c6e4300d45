"""One database's B-tree as recovery would leave it before records are undone and redone.

The tree is read from its root down, many nodes at once. Into each slot comes the version of the
node that recovery puts there (`je_tools.btree.replay`).

Source: IN.fetchIN, BIN.reconstituteBIN, JE 18.3.12.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field
from msgspec.structs import replace

from je_tools.btree.replay import KeyOrder, Replayed, Since, Slot
from je_tools.formats.arrays import Ints, Mask
from je_tools.formats.image import Image
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
from je_tools.key_ranges import KeyRange

LEVELS_MAX = 64
"""The most levels that are believed of a tree: ten hold more records than there are."""

NODES_AT_ONCE = 256
"""Nodes that are read together: enough for kernels, and some 10 MB."""

BINS_AT_ONCE = 2048
"""The most BINs that are read together where their records' data is not: threads take turns at the
steps of Python between kernels, so the fewer of these the better."""

_SLOTS_AT_ONCE = 1 << 19
"""Slots that these may have together, by the size that nodes are given."""


_NO_ID = -(1 << 63)
"""Of no node."""


class FaultKind(StrEnum):
    """What is wrong with a node, or keeps it from being read."""

    MISSING = "missing"
    DAMAGED = "damaged"
    NOT_A_NODE = "not-a-node"
    WRONG_DATABASE = "wrong-database"
    WRONG_LEVEL = "wrong-level"
    WRONG_ROOT_MARK = "wrong-root-mark"
    """A root that is not marked as one, or another node that is."""
    OTHER_RANGE = "other-range"
    """A node whose identifier key is not one of those that its place stands for."""
    NO_FULL_VERSION = "no-full-version"
    NOT_A_RECORD = "not-a-record"
    NOT_TWO_PARTS = "not-two-parts"
    """A key of a database with duplicates that does not end with the record's data."""
    SHARED = "shared"
    """A node that another slot names too: of a tree there is one way to each."""
    OTHER_KEY = "other-key"
    """A node with duplicates, in the form of before log version 8, that are not of the slot's."""
    STRAY_SLOTS = "stray-slots"
    """A BIN has keys that its parent does not give it: a crash can leave that."""
    SPLIT_CUT_SHORT = "root-split-cut-short"
    """A root with one slot over a full node: the log ends in the middle of a split."""
    EXPIRATION_UNIT = "expiration-unit"
    """A BIN counts expirations in another unit than it says: engines up to 18.3 did."""


class Fault(Struct, frozen=True):
    """A node that cannot be had, or not whole.

    Attributes:
        kind: why.
        db_id: of the tree.
        lsn: where the node should be.
        parent_lsn: of the node whose slot names it; NULL_LSN for a root.
        low, high: the range of keys that it should hold, None where it is open.
    """

    kind: FaultKind
    db_id: int
    lsn: int
    parent_lsn: int
    low: bytes | None
    high: bytes | None


class Known(Struct):
    """Numbers that have come before: sorted arrays, each at most half as long as the one before."""

    arrays: list[Ints] = field(default_factory=list)

    def first_times(self, numbers: Ints) -> Mask:
        """Where numbers come for the first time; from then on they are known."""
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
    """How `leaf_children` goes down.

    Attributes:
        choose: gives the children to which it goes on.
        seen: told of the upper nodes that were read.
        at_once: BINs that are given together.
        with_lost: upper nodes that cannot be read are given too.
        read, named: LSNs of these, and of all that was chosen; without them the ways through a
            damaged tree would be more than anybody can go.
    """

    choose: Callable[[Children], Children]
    seen: Callable[[Leaves], None] | None
    at_once: int
    with_lost: bool
    read: Known = field(default_factory=Known)
    named: Known = field(default_factory=Known)


class Children(Struct, frozen=True):
    """Nodes that are named but not read, in the order of their keys.

    Attributes:
        lsn, parent_lsn: int64.
        low, high: the keys that each may hold, from low on and below high; null where open.
        since: from which LSN on recovery puts nodes there.
        is_lone: bool; whether it is the only child of the root.
        level: of all of them; 0 for a root, whose level is not known before it is read.
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
        """Some of them."""
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
    """Return the children of one level that follow each other in several columns."""
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
    """BINs in the order of their keys, deltas merged; one that cannot be had has no slots.

    Attributes:
        nodes: one for each of `children`.
        children: what they are by their parents' slots.
        faults: what was wrong with them.
        logged: the same as the log has them: first those that were named, deltas not merged, then
            the full versions of deltas.
        since: from which LSN on recovery puts nodes into their slots.
    """

    nodes: Nodes
    children: Children
    faults: list[Fault]
    logged: tuple[Nodes, Nodes]
    since: Since


def at_once_below(nodes: Nodes, most: int) -> int:
    """How many children of nodes are read together: fewer than `most` where nodes are large."""
    return min(most, max(_SLOTS_AT_ONCE // max(int(nodes.max_entries.max(initial=1)), 1), 1))


def bound(key: bytes | None) -> Spans:
    """A column of one key; null where it is None."""
    return Spans.of([key])


class Tree(Struct, frozen=True, dict=True):
    """How one database's nodes are read.

    Attributes:
        image: the log.
        db_id: of the database.
        root_lsn: of the root; NULL_LSN for a database without one.
        replayed: nodes that recovery puts into slots.
        order: of its keys.
        old_duplicates: one whose duplicates are in trees of their own, as before log version 8.
        faults: what was wrong with upper nodes so far; in threads, leaves tell of theirs.
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
        """Return whether keys are ordered by their bytes."""
        return self.order.ordered

    @property
    def two_part(self) -> bool:
        """Return whether the database has duplicates, in keys of two parts."""
        return self.order.two_part

    @property
    def by_parts(self) -> bool:
        """Return whether keys are compared by their two parts."""
        return self.order.by_parts

    def are_in_range(self, leaves: Leaves) -> Mask:
        """Which slots of BINs lie inside of what their parents give them.

        A crash can leave others; they are stale copies, which the engine's searches never see.
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
        """The slots of BINs without those of which `are_in_range` is false."""
        slots = leaves.nodes.slots
        faults = list(leaves.faults)
        inside = self.are_in_range(leaves)
        if inside.all():
            return slots, faults
        nodes = np.unique(leaves.nodes.slot_node[~inside])
        faults += [self._fault(FaultKind.STRAY_SLOTS, leaves, node) for node in nodes.tolist()]
        return slots.take(inside), faults

    def splits_cut_short(self) -> list[Fault]:
        """Full nodes that the engine was about to split: the log ends before it tells of that.

        It splits a node right after the one below took its last free slot. Engines before JE 6 log
        it in between so that recovery takes it, later ones only what is under a new root.
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
        """Keys that lead to full nodes above others, of those newer than what the tree names."""
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
        """The BINs, unread, in the order of their keys.

        Args:
            keys: ascending; only BINs that are to hold one of these. Ignored where the order of
                keys is not known.
            inside: only BINs that are to hold keys of this range; ignored likewise.
            seen: called with the nodes above as they are read.
            at_once: BINs that are given together, at most.
            with_lost: in the place of BINs that nobody can find give the node above them that
                cannot be read; reading it again gives no slots, and the same faults.
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
        """The root, unread; there must be one."""
        lone, none = np.array([self.root_lsn], np.int64), np.array([NULL_LSN], np.int64)
        # Where the engine goes twice it meets roots and others in one order.
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
        """Faults for nodes to which there is more than one way, each told once."""
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
        """Return keys that lead to all nodes that recovery replays, ascending."""
        return self.replayed.keys()

    def that_hold(self, children: Children, keys: Spans) -> Mask:
        """Which children have one of these keys in their range."""
        low = self.before(keys, children.low, 0)
        high = self.before(keys, children.high, len(keys))
        return low < high

    def _that_meet(self, children: Children, inside: KeyRange) -> Mask:
        """Which children may hold keys of a range."""
        meets = np.ones(len(children), np.bool_)
        if inside.low is not None:
            meets &= self.before(bound(inside.low), children.high, 1) > 0
        if inside.high is not None:
            meets &= self.before(bound(inside.high), children.low, 0) < 1
        return meets

    def in_range(self, keys: Spans, inside: KeyRange) -> Mask:
        """Which keys lie in a range."""
        both = joined_spans([bound(inside.low), bound(inside.high)])
        low, high = both.take(np.array([0])), both.take(np.array([1]))
        first = np.array([0, len(keys)], np.int64)
        return within(keys, first, low, high, two_part=self.by_parts)

    def before(self, keys: Spans, bounds: Spans, open_end: int) -> Ints:
        """Return how many of ascending `keys` are before each bound; `open_end` for null."""
        return self.order.before(keys, bounds, open_end)

    def children_of(self, upper: Leaves) -> Children:
        """Return the children of some upper nodes, with the ranges of keys that lead to them.

        The first slot of a node stands for all keys below the second. What lies outside of the
        node's own range leads nowhere: after a crash a node may have such slots.
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
        """Return for each slot the row of its key, or of the bound of its node if it is outside.

        Rows are those of the slots' keys, then the lower bounds of the nodes, then the upper ones.
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
        """Read nodes; safe in any thread. Where the level is not known it is that of the root."""
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

        Where a node cannot be read its id is unknown. Then the newest version of its level whose
        identifier key leads there is taken, if there is one: the engine would not open the log.

        Returns:
            The nodes, a `Found` of each, and from which LSN on nodes come into their slots.
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
        """Read nodes as the log has them, and a `Found` of each."""
        entries = fetch(self.image, lsns)
        return read_nodes(entries), entries.found

    def newest_whole(self, lsns: Ints) -> tuple[Nodes, npt.NDArray[np.uint8], Mask]:
        """Read nodes of the trees of old duplicates, of each the newest version, deltas merged.

        Returns:
            The nodes, a `Found` of each, and which lack their full version.
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
        """Deltas with the slots of their full versions, which of those cannot be had, and those."""
        deltas = np.flatnonzero(nodes.is_delta)
        missing = np.zeros(len(nodes), np.bool_)
        if not len(deltas):
            return nodes, missing, no_nodes(self.image.data)
        full_lsns = self._own_fulls(nodes.last_full_lsn[deltas], nodes.node_id[deltas])
        fulls = read_nodes(fetch(self.image, full_lsns))
        usable = fulls.good & ~fulls.is_delta & (fulls.db_id == nodes.db_id[deltas])
        # Deltas of the old form do not say of which node they are.
        node_ids = nodes.node_id[deltas]
        usable &= (node_ids == 0) | (node_ids == fulls.node_id)
        of_delta = np.full(len(nodes), -1, np.int64)
        of_delta[deltas[usable]] = np.flatnonzero(usable)
        missing[deltas[~usable]] = True
        whole = merged(nodes, fulls, of_delta, ordered=self.ordered, two_part=self.by_parts)
        return whole, missing, fulls

    def _own_fulls(self, full_lsns: Ints, node_ids: Ints) -> Ints:
        """LSNs of full versions, each for one delta, which is of that node if any is; else null.

        What is damaged may name one often.
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
        """Return which nodes are a root without the mark of one, or have it and are none.

        A crash between the two steps of a root's split leaves the old root, with its mark, as the
        only child of the new one.
        """
        nodes, children = leaves.nodes, leaves.children
        marked = nodes.booleans & IS_ROOT != 0
        is_root = children.parent_lsn == NULL_LSN
        wrong: Mask = nodes.good & np.where(is_root, ~marked, marked & ~children.is_lone)
        return wrong

    def wrong_identifiers(self, leaves: Leaves) -> Mask:
        """Return which nodes have an identifier key that their parents' slots lead elsewhere."""
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
        """Return faults of nodes that say of themselves what does not fit their place.

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
        # Engines up to 18.3 go on with what the delta says when they merge it.
        wrong_unit = nodes.has_wrong_unit | nodes.have_other_unit(leaves.logged[0].booleans)
        units = np.flatnonzero(wrong_unit & ~troubled)
        return faults + [
            self._fault(FaultKind.EXPIRATION_UNIT, leaves, row) for row in units.tolist()
        ]
