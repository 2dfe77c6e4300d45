"""Write a recovered tree: the nodes that recovery has changed, from the bottom up.

One descent finds the nodes in whose range a key has changed, or a node was logged since the last
checkpoint. Then each of them is written once, after its children. The new nodes count only when the
root is written.

Source: je-log.md "Checkpoints"; Checkpointer.flushDirtyNodes, IN.split, JE 18.3.12.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from je_tools.btree.children import NODES_AT_ONCE, Children, LoadedNodes, batch_size_below
from je_tools.btree.fault_kinds import FaultKind
from je_tools.checkpoint.deltas import BinChanges, Deltas, find_deltas, is_dead
from je_tools.checkpoint.slot_repair import repair_slots
from je_tools.checkpoint.tree_nodes import (
    NodesToWrite,
    SlotReplacements,
    emptied,
    has_new_key,
    identifier_keys,
    joined_replacements,
    room_for_slots,
    split_nodes,
    upper_slots,
    with_replacements,
)
from je_tools.errors import RefusedError
from je_tools.formats.je.btree.keysort import order_keys
from je_tools.formats.je.btree.nodes import Nodes
from je_tools.formats.je.btree.slots import Slots, joined_slots
from je_tools.formats.je.flags import LEVEL_MASK, MAIN_LEVELS, NodeFlag
from je_tools.formats.je.header import NULL_LSN, lsn_text
from je_tools.formats.je.log.fetch import fetch
from je_tools.formats.spans import Spans, joined_spans
from je_tools.recovery.slot_matching import match_slots

if TYPE_CHECKING:
    from je_tools.btree.tree import Tree
    from je_tools.checkpoint.changes import SlotChanges
    from je_tools.checkpoint.checkpoint_log import CheckpointLog
    from je_tools.formats.arrays import Ints, Mask


_LEVELS_OF_MOST = MAIN_LEVELS
"""Level bits of all nodes but those of the id database. Source: IN, JE 7.5.11."""

_ONE, _ZERO = np.ones(1, np.bool_), np.zeros(1, np.int64)


class _Upper(Struct, frozen=True):
    """Upper nodes of one level above changes.

    Attributes:
        loaded: the nodes.
        slot: int64; row of the slot above that names each.
        below: int64, ascending; rows of the slots of these nodes that lead to changes.
        unreached: int64, ascending; rows of the slots of these nodes that no search reaches.
    """

    loaded: LoadedNodes
    slot: Ints
    below: Ints
    unreached: Ints


def _are_before(slots: Mask, nodes: Nodes) -> Mask:
    """Return a mask of the slots whose next one in their node is in a mask."""
    before = np.append(slots[1:], False)[: len(slots)]
    before[nodes.first[1:][np.diff(nodes.first) > 0] - 1] = False
    return before


class TreeWriter(Struct, frozen=True):
    """Writer of the changes to one database's tree.

    Attributes:
        tree: tree of the database as recovery leaves it; its key order must be known.
        changes: keys whose slots change.
        log: log to append to.
        prefixing: True if nodes store the common prefix of their keys separately.
        max_entries: number of slots of a node, for a database that has no node yet.
        delta_percent: largest percentage of a BIN's slots that may differ from its last full
            version for a delta to be written; 0 for no deltas.
        since_lsn: LSN from which nodes were logged after the last checkpoint began.
        is_rewritten: True to write all nodes in full, without slots of deleted records, and with
            keys in upper nodes that their children have.
    """

    tree: Tree
    changes: SlotChanges
    log: CheckpointLog
    prefixing: bool
    max_entries: int
    delta_percent: int
    since_lsn: int
    is_rewritten: bool = False

    def write(self) -> int:
        """Write the changes and return the LSN of the root.

        Returns:
            The LSN of the new root, or of the old one if nothing has to be written; NULL_LSN for a
            database that has no tree and gets no record.

        Raises:
            RefusedError: a node above a change cannot be read, or the keys of upper nodes are not
                in order.
        """
        if self.tree.root_lsn == NULL_LSN:
            return self._write_new_tree()
        keys = self._keys()
        if not (self.is_rewritten or len(keys) or self.tree.root_lsn >= self.since_lsn):
            return self.tree.root_lsn
        uppers = self._descend(keys)
        if not len(uppers[-1].below):
            return self.tree.root_lsn
        for upper in uppers:
            self._note_unreached(upper)
        replacements = self._write_bins(uppers[-1])
        for above, upper in reversed(list(pairwise(uppers))):
            replacements = replacements.removing(upper.unreached)
            replacements = self._write_upper(upper, above.loaded, replacements)
        return self._write_root(uppers[0].loaded, replacements.removing(uppers[0].unreached))

    def _keys(self) -> Spans:
        """Return the keys that lead to all nodes to visit, ascending."""
        places = self.tree.replayed.sorted_keys
        if not len(places):
            return self.changes.key
        keys = joined_spans([self.changes.key, places])
        return keys.select(order_keys(keys, two_part=self.tree.by_parts))

    def _descend(self, keys: Spans) -> list[_Upper]:
        uppers: list[_Upper] = []
        children, slot = self.tree.root(), np.zeros(1, np.int64)
        while True:
            loaded = self._read(children)
            below = self.tree.children_of(loaded)
            # Nodes that were written together with those above can have slots outside their range.
            wanted = self.tree.holding(below, keys) | (below.lsn >= self.since_lsn)
            wanted |= self.tree.wrong_identifiers(loaded)[loaded.nodes.slot_node]
            # Below a slot outside the range of its node, and the one before it, which has lost the
            # end of its range, there can be slots that no search reaches.
            # A node that no search reaches at all is not read: the cleaner may have deleted it.
            are_stray = ~self.tree.are_in_range(loaded)
            are_unreached = are_stray & below.are_empty_ranges
            wanted |= are_stray | _are_before(are_stray, loaded.nodes)
            chosen = np.flatnonzero((wanted | self.is_rewritten) & ~are_unreached)
            uppers.append(_Upper(loaded, slot, chosen, np.flatnonzero(are_unreached)))
            if below.level <= 1 or not len(chosen):
                return uppers
            children, slot = below.select(chosen), chosen

    def _read(self, children: Children) -> LoadedNodes:
        loaded = self.tree.read(children)
        for fault in loaded.faults:
            if fault.kind is FaultKind.WRONG_ROOT_MARK:
                raise RefusedError(
                    f"database {self.tree.db_id}: the node at {lsn_text(fault.lsn)} has a wrong "
                    "mark of a root, so its tree cannot be written. `je-tools verify --tree` "
                    "reports the fault, and `je-tools export` gets the records out."
                )
        bad = np.flatnonzero(~loaded.nodes.good)
        if len(bad):
            lsn = lsn_text(int(children.lsn[bad[0]]))
            raise RefusedError(
                f"database {self.tree.db_id}: the node at {lsn} is not readable, so its tree "
                "cannot be written. `je-tools verify --tree` reports what is lost, and "
                "`je-tools salvage` gets the records out."
            )
        return loaded

    def _note_unreached(self, upper: _Upper) -> None:
        """Note the nodes that the tree loses because no search reaches them, if they are there.

        Like the engine when it removes a node from its parent, this counts the full version and the
        delta. Source: Tree.delete, IN.trackProvisionalObsolete, JE 18.3.12.
        """
        dropped = self.tree.children_of(upper.loaded).select(upper.unreached)
        if len(dropped):
            logged, _, _ = self.tree.in_place(dropped)
            self.log.note_replaced(logged, logged.good, None)

    def _write_bins(self, upper: _Upper) -> SlotReplacements:
        children = self.tree.children_of(upper.loaded)
        at_once = batch_size_below(upper.loaded.nodes, NODES_AT_ONCE)
        parts = [
            self._write_some_bins(children, upper, upper.below[first : first + at_once])
            for first in range(0, len(upper.below), at_once)
        ]
        return joined_replacements(parts)

    def _write_some_bins(self, children: Children, upper: _Upper, rows: Ints) -> SlotReplacements:
        tree = self.tree
        loaded = self._read(children.select(rows))
        nodes, slots = loaded.nodes, loaded.nodes.slots
        n = len(nodes)
        first, last = self._changes_of(loaded.children)
        changed = np.arange(first[0], last[-1])
        bin_changes = self._bin_changes(changed, np.repeat(np.arange(n), last - first))
        inside = tree.are_in_range(loaded)
        is_mixed = np.bincount(nodes.slot_node[~inside], minlength=n) > 0
        is_mixed |= tree.wrong_identifiers(loaded)
        touched = (last > first) | is_mixed | self.is_rewritten
        may_be = touched & ~is_mixed & (not self.is_rewritten)
        deltas = find_deltas(tree, loaded, bin_changes, may_be, self.delta_percent)
        whole = touched.copy()
        if deltas is not None:
            whole[deltas.row] = False
        _, same = match_slots(tree, bin_changes.key, slots)
        stays = whole[nodes.slot_node] & inside & ~same & ~is_dead(slots)
        of_new = bin_changes.node[bin_changes.has_slot]
        new = whole[of_new]
        both = joined_slots(
            [repair_slots(tree, slots.select(stays)), bin_changes.slots.select(new)]
        )
        owner = np.concatenate((nodes.slot_node[stays], of_new[new]))
        order = order_keys(both.key, two_part=tree.by_parts)
        nodes_to_write = split_nodes(
            nodes, whole, both.select(order), owner[order], room_for_slots(nodes)
        )
        return self._write_nodes(loaded, rows, upper.loaded.nodes, touched, nodes_to_write, deltas)

    def _bin_changes(self, changed: Ints, node: Ints) -> BinChanges:
        has_slot = self.changes.has_slot[changed]
        slots = self.changes.slots(self.tree, changed[has_slot])
        return BinChanges(self.changes.key.select(changed), node, has_slot, slots)

    def _changes_of(self, children: Children) -> tuple[Ints, Ints]:
        """Return the range of each child's changes: the first row, and the one after the last."""
        key = self.changes.key
        first = self.tree.order.before(key, children.low, 0)
        last = self.tree.order.before(key, children.high, len(key))
        if (last < first).any() or (first[1:] != last[:-1]).any():
            raise RefusedError(
                f"database {self.tree.db_id}: the keys of its upper nodes are not in order, so "
                "its tree cannot be written. `je-tools verify --tree` reports the place."
            )
        return first, last

    def _write_upper(
        self, upper: _Upper, above: LoadedNodes, replacements: SlotReplacements
    ) -> SlotReplacements:
        nodes = upper.loaded.nodes
        slots, owner = with_replacements(nodes, replacements)
        slots = replace(slots, key=self.tree.raised_first_keys(slots.key, owner, upper.loaded))
        counts = np.bincount(owner, minlength=len(nodes))
        touched = np.bincount(nodes.slot_node[replacements.replaced], minlength=len(nodes)) > 0
        touched |= self.tree.wrong_identifiers(upper.loaded)
        # The engine splits a node after its child, and needs a free slot for that.
        limit = room_for_slots(nodes) - 1
        touched |= counts > limit
        stays = touched[owner]
        nodes_to_write = split_nodes(nodes, touched, slots.select(stays), owner[stays], limit)
        return self._write_nodes(
            upper.loaded, upper.slot, above.nodes, touched, nodes_to_write, None
        )

    def _write_nodes(
        self,
        loaded: LoadedNodes,
        rows: Ints,
        above: Nodes,
        touched: Mask,
        nodes_to_write: NodesToWrite,
        deltas: Deltas | None,
    ) -> SlotReplacements:
        """Write nodes; return the replacements for the slots that refer to them.

        Args:
            loaded: nodes as they were.
            rows: int64; row of the slot above that names each.
            above: nodes above.
            touched: mask of the nodes that are written again.
            nodes_to_write: nodes to write whole.
            deltas: nodes to write as deltas.
        """
        lsns, sizes, of = self._append_all(nodes_to_write, deltas)
        self.log.note_replaced(loaded.logged[0], touched, None if deltas is None else deltas.row)
        # A newer version than the slot's was logged since; it stays, and the slot gets its LSN.
        changed = touched | (loaded.nodes.lsn != above.slots.lsn[rows])
        moved = np.flatnonzero(changed & ~touched)
        found = fetch(self.tree.image, loaded.nodes.lsn[moved], check=False)
        of = np.concatenate((of, moved))
        begins = nodes_to_write.nodes.slots.key.select(nodes_to_write.nodes.first[:-1])
        keys = joined_spans([above.slots.key.select(rows[of]), begins])
        at = np.arange(len(of))
        has_new = has_new_key(nodes_to_write, np.isin(rows, above.first[:-1]))
        again = np.flatnonzero(has_new | self.is_rewritten)
        at[again] = len(of) + again
        order = np.argsort(rows[of], kind="stable")
        return SlotReplacements(
            rows[changed],
            rows[of][order],
            keys.select(at[order]),
            np.concatenate((lsns, loaded.nodes.lsn[moved]))[order],
            np.concatenate((sizes, found.size))[order],
        )

    def _append_all(
        self, nodes_to_write: NodesToWrite, deltas: Deltas | None
    ) -> tuple[Ints, Ints, Ints]:
        """Write whole nodes, then deltas; return LSN, size and old node of each."""
        lsns, sizes = self._append(nodes_to_write)
        if deltas is None:
            return lsns, sizes, nodes_to_write.row
        of_deltas = self.log.deltas(
            deltas.nodes, deltas.fulls, prefixing=self.prefixing, two_part=self.tree.two_part
        )
        parts = (lsns, of_deltas[0]), (sizes, of_deltas[1]), (nodes_to_write.row, deltas.row)
        lsns, sizes, of = (np.concatenate(part) for part in parts)
        return lsns, sizes, of

    def _append(self, nodes_to_write: NodesToWrite, *, is_root: bool = False) -> tuple[Ints, Ints]:
        """Write nodes; return the LSN and size of each."""
        none = np.empty(0, np.int64)
        if not len(nodes_to_write.row):
            return none, none
        node_id = nodes_to_write.nodes.node_id.copy()
        fresh = np.flatnonzero(~nodes_to_write.is_first)
        node_id[fresh] = self.log.last_ids.node_ids(len(fresh))
        booleans = np.full(len(node_id), NodeFlag.ROOT if is_root else 0, np.int64)
        nodes = replace(nodes_to_write.nodes, node_id=node_id, booleans=booleans)
        return self.log.nodes(
            replace(nodes, identifier_key=identifier_keys(nodes)),
            prefixing=self.prefixing,
            two_part=self.tree.two_part,
            is_root=is_root,
        )

    def _write_root(self, loaded: LoadedNodes, replacements: SlotReplacements) -> int:
        nodes = loaded.nodes
        if not len(replacements.replaced):
            return int(nodes.lsn[0])
        slots, _ = with_replacements(nodes, replacements)
        self.log.note_replaced(loaded.logged[0], _ONE, None)
        return (
            self._write_root_over(nodes, slots)
            if len(slots)
            else self._write_root_over_bins(nodes, slots)
        )

    def _write_root_over(self, root: Nodes, slots: Slots) -> int:
        """Write a root with these slots; if they are too many, split it under a new root."""
        limit = room_for_slots(root)
        while len(slots) > limit[0]:
            nodes_to_write = split_nodes(
                root, _ONE, slots, np.zeros(len(slots), np.int64), limit - 1
            )
            lsns, sizes = self._append(nodes_to_write)
            slots = upper_slots(slots.key.select(nodes_to_write.nodes.first[:-1]), lsns, sizes)
            node_id = self.log.last_ids.node_ids(1)
            root = replace(root, node_id=node_id, level=root.level + 1)
        nodes_to_write = split_nodes(root, _ONE, slots, np.zeros(len(slots), np.int64), limit)
        return int(self._append(nodes_to_write, is_root=True)[0][0])

    def _write_root_over_bins(self, root: Nodes, slots: Slots) -> int:
        """Write a root over new BINs; over an empty BIN if there are no slots."""
        bottom = root.level & ~np.int64(LEVEL_MASK) | 1
        bin_ = replace(root, level=bottom, node_id=self.log.last_ids.node_ids(1))
        nodes_to_write = split_nodes(
            bin_, _ONE, slots, np.zeros(len(slots), np.int64), room_for_slots(root)
        )
        if len(slots):
            key = slots.key.select(nodes_to_write.nodes.first[:-1])
        else:
            key = self._some_key(root)
            nodes_to_write = NodesToWrite(replace(emptied(bin_), identifier_key=key), _ZERO, _ONE)
        lsns, sizes = self._append(nodes_to_write)
        return self._write_root_over(replace(root, level=bottom + 1), upper_slots(key, lsns, sizes))

    def _some_key(self, root: Nodes) -> Spans:
        """Return any key of the database, for an empty BIN; with duplicates it must be two-part."""
        keys = joined_spans([root.slots.key, self.changes.key])
        usable = np.flatnonzero(keys.sizes > 0)
        return keys.select(usable[:1]) if len(usable) else Spans.of([b""])

    def _write_new_tree(self) -> int:
        """Write a tree for a database that has none."""
        rows = np.flatnonzero(self.changes.has_slot)
        if not len(rows):
            return NULL_LSN
        none = np.empty(0, np.int64)
        root = Nodes(
            lsn=_ZERO,
            type=np.zeros(1, np.uint8),
            db_id=np.full(1, self.tree.db_id, np.int64),
            node_id=self.log.last_ids.node_ids(1),
            level=np.full(1, _LEVELS_OF_MOST, np.int64),
            booleans=_ZERO,
            max_entries=np.full(1, self.max_entries, np.int64),
            last_full_lsn=_ZERO,
            expiration_base=_ZERO,
            identifier_key=Spans.of([b""]),
            good=_ONE,
            first=np.zeros(2, np.int64),
            slots=upper_slots(Spans.of([]), none, none),
        )
        return self._write_root_over_bins(root, self.changes.slots(self.tree, rows))
