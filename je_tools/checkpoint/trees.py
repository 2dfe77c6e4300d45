"""Write a recovered tree: the nodes that recovery has changed, from the bottom up.

One way down finds the nodes that hold a changed key, or a node that was logged since the last
checkpoint. On the way back each is written once, after its children. Nothing of it counts before
the root is written.

Source: je-log.md "Checkpoints"; Checkpointer.flushDirtyNodes, IN.split, JE 18.3.12.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from je_tools.btree.children import NODES_AT_ONCE, Children, Leaves, at_once_below
from je_tools.btree.fault_kinds import FaultKind
from je_tools.checkpoint.deltas import Deltas, Given, find_deltas, is_dead
from je_tools.checkpoint.slot_repair import mended
from je_tools.errors import RefusedError
from je_tools.formats.je.fetch import fetch
from je_tools.formats.je.flags import LEVEL_MASK, MAIN_LEVELS, NodeFlag
from je_tools.formats.je.header import NULL_LSN, lsn_text
from je_tools.formats.je.keysort import equal_keys, order_keys
from je_tools.formats.je.nodes import BIN_NO, IN_NO, Nodes
from je_tools.formats.je.slots import Slots, joined_slots
from je_tools.formats.spans import Spans, joined_spans
from je_tools.recovery.overlay import match

if TYPE_CHECKING:
    from je_tools.btree.tree import Tree
    from je_tools.checkpoint.changes import Changes
    from je_tools.checkpoint.log import CheckpointLog
    from je_tools.formats.arrays import Ints, Mask

_SLOTS_LEAST = 4
"""Lower bound for the number of slots that a damaged node claims."""


_LEVELS_OF_MOST = MAIN_LEVELS
"""Level bits of all nodes but those of the id database. Source: IN, JE 7.5.11."""

_ONE, _ZERO = np.ones(1, np.bool_), np.zeros(1, np.int64)


class _Upper(Struct, frozen=True):
    """Upper nodes of one level on the way to changes.

    Attributes:
        leaves: the nodes.
        slot: int64; slot of the nodes above that refers to each.
        below: int64, ascending; slots of these nodes through which the way continues.
    """

    leaves: Leaves
    slot: Ints
    below: Ints


class _Named(Struct, frozen=True):
    """Replacements for slots of upper nodes.

    Attributes:
        replaced: int64, ascending; slots to remove.
        slot: int64, ascending; for each new node, the slot whose place it takes. A slot may get
            none, or several.
        key, lsn, size: of each new node.
    """

    replaced: Ints
    slot: Ints
    key: Spans
    lsn: Ints
    size: Ints


class _Pieces(Struct, frozen=True):
    """Nodes to write, in key order.

    Attributes:
        nodes: columns; a piece that is not the first of its node gets its id later.
        row: int64; node of which each is the whole or a part.
        is_first: bool; pieces that continue as that node.
    """

    nodes: Nodes
    row: Ints
    is_first: Mask


class TreeWriter(Struct, frozen=True):
    """Writer of the changes to one database's tree.

    Attributes:
        tree: tree of the database as recovery leaves it; its key order must be known.
        changes: keys whose slots change.
        log: log to append to.
        prefixing: True if nodes store the common prefix of their keys separately.
        max_entries: slots of a node, if there is no node yet.
        delta_percent: largest percentage of a BIN's slots that may differ from its last full
            version for a delta to be written; 0 for no deltas.
        since_lsn: LSN from which nodes were logged after the last checkpoint began.
    """

    tree: Tree
    changes: Changes
    log: CheckpointLog
    prefixing: bool
    max_entries: int
    delta_percent: int
    since_lsn: int

    def write(self) -> int:
        """Write the changes and return the LSN of the root.

        Returns:
            The LSN of the new root, or of the old one if nothing has to be written; NULL_LSN for a
            database that has no tree and gets no record.

        Raises:
            RefusedError: a node on the way cannot be read, or upper nodes are not in order.
        """
        if self.tree.root_lsn == NULL_LSN:
            return self._begin()
        keys = self._keys()
        if not len(keys) and self.tree.root_lsn < self.since_lsn:
            return self.tree.root_lsn
        uppers = self._way_down(keys)
        if not len(uppers[-1].below):
            return self.tree.root_lsn
        named = self._write_bins(uppers[-1])
        for above, upper in reversed(list(pairwise(uppers))):
            named = self._write_upper(upper, above.leaves, named)
        return self._write_root(uppers[0].leaves, named)

    def _keys(self) -> Spans:
        """Return the keys that lead to all nodes to visit, ascending."""
        places = self.tree.replayed_keys()
        if not len(places):
            return self.changes.key
        keys = joined_spans([self.changes.key, places])
        return keys.select(order_keys(keys, two_part=self.tree.by_parts))

    def _way_down(self, keys: Spans) -> list[_Upper]:
        uppers: list[_Upper] = []
        children, slot = self.tree.root(), np.zeros(1, np.int64)
        while True:
            leaves = self._read(children)
            below = self.tree.children_of(leaves)
            # Nodes that were written together with those above can have slots outside their range.
            wanted = self.tree.that_hold(below, keys) | (below.lsn >= self.since_lsn)
            chosen = np.flatnonzero(wanted)
            uppers.append(_Upper(leaves, slot, chosen))
            if below.level <= 1 or not len(chosen):
                return uppers
            children, slot = below.select(chosen), chosen

    def _read(self, children: Children) -> Leaves:
        leaves = self.tree.read(children)
        for fault in leaves.faults:
            if fault.kind is FaultKind.WRONG_ROOT_MARK:
                raise RefusedError(
                    f"database {self.tree.db_id}: the node at {lsn_text(fault.lsn)} is wrong about "
                    "whether it is a root, so its tree cannot be written. `je-tools verify --tree` "
                    "tells more; `je-tools export` gets the records out."
                )
        bad = np.flatnonzero(~leaves.nodes.good)
        if len(bad):
            lsn = lsn_text(int(children.lsn[bad[0]]))
            raise RefusedError(
                f"database {self.tree.db_id}: the node at {lsn} cannot be read, so its tree "
                "cannot be written. `je-tools verify --tree` tells what is lost, `je-tools "
                "salvage` gets the records out."
            )
        return leaves

    def _write_bins(self, upper: _Upper) -> _Named:
        children = self.tree.children_of(upper.leaves)
        at_once = at_once_below(upper.leaves.nodes, NODES_AT_ONCE)
        parts = [
            self._write_some_bins(children, upper, upper.below[first : first + at_once])
            for first in range(0, len(upper.below), at_once)
        ]
        return _joined(parts)

    def _write_some_bins(self, children: Children, upper: _Upper, rows: Ints) -> _Named:
        tree = self.tree
        leaves = self._read(children.select(rows))
        nodes, slots = leaves.nodes, leaves.nodes.slots
        n = len(nodes)
        first, last = self._changes_of(leaves.children)
        changed = np.arange(first[0], last[-1])
        given = self._given(changed, np.repeat(np.arange(n), last - first))
        inside = tree.are_in_range(leaves)
        is_mixed = np.bincount(nodes.slot_node[~inside], minlength=n) > 0
        touched = (last > first) | is_mixed
        deltas = find_deltas(tree, leaves, given, touched & ~is_mixed, self.delta_percent)
        whole = touched.copy()
        if deltas is not None:
            whole[deltas.row] = False
        _, same = match(tree, given.key, slots)
        kept = whole[nodes.slot_node] & inside & ~same & ~is_dead(slots)
        of_new = given.node[given.has_slot]
        new = whole[of_new]
        both = joined_slots([mended(tree, slots.select(kept)), given.slots.select(new)])
        owner = np.concatenate((nodes.slot_node[kept], of_new[new]))
        order = order_keys(both.key, two_part=tree.by_parts)
        pieces = _cut(nodes, whole, both.select(order), owner[order], _most(nodes))
        return self._named(leaves, rows, upper.leaves.nodes, touched, pieces, deltas)

    def _given(self, changed: Ints, node: Ints) -> Given:
        has_slot = self.changes.has_slot[changed]
        slots = self.changes.slots(self.tree, changed[has_slot])
        return Given(self.changes.key.select(changed), node, has_slot, slots)

    def _changes_of(self, children: Children) -> tuple[Ints, Ints]:
        """Return the rows of each child's changes: the first, and the one after the last."""
        key = self.changes.key
        first = self.tree.before(key, children.low, 0)
        last = self.tree.before(key, children.high, len(key))
        if (last < first).any() or (first[1:] != last[:-1]).any():
            raise RefusedError(
                f"database {self.tree.db_id}: the keys of its upper nodes are not in order, so "
                "its tree cannot be written. `je-tools verify --tree` tells more."
            )
        return first, last

    def _write_upper(self, upper: _Upper, above: Leaves, named: _Named) -> _Named:
        nodes = upper.leaves.nodes
        slots, owner = _put(nodes, named)
        counts = np.bincount(owner, minlength=len(nodes))
        touched = np.bincount(nodes.slot_node[named.replaced], minlength=len(nodes)) > 0
        # The engine splits a node after its child, and needs a free slot for that.
        limit = _most(nodes) - 1
        touched |= counts > limit
        kept = touched[owner]
        pieces = _cut(nodes, touched, slots.select(kept), owner[kept], limit)
        return self._named(upper.leaves, upper.slot, above.nodes, touched, pieces, None)

    def _named(
        self,
        leaves: Leaves,
        rows: Ints,
        above: Nodes,
        touched: Mask,
        pieces: _Pieces,
        deltas: Deltas | None,
    ) -> _Named:
        """Write nodes; return the replacements for the slots that refer to them.

        Args:
            leaves: nodes as they were.
            rows: int64; slot above of each.
            above: nodes above.
            touched: mask of the nodes that are written again.
            pieces: nodes to write whole.
            deltas: nodes to write as deltas.
        """
        lsns, sizes, of = self._append_all(pieces, deltas)
        self.log.replaces(leaves.logged[0], touched, None if deltas is None else deltas.row)
        # A newer version than the slot's was logged since; it stays, and the slot gets its LSN.
        changed = touched | (leaves.nodes.lsn != above.slots.lsn[rows])
        moved = np.flatnonzero(changed & ~touched)
        found = fetch(self.tree.image, leaves.nodes.lsn[moved], check=False)
        of = np.concatenate((of, moved))
        begins = pieces.nodes.slots.key.select(pieces.nodes.first[:-1])
        keys = joined_spans([above.slots.key.select(rows[of]), begins])
        at = np.arange(len(of))
        again = np.flatnonzero(_has_new_key(pieces, np.isin(rows, above.first[:-1])))
        at[again] = len(of) + again
        order = np.argsort(rows[of], kind="stable")
        return _Named(
            rows[changed],
            rows[of][order],
            keys.select(at[order]),
            np.concatenate((lsns, leaves.nodes.lsn[moved]))[order],
            np.concatenate((sizes, found.size))[order],
        )

    def _append_all(self, pieces: _Pieces, deltas: Deltas | None) -> tuple[Ints, Ints, Ints]:
        """Write pieces, then deltas; return LSN, size and node of each."""
        lsns, sizes = self._append(pieces)
        if deltas is None:
            return lsns, sizes, pieces.row
        of_deltas = self.log.deltas(
            deltas.nodes, deltas.fulls, prefixing=self.prefixing, two_part=self.tree.two_part
        )
        parts = (lsns, of_deltas[0]), (sizes, of_deltas[1]), (pieces.row, deltas.row)
        lsns, sizes, of = (np.concatenate(part) for part in parts)
        return lsns, sizes, of

    def _append(self, pieces: _Pieces, *, is_root: bool = False) -> tuple[Ints, Ints]:
        """Write nodes; return the LSN and size of each."""
        none = np.empty(0, np.int64)
        if not len(pieces.row):
            return none, none
        node_id = pieces.nodes.node_id.copy()
        fresh = np.flatnonzero(~pieces.is_first)
        node_id[fresh] = self.log.sequences.node_ids(len(fresh))
        booleans = np.full(len(node_id), NodeFlag.ROOT if is_root else 0, np.int64)
        nodes = replace(pieces.nodes, node_id=node_id, booleans=booleans)
        return self.log.nodes(
            replace(nodes, identifier_key=_identifiers(nodes)),
            prefixing=self.prefixing,
            two_part=self.tree.two_part,
            is_root=is_root,
        )

    def _write_root(self, leaves: Leaves, named: _Named) -> int:
        nodes = leaves.nodes
        if not len(named.replaced):
            return int(nodes.lsn[0])
        slots, _ = _put(nodes, named)
        self.log.replaces(leaves.logged[0], _ONE, None)
        return self._write_over(nodes, slots) if len(slots) else self._plant(nodes, slots)

    def _write_over(self, root: Nodes, slots: Slots) -> int:
        """Write a root with these slots; if they are too many, a new root over several nodes."""
        limit = _most(root)
        while len(slots) > limit[0]:
            pieces = _cut(root, _ONE, slots, np.zeros(len(slots), np.int64), limit - 1)
            lsns, sizes = self._append(pieces)
            slots = _slots_of(slots.key.select(pieces.nodes.first[:-1]), lsns, sizes)
            node_id = self.log.sequences.node_ids(1)
            root = replace(root, node_id=node_id, level=root.level + 1)
        pieces = _cut(root, _ONE, slots, np.zeros(len(slots), np.int64), limit)
        return int(self._append(pieces, is_root=True)[0][0])

    def _plant(self, root: Nodes, slots: Slots) -> int:
        """Write a root over new BINs; over an empty BIN if there are no slots."""
        bottom = root.level & ~np.int64(LEVEL_MASK) | 1
        bin_ = replace(root, level=bottom, node_id=self.log.sequences.node_ids(1))
        pieces = _cut(bin_, _ONE, slots, np.zeros(len(slots), np.int64), _most(root))
        if len(slots):
            key = slots.key.select(pieces.nodes.first[:-1])
        else:
            key = self._some_key(root)
            pieces = _Pieces(replace(_emptied(bin_), identifier_key=key), _ZERO, _ONE)
        lsns, sizes = self._append(pieces)
        return self._write_over(replace(root, level=bottom + 1), _slots_of(key, lsns, sizes))

    def _some_key(self, root: Nodes) -> Spans:
        """Return a key for a place where any will do; with duplicates it must have two parts."""
        keys = joined_spans([root.slots.key, self.changes.key])
        usable = np.flatnonzero(keys.sizes > 0)
        return keys.select(usable[:1]) if len(usable) else Spans.of([b""])

    def _begin(self) -> int:
        """Write a tree for a database that has none."""
        rows = np.flatnonzero(self.changes.has_slot)
        if not len(rows):
            return NULL_LSN
        none = np.empty(0, np.int64)
        root = Nodes(
            lsn=_ZERO,
            type=np.zeros(1, np.uint8),
            db_id=np.full(1, self.tree.db_id, np.int64),
            node_id=self.log.sequences.node_ids(1),
            level=np.full(1, _LEVELS_OF_MOST, np.int64),
            booleans=_ZERO,
            max_entries=np.full(1, self.max_entries, np.int64),
            last_full_lsn=_ZERO,
            expiration_base=_ZERO,
            identifier_key=Spans.of([b""]),
            good=_ONE,
            first=np.zeros(2, np.int64),
            slots=_slots_of(Spans.of([]), none, none),
        )
        return self._plant(root, self.changes.slots(self.tree, rows))


def _has_new_key(pieces: _Pieces, leads: Mask) -> Mask:
    """Return a mask of the pieces whose slot gets their own first key, not that of the old slot.

    The first slot of a node stands for all keys below the second, whatever its own key is; that may
    even be above many of them. If its child is split, the slot needs a key that is below.

    Args:
        pieces: pieces of nodes.
        leads: bool, by node; True if the slot that refers to it is the first of the node above.
    """
    are_several = np.bincount(pieces.row, minlength=len(leads)) > 1
    return ~pieces.is_first | (are_several & leads)[pieces.row]


def _joined(parts: list[_Named]) -> _Named:
    return _Named(
        np.concatenate([part.replaced for part in parts]),
        np.concatenate([part.slot for part in parts]),
        joined_spans([part.key for part in parts]),
        np.concatenate([part.lsn for part in parts]),
        np.concatenate([part.size for part in parts]),
    )


def _put(nodes: Nodes, named: _Named) -> tuple[Slots, Ints]:
    """Replace slots of upper nodes; return all their slots, and the node of each."""
    kept = np.ones(len(nodes.slots), np.bool_)
    kept[named.replaced] = False
    both = joined_slots([nodes.slots.select(kept), _slots_of(named.key, named.lsn, named.size)])
    place = np.concatenate((np.flatnonzero(kept), named.slot))
    order = np.argsort(place, kind="stable")
    return both.select(order), nodes.slot_node[place[order]]


def _slots_of(key: Spans, lsn: Ints, size: Ints) -> Slots:
    """Build slots of upper nodes."""
    zeros = np.zeros(len(lsn), np.int64)
    return Slots(key, lsn, zeros, size, zeros, zeros, zeros - 1, zeros, zeros, zeros)


def _most(nodes: Nodes) -> Ints:
    """Return the number of slots for which each node has room."""
    most: Ints = np.maximum(nodes.max_entries, _SLOTS_LEAST)
    return most


def _cut(nodes: Nodes, touched: Mask, slots: Slots, owner: Ints, limit: Ints) -> _Pieces:
    """Build the nodes to write; split those with too many slots into parts of about the same size.

    Args:
        nodes: nodes as they were.
        touched: mask of the nodes to write.
        slots: slots of these nodes, in order.
        owner: int64, ascending; node of each slot.
        limit: int64; maximum number of slots of each node.

    Returns:
        The nodes; none for a node without slots.
    """
    counts = np.where(touched, np.bincount(owner, minlength=len(nodes)), 0)
    parts = -(-counts // limit)
    row = np.repeat(np.arange(len(nodes)), parts)
    behind = np.cumsum(parts)
    place = np.arange(len(row)) - (behind - parts)[row]
    share, more = counts[row] // parts[row], counts[row] % parts[row]
    sizes = share + (place < more)
    first = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
    columns = {
        name: getattr(nodes, name)[row]
        for name in ("lsn", "db_id", "node_id", "level", "booleans", "max_entries")
    }
    is_bin = columns["level"] & LEVEL_MASK == 1
    cut = Nodes(
        # A delta becomes a full node here.
        type=np.where(is_bin, BIN_NO, IN_NO).astype(np.uint8),
        last_full_lsn=np.full(len(row), NULL_LSN, np.int64),
        expiration_base=np.full(len(row), -1, np.int64),
        identifier_key=nodes.identifier_key.select(row),
        good=np.ones(len(row), np.bool_),
        first=first,
        slots=slots,
        **columns,
    )
    return _Pieces(cut, row, place == 0)


def _emptied(bin_: Nodes) -> Nodes:
    """Return a full BIN without slots."""
    return replace(
        bin_,
        type=np.full(1, BIN_NO, np.uint8),
        last_full_lsn=np.full(1, NULL_LSN, np.int64),
        first=np.zeros(2, np.int64),
        slots=bin_.slots.select(np.empty(0, np.int64)),
    )


def _identifiers(nodes: Nodes) -> Spans:
    """Return an identifier key for each node: the old one if a slot has it, else the first slot's.

    A node without slots keeps the old one.
    """
    key, own = nodes.slots.key, nodes.identifier_key
    owner = nodes.slot_node
    same = equal_keys(own.select(owner), key)
    stays = np.bincount(owner[same], minlength=len(nodes)) > 0
    stays |= np.diff(nodes.first) == 0
    changed = np.flatnonzero(~stays)
    both = joined_spans([own, key.select(nodes.first[changed])])
    rows = np.arange(len(nodes))
    rows[changed] = len(nodes) + np.arange(len(changed))
    return both.select(rows)
