"""Match slots of BINs with the keys that recovery changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from je_tools.formats.je.btree.keysort import equal_keys, search_sorted

if TYPE_CHECKING:
    from je_tools.btree.tree import Tree
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.je.btree.slots import Slots
    from je_tools.formats.spans import Spans


def match_slots(tree: Tree, keys: Spans, slots: Slots) -> tuple[Ints, Mask]:
    """Return the row of each slot's key among ascending keys, and a mask of those found.

    The row of a key that is not found means nothing.
    """
    at = search_sorted(keys, slots.key, two_part=tree.by_parts)
    inside = np.minimum(at, max(len(keys) - 1, 0))
    if not len(keys):
        return inside, np.zeros(len(slots), np.bool_)
    return inside, equal_keys(keys.select(inside), slots.key)
