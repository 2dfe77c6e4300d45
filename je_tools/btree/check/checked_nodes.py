"""Nodes that are checked together, and the slots whose keys are out of order or out of range."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.btree.check.problems import TreeProblem
from je_tools.formats.je.btree.node_checks import descents
from je_tools.formats.je.btree.node_merging import within

if TYPE_CHECKING:
    from je_tools.btree.children import Children, LoadedNodes
    from je_tools.btree.tree import Tree
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.je.btree.nodes import Nodes


class CheckedNodes(Struct, frozen=True):
    """Some nodes of one level.

    Attributes:
        tree: tree of the nodes.
        loaded: the nodes as read, BINs or upper nodes.
        slot: int64; number of the slot that names each node in its parent, -1 for a root.
        descents: bool; slots whose key is not greater than that of the slot before.
        outside: bool; slots whose key is outside the range of their node.
    """

    tree: Tree
    loaded: LoadedNodes
    slot: Ints
    descents: Mask
    outside: Mask

    @property
    def nodes(self) -> Nodes:
        """The nodes, deltas merged."""
        return self.loaded.nodes

    @property
    def children(self) -> Children:
        """The nodes as described by their parents' slots."""
        return self.loaded.children

    @property
    def is_upper(self) -> bool:
        """True if the nodes are not BINs."""
        return self.children.level > 1

    def slot_no(self, row: int) -> tuple[int, int]:
        """Return the node of a slot, and the number of the slot in it."""
        node = int(np.searchsorted(self.nodes.first, row, side="right")) - 1
        return node, row - int(self.nodes.first[node])

    def of_node(
        self, code: str, row: int, expected: str, found: str, *, loses: bool
    ) -> TreeProblem:
        """Return a problem of a node; its place is the slot of its parent."""
        return TreeProblem(
            code=code,
            db_id=self.tree.db_id,
            lsn=int(self.nodes.lsn[row]),
            parent_lsn=int(self.children.parent_lsn[row]),
            slot=int(self.slot[row]),
            expected=expected,
            found=found,
            low=self.children.low[row],
            high=self.children.high[row],
            loses=loses,
        )

    def of_slot(
        self, code: str, row: int, expected: str, found: str, *, loses: bool
    ) -> TreeProblem:
        """Return a problem of a slot; its place is the slot in its node."""
        node, slot = self.slot_no(row)
        key = self.nodes.slots.key[row]
        lsn = int(self.nodes.lsn[node])
        return TreeProblem(
            code=code,
            db_id=self.tree.db_id,
            lsn=lsn,
            parent_lsn=lsn,
            slot=slot,
            expected=expected,
            found=found,
            low=key,
            high=key,
            loses=loses,
        )


def checked_nodes(tree: Tree, loaded: LoadedNodes, slot: Ints) -> CheckedNodes:
    """Find the slots of nodes whose keys are out of order or out of range.

    Without an order of keys, no slots are found.
    """
    nodes, children = loaded.nodes, loaded.children
    slots = nodes.slots
    none = np.zeros(len(slots), np.bool_)
    if not tree.ordered:
        return CheckedNodes(tree, loaded, slot, none, none)
    down = descents(slots.key, nodes.first, two_part=tree.by_parts)
    if children.level <= 1 and not down.any() and _ends_within(tree, loaded):
        return CheckedNodes(tree, loaded, slot, down, none)
    outside = ~within(slots.key, nodes.first, children.low, children.high, two_part=tree.by_parts)
    if children.level > 1:
        # The first slot of an upper node stands for all keys below the second.
        outside[nodes.first[:-1][np.diff(nodes.first) > 0]] = False
    return CheckedNodes(tree, loaded, slot, down, outside)


def _ends_within(tree: Tree, loaded: LoadedNodes) -> bool:
    """Return True if the first and last keys of all nodes are in range.

    If keys ascend, those between are in range too.
    """
    nodes, children = loaded.nodes, loaded.children
    filled = np.flatnonzero(np.diff(nodes.first))
    ends = np.stack((nodes.first[filled], nodes.first[filled + 1] - 1), axis=1).ravel()
    inside = within(
        nodes.slots.key.select(ends),
        np.arange(0, len(ends) + 1, 2),
        children.low.select(filled),
        children.high.select(filled),
        two_part=tree.by_parts,
    )
    return bool(inside.all())


def near_descents(part: CheckedNodes) -> Mask:
    """Return a mask of both slots of each pair whose keys are out of order."""
    near = part.descents.copy()
    near[:-1] |= part.descents[1:]
    return near


def suspect_keys(part: CheckedNodes) -> Mask:
    """Return a mask of the slots whose keys are already reported."""
    return part.outside | near_descents(part)
