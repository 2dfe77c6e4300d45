"""Search of a tree for lost nodes, whose keys are known as ranges, and for lost records."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from je_tools.btree.children import NODES_AT_ONCE, Children, Leaves
from je_tools.btree.number_set import NumberSet
from je_tools.btree.old_duplicates import expanded
from je_tools.formats.files.image import Image, ImagePart
from je_tools.formats.je.flags import SlotState
from je_tools.formats.je.header import NULL_LSN
from je_tools.formats.je.log.fetch import Found, fetch
from je_tools.formats.spans import joined_spans
from je_tools.missing.losses import DatabaseLoss, LostRange
from je_tools.missing.lost_ranges import range_bounds
from je_tools.recovery.reading import RecordReader
from je_tools.recovery.slot_matching import match

if TYPE_CHECKING:
    from je_tools.btree.tree import Tree
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.spans import Spans
    from je_tools.recovery.database import Database
    from je_tools.recovery.outcomes import Overlay
    from je_tools.recovery.snapshot import Snapshot


class TreeSearch(Struct, frozen=True, dict=True):
    """Search of trees for lost nodes and records.

    Attributes:
        snapshot: the log with all files that exist.
        without: numbers of files that are treated as missing.
    """

    snapshot: Snapshot
    without: frozenset[int]

    def is_gone(self, lsns: Ints) -> Mask:
        """Return a mask of the LSNs that lie in files treated as missing."""
        return np.isin(lsns >> 32 & 0xFFFFFFFF, list(self.without))

    def loss_of(self, database: Database) -> DatabaseLoss:
        """Return the loss of the tree of a database, from its root down."""
        name = f"id:{database.db_id}" if database.name is None else database.name
        loss = DatabaseLoss(name, database.db_id)
        tree = self.snapshot.tree(database)
        if tree.root_lsn == NULL_LSN:
            return loss
        overlay = self.snapshot.overlay(database.db_id)
        pieces = [
            self._records(tree, leaves, overlay)
            for leaves in self._leaves(tree, tree.root(), loss, NumberSet())
        ]
        pieces.append(self._changed(tree, overlay, loss))
        loss.keys = joined_spans([keys for keys, _ in pieces])
        loss.key_lsns = np.concatenate([lsns for _, lsns in pieces])
        loss.kept = np.zeros(len(loss.keys), np.bool_)
        return loss

    def _leaves(
        self, tree: Tree, children: Children, loss: DatabaseLoss, known: NumberSet
    ) -> Iterator[Leaves]:
        """Yield the bottom nodes that exist; add the ranges of lost nodes to the loss."""
        leaves = self._without_lost(tree.read(children), loss)
        if leaves.children.level <= 1:
            yield leaves
            return
        # In a damaged tree the paths to a node can be too many to follow: visit each node once.
        again = leaves.nodes.good.copy()
        again[again] = ~known.first_times(leaves.nodes.lsn[again])
        below = tree.children_of(replace(leaves, nodes=leaves.nodes.without(again)))
        for first in range(0, len(below), NODES_AT_ONCE):
            yield from self._leaves(
                tree, below.select(slice(first, first + NODES_AT_ONCE)), loss, known
            )

    def _without_lost(self, leaves: Leaves, loss: DatabaseLoss) -> Leaves:
        nodes, children = leaves.nodes, leaves.children
        lost_lsn = np.full(len(nodes), NULL_LSN, np.int64)
        logged, fulls = leaves.logged
        deltas = np.flatnonzero(logged.is_delta)
        bases = logged.last_full_lsn[deltas]
        no_base = self.is_gone(bases) | ~fulls.good
        lost_lsn[deltas[no_base]] = bases[no_base]
        gone = self.is_gone(nodes.lsn) | ~nodes.good
        lost_lsn[gone] = nodes.lsn[gone]
        is_lost = gone.copy()
        is_lost[deltas[no_base]] = True
        for row in np.flatnonzero(is_lost).tolist():
            low, high = children.low[row], children.high[row]
            loss.ranges.append(LostRange(low, high, children.level, int(lost_lsn[row])))
        return replace(leaves, nodes=nodes.without(is_lost))

    def _records(self, tree: Tree, leaves: Leaves, overlay: Overlay) -> tuple[Spans, Ints]:
        """Return keys and LSNs of slots whose record is lost."""
        slots, _ = tree.slots_in_range(leaves)
        if tree.old_duplicates:
            # A duplicate tree in a remaining file is expanded; else its slot stays, and is lost.
            slots, _ = expanded(replace(tree, image=self.left), slots)
        _, changed = match(tree, overlay.key, slots)
        now_ms = self.snapshot.now_ms
        asked = ~slots.deleted & ~changed & (slots.state & SlotState.EMBEDDED == 0)
        asked &= (slots.expires_ms == 0) | (slots.expires_ms >= now_ms)
        if tree.two_part:
            asked[:] = False
        slots = slots.select(asked)
        lost = self._lost(tree.image, slots.lsn)
        return slots.key.select(lost), slots.lsn[lost]

    def _changed(self, tree: Tree, overlay: Overlay, loss: DatabaseLoss) -> tuple[Spans, Ints]:
        """Return keys and LSNs of records that recovery restores and that are lost."""
        reading = RecordReader(replace(tree, image=self.left), overlay, with_data=True, now_ms=None)
        lacking = reading.lacking_changes(0, len(overlay))
        keys, lsns = lacking.key, lacking.lsn
        outside = np.ones(len(keys), np.bool_)
        for low, high in range_bounds(tree, keys, loss.ranges):
            outside[low:high] = False
        return keys.select(outside), lsns[outside]

    @cached_property
    def left(self) -> Image:
        """Image of the remaining files."""
        files = self.snapshot.end.files
        parts = [ImagePart(each.path, each.file_no, each.version, each.size) for each in files]
        last = parts.pop()
        parts.append(replace(last, stop=self.snapshot.end.next_offset))
        return self.snapshot.map_files([part for part in parts if part.file_no not in self.without])

    def _lost(self, image: Image, lsns: Ints) -> Mask:
        found = fetch(image, lsns, check=False).found
        return self.is_gone(lsns) | (found <= Found.NO_ENTRY)
