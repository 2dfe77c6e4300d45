"""BIN-deltas merged with their full versions, and keys compared with the ranges of nodes.

Source: je-log.md "Nodes"; BIN.applyDelta, JE 7.5.11 and 25.3.17.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import asdict

from je_tools.formats import _native
from je_tools.formats.je.btree.nodes import Nodes
from je_tools.formats.je.btree.slots import joined_slots
from je_tools.formats.spans import Spans

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints, Mask


def merged(nodes: Nodes, fulls: Nodes, of_delta: Ints, *, ordered: bool, two_part: bool) -> Nodes:
    """Return nodes in which deltas also have the slots of their full versions.

    Args:
        nodes: nodes, some of which are deltas.
        fulls: full versions.
        of_delta: int64 (nodes,); index in `fulls` of each delta's full version, -1 for others.
        ordered: True if keys are ordered by their bytes.
        two_part: True for keys of a database with duplicates.
    """
    there = of_delta >= 0
    if not there.any():
        return nodes
    slots = joined_slots([nodes.slots, fulls.slots])
    place = np.where(there, of_delta, 0)
    base = len(nodes.slots)
    full_first = np.where(there, fulls.first[place] + base, 0)
    full_last = np.where(there, fulls.first[place + there] + base, 0)
    kept, counts = _native.merge_slots(
        slots.key, nodes.first, full_first, full_last, ordered=ordered, two_part=two_part
    )
    columns = asdict(nodes)
    for name in ("node_id", "level", "booleans", "max_entries"):
        columns[name] = np.where(there, getattr(fulls, name)[place], columns[name])
    own, other = nodes.identifier_key, fulls.identifier_key
    columns["identifier_key"] = Spans(
        own.data,
        np.where(there, other.starts[place], own.starts),
        np.where(there, other.sizes[place], own.sizes),
    )
    columns["first"] = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))
    columns["slots"] = slots.select(kept)
    return Nodes(**columns)


def within(keys: Spans, first: Ints, low: Spans, high: Spans, *, two_part: bool) -> Mask:
    """Return a mask of the slots whose key is in [low, high) of their node.

    Args:
        keys: keys of all slots.
        first: int64 (nodes + 1,); slots of node i are [first[i], first[i + 1]).
        low, high: bounds of each node; null if open.
        two_part: True for keys of a database with duplicates.
    """
    return _native.within(keys, first, low, high, two_part=two_part)
