"""Nodes of B-trees: as the slots of their parents name them, and as they are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.btree.replay import ReplaySlots, Since
from je_tools.formats.je.btree.keysort import equal_keys
from je_tools.formats.spans import Spans, joined_spans

if TYPE_CHECKING:
    from je_tools.btree.fault_kinds import Fault
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.je.btree.nodes import Nodes

LEVELS_MAX = 64
"""Largest number of levels accepted in a tree; ten already hold more records than exist."""

NODES_AT_ONCE = 256
"""Number of nodes read together: enough for one native call, and some 10 MB."""

BINS_AT_ONCE = 2048
"""Largest number of BINs read together if the data of their records is not read.

Threads take turns at the Python code between native calls, so larger batches are faster.
"""

_SLOTS_AT_ONCE = 1 << 19
"""Largest number of slots in such a batch, counted by the nominal size of the nodes."""


class Children(Struct, frozen=True):
    """Nodes of one level that are not yet read, as the slots of their parents name them.

    They are in key order.

    Attributes:
        lsn, parent_lsn: int64.
        low, high: key range [low, high) of each; a null bound is open.
        since: LSNs after which replayed versions count in their places.
        is_lone: bool; True for the only child of the root.
        level: level of all of them; 0 for a root, whose level is unknown until it is read.
    """

    lsn: Ints
    parent_lsn: Ints
    low: Spans
    high: Spans
    since: Since
    is_lone: Mask
    level: int

    def __len__(self) -> int:
        return len(self.lsn)

    def select(self, keep: Mask | Ints | slice) -> Children:
        """Select rows by a mask, by an index array in its order, or by a slice."""
        rows = np.arange(len(self))[keep]
        return Children(
            self.lsn[rows],
            self.parent_lsn[rows],
            self.low.select(rows),
            self.high.select(rows),
            self.since.select(rows),
            self.is_lone[rows],
            self.level,
        )

    @property
    def are_empty_ranges(self) -> Mask:
        """Mask of those whose range is empty, so that no search reaches them."""
        low, high = (
            Spans(each.data, each.starts, np.maximum(each.sizes, 0))
            for each in (self.low, self.high)
        )
        are_closed = (self.low.sizes >= 0) & (self.high.sizes >= 0)
        return are_closed & equal_keys(low, high)

    @property
    def replay_slots(self) -> ReplaySlots:
        """The slots that name them, as replay needs them."""
        return ReplaySlots(self.lsn, self.since, self.low, self.high)


def joined_children(parts: Sequence[Children]) -> Children:
    """Concatenate children of one level."""
    none = np.empty(0, np.int64)
    return Children(
        np.concatenate([none, *(part.lsn for part in parts)]),
        np.concatenate([none, *(part.parent_lsn for part in parts)]),
        joined_spans([part.low for part in parts]),
        joined_spans([part.high for part in parts]),
        Since(
            np.concatenate([none, *(part.since.last_lsn for part in parts)]),
            np.concatenate([none, *(part.since.first_lsn for part in parts)]),
        ),
        np.concatenate([none.astype(np.bool_), *(part.is_lone for part in parts)]),
        parts[0].level if parts else 1,
    )


class LoadedNodes(Struct, frozen=True):
    """Nodes of one level as read, BINs or upper nodes, in key order and with deltas merged.

    A node that cannot be read has no slots.

    Attributes:
        nodes: one for each of `children`.
        children: the nodes as described by their parents' slots.
        faults: faults of the nodes.
        logged: the nodes as logged: first the versions in place, deltas not merged, then the full
            versions of the deltas.
        since: LSNs after which replayed versions count in the slots of these nodes.
    """

    nodes: Nodes
    children: Children
    faults: list[Fault]
    logged: tuple[Nodes, Nodes]
    since: Since


def batch_size_below(nodes: Nodes, most: int) -> int:
    """Return the number of children to read together: fewer than `most` if nodes are large."""
    return min(most, max(_SLOTS_AT_ONCE // max(int(nodes.max_entries.max(initial=1)), 1), 1))


def bound(key: bytes | None) -> Spans:
    """Return a column of one key; null for None."""
    return Spans.of([key])
