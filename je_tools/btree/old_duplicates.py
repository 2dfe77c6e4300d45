"""Duplicates in the form of log versions before 8: a tree of its own under the slot of a key.

Such a slot names a DIN instead of a record, whose bottom nodes (DBIN) name the records of the key
in the order of their data.

Source: je-log.md "Nodes"; DIN, DBIN, JE 3.3.98.
"""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from je_tools.btree.tree import LEVELS_MAX, Tree
from je_tools.formats.arrays import Ints, Mask
from je_tools.formats.je.fetch import fetch
from je_tools.formats.je.nodes import Slots
from je_tools.formats.je.types import BY_NAME, mask_of

_OF_DUPLICATES = mask_of(BY_NAME[name].no for name in ("DIN", "DBIN"))


def expanded(tree: Tree, slots: Slots) -> Slots:
    """Slots with one for each duplicate in the place of the one for their key.

    Nodes that cannot be had are told in `tree.faults`, and have no duplicates.
    """
    for _ in range(LEVELS_MAX):
        entries = fetch(tree.image, slots.lsn, fast=tree.fast, check=False)
        is_node: Mask = entries.good & _OF_DUPLICATES[entries.type] & ~slots.deleted
        if not is_node.any():
            return slots
        slots = _one_level_down(tree, slots, np.flatnonzero(is_node))
    return slots


def _one_level_down(tree: Tree, slots: Slots, rows: Ints) -> Slots:
    nodes, _ = tree.newest(slots.lsn[rows])
    counts = np.ones(len(slots), np.int64)
    counts[rows] = np.diff(nodes.first)
    owner = np.repeat(np.arange(len(slots)), counts)
    below = np.zeros(len(owner), np.bool_)
    is_node = np.zeros(len(slots), np.bool_)
    is_node[rows] = True
    below[is_node[owner]] = True
    down = slots.take(owner)
    for column in fields(Slots):
        # The key stays that of the records.
        if column.name != "key":
            getattr(down, column.name)[below] = getattr(nodes.slots, column.name)
    return down
