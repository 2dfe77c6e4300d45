"""Cuts of a database into ranges of keys with about the same number of BINs.

The cuts are keys of upper nodes, so that few nodes are read to find them, and a BIN lies in one
range unless duplicates of one key cross its border.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.btree.key_ranges import KeyRange
from je_tools.formats.je.btree.keys import NotTwoPartError, split_two_part
from je_tools.formats.je.header import NULL_LSN

if TYPE_CHECKING:
    from je_tools.btree.children import Children
    from je_tools.btree.tree import Tree

NODES_PER_CUT = 8
"""Nodes of the level at which a tree is cut, for each range: more make the ranges more equal."""


class UpperLevel(Struct, frozen=True):
    """Nodes of one level of a tree, in key order.

    Attributes:
        nodes: the nodes, unread, as the slots above them name them; None for an empty tree.
        bin_count: estimated number of BINs in or below them.
        is_cuttable: True if keys are in byte order, so that a range of them is known.
        two_part: True if the keys of nodes are two-part keys.
    """

    nodes: Children | None
    bin_count: int
    is_cuttable: bool
    two_part: bool

    def ranges(self, count: int) -> list[KeyRange]:
        """Return at most `count` ranges that together hold every key once, ascending."""
        cuts: list[bytes] = []
        if self.nodes is not None and self.is_cuttable:
            places = np.unique(np.linspace(0, len(self.nodes), count + 1).astype(np.int64))
            for place in places[1:-1].tolist():
                key = self._key(self.nodes.low[place])
                # Duplicates of one key may fill several nodes, and damage may disorder keys.
                if key is not None and (not cuts or key > cuts[-1]):
                    cuts.append(key)
        return [KeyRange(low, high) for low, high in pairwise([None, *cuts, None])]

    def _key(self, bound: bytes | None) -> bytes | None:
        """Return the record's key in the bound of a node, or None if there is none."""
        if bound is None or not self.two_part:
            return bound
        try:
            return split_two_part(bound)[0]
        except NotTwoPartError:
            return None


def upper_level(tree: Tree, least: int) -> UpperLevel:
    """Return the uppermost level of a tree that has `least` nodes, or its BINs.

    Nodes that cannot be read are left out. They are reported when the records are read.
    """
    is_cuttable = tree.ordered and not tree.old_duplicates
    if tree.root_lsn == NULL_LSN:
        return UpperLevel(None, 0, is_cuttable, tree.two_part)
    nodes = tree.root()
    while True:
        loaded = tree.read(nodes)
        below = tree.children_of(loaded)
        fanout = len(below) / max(len(nodes), 1)
        nodes = below
        if nodes.level <= 1 or len(nodes) >= least or not len(nodes):
            bin_count = int(len(nodes) * max(fanout, 1.0) ** max(nodes.level - 1, 0))
            return UpperLevel(nodes, bin_count, is_cuttable, tree.two_part)
