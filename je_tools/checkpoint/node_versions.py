"""Versions of nodes that were logged since the last checkpoint began, and those that trees use.

Source: RecoveryManager.readINs, JE 18.3.12.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import astuple

from je_tools.btree.children import BINS_AT_ONCE
from je_tools.formats.je.btree.nodes import OLD_DELTA_NOS
from je_tools.formats.je.log.fetch import fetch
from je_tools.recovery.interval_tables import ColumnTable

if TYPE_CHECKING:
    from je_tools.btree.tree import Tree
    from je_tools.formats.arrays import Ints, Mask

_NONE = np.empty(0, np.int64)


class Versions(ColumnTable, frozen=True):
    """Versions of nodes in log order.

    Attributes:
        lsn, db_id, node_id: int64.
        last_full_lsn, last_delta_lsn: int64; LSNs of the previous versions, NULL_LSN for none.
        is_delta: bool.
        is_whole_provisional: bool; provisional: it counts only if a node above was logged later.
    """

    lsn: Ints
    db_id: Ints
    node_id: Ints
    last_full_lsn: Ints
    last_delta_lsn: Ints
    is_delta: Mask
    is_whole_provisional: Mask

    def select(self, keep: Mask | Ints) -> Versions:
        """Return some rows."""
        return Versions(*(column[keep] for column in astuple(self)))


def joined_versions(parts: Iterable[Versions]) -> Versions:
    """Concatenate versions, in log order."""
    every = list(parts)
    no = np.empty(0, np.bool_)
    every = every or [Versions(_NONE, _NONE, _NONE, _NONE, _NONE, no, no)]
    columns = map(np.concatenate, zip(*map(astuple, every), strict=True))
    both = Versions(*columns)
    return both.select(np.argsort(both.lsn, kind="stable"))


def used_versions(tree: Tree, since: int) -> Iterator[tuple[Ints, Ints]]:
    """Yield the LSNs of nodes that a tree uses: all that were logged from `since` on, and others.

    A node logged from `since` on lies below a node that was logged after it, unless recovery put it
    into its slot. So only nodes logged from `since` on are read, and those above replayed nodes.

    Yields:
        LSNs of nodes, int64; and LSNs of the full versions of deltas of the old form, int64.
    """
    keys = tree.replayed.sorted_keys
    children = tree.root()
    while True:
        loaded = tree.read(children)
        yield loaded.nodes.lsn[loaded.nodes.good], _NONE
        below = tree.children_of(loaded)
        on_way = tree.holding(below, keys)
        if below.level <= 1:
            break
        children = below.select(on_way | (below.lsn >= since))
        if not len(children):
            return
    rows = np.flatnonzero(~on_way & (below.lsn >= since))
    yield below.lsn[rows], _NONE
    types = fetch(tree.image, below.lsn[rows], check=False).type
    on_way[rows[np.isin(types, OLD_DELTA_NOS)]] = True
    bins = below.select(on_way)
    for first in range(0, len(bins), BINS_AT_ONCE):
        logged, _, _ = tree.in_place(bins.select(slice(first, first + BINS_AT_ONCE)))
        yield logged.lsn, logged.last_full_lsn[np.isin(logged.type, OLD_DELTA_NOS)]
