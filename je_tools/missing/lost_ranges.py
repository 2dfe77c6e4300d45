"""Search for the keys of a database that lie in lost ranges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from je_tools.btree.children import bound
from je_tools.formats.je.btree.keysort import search_sorted
from je_tools.formats.spans import joined_spans

if TYPE_CHECKING:
    from je_tools.btree.tree import Tree
    from je_tools.formats.spans import Spans
    from je_tools.missing.losses import LostRange


def range_bounds(tree: Tree, keys: Spans, ranges: Sequence[LostRange]) -> list[tuple[int, int]]:
    """Return start and end of each range, as indexes into keys in the order of the tree.

    If the order of the tree is unknown, a range has all keys if it is unbounded, else none.
    """
    if not tree.ordered:
        return [(0, len(keys) if one.is_everything else 0) for one in ranges]
    if not ranges:
        return []
    bounds = joined_spans([bound(key) for one in ranges for key in (one.low, one.high)])
    found = search_sorted(keys, bounds, two_part=tree.by_parts).reshape(-1, 2)
    is_open = bounds.sizes.reshape(-1, 2) < 0
    found[is_open[:, 0], 0] = 0
    found[is_open[:, 1], 1] = len(keys)
    return [(low, high) for low, high in found.tolist()]
