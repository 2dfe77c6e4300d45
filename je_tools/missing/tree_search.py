"""Search of a tree for lost nodes, whose keys are known as ranges, and for lost records."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from je_tools.btree.children import NODES_AT_ONCE, Children, LoadedNodes
from je_tools.btree.number_set import NumberSet
from je_tools.btree.old_duplicates import expand_duplicates
from je_tools.formats.files.image import Image, ImagePart
from je_tools.formats.je.flags import SlotState
from je_tools.formats.je.header import NULL_LSN
from je_tools.formats.je.log.fetch import Found, fetch
from je_tools.formats.spans import joined_spans
from je_tools.missing.losses import DatabaseLoss, LostRange
from je_tools.missing.lost_ranges import range_bounds
from je_tools.recovery.record_reader import RecordReader
from je_tools.recovery.slot_matching import match_slots

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
            self._records(tree, loaded, overlay)
            for loaded in self._bottom_nodes(tree, tree.root(), loss, NumberSet())
        ]
        pieces.append(self._changed(tree, overlay, loss))
        loss.keys = joined_spans([keys for keys, _ in pieces])
        loss.key_lsns = np.concatenate([lsns for _, lsns in pieces])
        loss.kept = np.zeros(len(loss.keys), np.bool_)
        return loss

    def _bottom_nodes(
        self, tree: Tree, children: Children, loss: DatabaseLoss, known: NumberSet
    ) -> Iterator[LoadedNodes]:
        """Yield the bottom nodes that exist, and add the ranges of lost nodes to the loss."""
        loaded = self._without_lost(tree.read(children), loss)
        if loaded.children.level <= 1:
            yield loaded
            return
        # A damaged tree can have too many paths to a node to follow: visit each node once.
        again = loaded.nodes.good.copy()
        again[again] = ~known.first_times(loaded.nodes.lsn[again])
        below = tree.children_of(replace(loaded, nodes=loaded.nodes.without(again)))
        for first in range(0, len(below), NODES_AT_ONCE):
            yield from self._bottom_nodes(
                tree, below.select(slice(first, first + NODES_AT_ONCE)), loss, known
            )

    def _without_lost(self, loaded: LoadedNodes, loss: DatabaseLoss) -> LoadedNodes:
        """Return the nodes that exist, and add the ranges of the others to the loss."""
        nodes, children = loaded.nodes, loaded.children
        lost_lsn = np.full(len(nodes), NULL_LSN, np.int64)
        logged, fulls = loaded.logged
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
        return replace(loaded, nodes=nodes.without(is_lost))

    def _records(self, tree: Tree, loaded: LoadedNodes, overlay: Overlay) -> tuple[Spans, Ints]:
        """Return keys and LSNs of slots whose record is lost."""
        slots, _ = tree.slots_in_range(loaded)
        if tree.old_duplicates:
            # A duplicate tree in a remaining file is expanded. If it is lost, its slot stays.
            slots, _ = expand_duplicates(replace(tree, image=self.remaining), slots)
        _, changed = match_slots(tree, overlay.key, slots)
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
        reader = RecordReader(
            replace(tree, image=self.remaining), overlay, with_data=True, now_ms=None
        )
        unreadable = reader.unreadable_changes(0, len(overlay))
        keys, lsns = unreadable.key, unreadable.lsn
        outside = np.ones(len(keys), np.bool_)
        for low, high in range_bounds(tree, keys, loss.ranges):
            outside[low:high] = False
        return keys.select(outside), lsns[outside]

    @cached_property
    def remaining(self) -> Image:
        """Image of the remaining files."""
        files = self.snapshot.end.files
        parts = [ImagePart(each.path, each.file_no, each.version, each.size) for each in files]
        last = parts.pop()
        parts.append(replace(last, stop=self.snapshot.end.next_offset))
        return self.snapshot.map_files([part for part in parts if part.file_no not in self.without])

    def _lost(self, image: Image, lsns: Ints) -> Mask:
        found = fetch(image, lsns, check=False).found
        return self.is_gone(lsns) | (found <= Found.NO_ENTRY)
