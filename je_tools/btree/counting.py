"""Count the records of BINs from the states of their slots, without building the slots.

Source: je-log.md "Nodes"; BIN.applyDelta, JE 18.3.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from je_tools.formats.je.btree.node_merging import within
from je_tools.formats.je.btree.node_states import States, count_replaced, read_states
from je_tools.formats.je.btree.nodes import BIN_NO, DELTA_NO, Nodes, read_nodes
from je_tools.formats.je.flags import LEVEL_MASK, NodeFlag
from je_tools.formats.je.log.fetch import Entries, fetch
from je_tools.log.records import unexpired

if TYPE_CHECKING:
    from je_tools.btree.children import Children
    from je_tools.btree.tree import Tree
    from je_tools.formats.arrays import Ints
    from je_tools.formats.spans import Spans

_SEARCHED_MAX = 4096
"""Largest full version, in slots, to search for each slot of a delta if keys are unordered."""


def count_slots(tree: Tree, children: Children, now_ms: int | None) -> int | None:
    """Count the records of BINs.

    Args:
        tree: tree of the database.
        children: the BINs.
        now_ms: records that expired before this time do not count; None to count all.

    Returns:
        The number of records, or None if the states alone do not give it: a node is damaged or out
        of place, or the search among unordered keys would take too long.
    """
    if tree.old_duplicates or not len(children):
        return None
    entries = fetch(tree.image, children.lsn)
    is_delta = entries.type == DELTA_NO
    if not (entries.good & (is_delta | (entries.type == BIN_NO))).all():
        return None
    rows = np.flatnonzero(is_delta)
    deltas = read_nodes(entries.select(rows))
    fulls = _fulls(tree, entries, rows, deltas)
    states = read_states(fulls) if fulls is not None else None
    if states is None or not _in_order(tree, children, rows, deltas, states):
        return None
    alive = ~states.deleted & unexpired(states.expires_ms, now_ms)
    total = int(np.count_nonzero(alive))
    if not len(rows):
        return total
    slots = deltas.slots
    total += int(np.count_nonzero(~slots.deleted & unexpired(slots.expires_ms, now_ms)))
    ascending = tree.ordered and not tree.two_part
    if not ascending and np.diff(states.first)[rows].max() > _SEARCHED_MAX:
        return None
    return total - count_replaced(deltas, states, rows, alive, ascending=ascending)


def _fulls(tree: Tree, entries: Entries, rows: Ints, deltas: Nodes) -> Entries | None:
    """Replace the deltas, at `rows`, by their full versions; return None if one is missing."""
    if not len(rows):
        return entries
    if not deltas.good.all() or (deltas.db_id != tree.db_id).any():
        return None
    fulls = fetch(tree.image, deltas.last_full_lsn)
    if not (fulls.good & (fulls.type == BIN_NO)).all():
        return None
    return entries.put(rows, fulls)


def _in_order(tree: Tree, children: Children, rows: Ints, deltas: Nodes, states: States) -> bool:
    """Return True if all nodes match their parents, are the newest and have no key out of range."""
    fits = (states.db_id == tree.db_id) & (states.level & LEVEL_MASK == children.level)
    fits &= states.booleans & NodeFlag.ROOT == 0
    newest, _ = tree.replayed.place(states.node_id, children.replay_slots)
    if not fits.all() or not np.array_equal(newest, children.lsn):
        return False
    if not tree.ordered:
        return True
    alone = np.arange(len(children) + 1)
    if not _all_within(tree, states.identifier_key, alone, children):
        return False
    filled = np.flatnonzero(np.diff(states.first))
    both = np.arange(0, 2 * len(filled) + 1, 2)
    return _all_within(tree, states.ends, both, children.select(filled)) and _all_within(
        tree, deltas.slots.key, deltas.first, children.select(rows)
    )


def _all_within(tree: Tree, keys: Spans, first: Ints, children: Children) -> bool:
    low, high = children.low, children.high
    inside = within(keys, first, low, high, two_part=tree.by_parts)
    return bool(inside.all())
