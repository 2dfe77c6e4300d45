"""Nodes of a B-tree read in the versions that recovery puts into slots, deltas merged.

Source: IN.fetchIN, BIN.reconstituteBIN, JE 18.3.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from je_tools.btree.children import LEVELS_MAX, Children, LoadedNodes
from je_tools.btree.fault_kinds import Fault, FaultKind
from je_tools.formats.je.btree.node_merging import merged, within
from je_tools.formats.je.btree.nodes import OLD_DELTA_NOS, Nodes, no_nodes, read_nodes
from je_tools.formats.je.flags import LEVEL_MASK, NodeFlag
from je_tools.formats.je.header import NULL_LSN
from je_tools.formats.je.log.fetch import Found, fetch
from je_tools.formats.spans import Spans

if TYPE_CHECKING:
    from je_tools.btree.replay import KeyOrder, Replayed, Since
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.files.image import Image
    from je_tools.formats.je.btree.slots import Slots

_NO_ID = -(1 << 63)
"""An id that no node has."""


class NodeReader(Struct, frozen=True):
    """A reader of the nodes of one database.

    Attributes:
        image: the log.
        db_id: id of the database.
        replayed: nodes that recovery puts into slots.
        order: order of the keys.
    """

    image: Image
    db_id: int
    replayed: Replayed
    order: KeyOrder

    @property
    def ordered(self) -> bool:
        """True if keys are ordered by their bytes."""
        return self.order.ordered

    @property
    def two_part(self) -> bool:
        """True if the database has duplicates, in two-part keys."""
        return self.order.two_part

    @property
    def by_parts(self) -> bool:
        """True if keys are compared by their two parts."""
        return self.order.by_parts

    def read(self, children: Children) -> LoadedNodes:
        """Read nodes and merge deltas; safe in any thread.

        If the level of `children` is 0, it is taken from the first node, the root.
        """
        logged, found, since = self.in_place(children)
        nodes, no_full, fulls = self._with_full(logged)
        level = nodes.level & LEVEL_MASK
        if children.level == 0:
            children = replace(children, level=int(np.clip(level[0], 2, LEVELS_MAX)))
        misplaced = (nodes.db_id != self.db_id) | (level != children.level)
        loaded = LoadedNodes(nodes, children, [], (logged, fulls), since)
        loaded.faults.extend(self._faults(loaded, found, no_full))
        loaded = replace(loaded, nodes=nodes.without(misplaced & nodes.good))
        loaded.faults.extend(self._contradictions(loaded))
        return loaded

    def in_place(self, children: Children) -> tuple[Nodes, npt.NDArray[np.uint8], Since]:
        """Read the nodes that replay leaves in slots, deltas not merged.

        If a node cannot be read, its id is unknown and the engine would not open the log. Then the
        newest node of its level whose identifier key leads there takes its place, if there is one.

        Returns:
            The nodes, a `Found` of each, and the LSNs after which replayed versions count in the
            slots of these nodes.
        """
        nodes, found = self._logged(children.lsn)
        if children.level == 0 or not len(self.replayed):
            return nodes, found, children.since
        node_ids = nodes.node_id
        if np.isin(nodes.type, OLD_DELTA_NOS).any():
            node_ids = self._with_full(nodes)[0].node_id
        node_ids = np.where(nodes.good, node_ids, _NO_ID)
        lsns, since = self.replayed.place(node_ids, children.replay_slots)
        bad = np.flatnonzero(~nodes.good)
        if len(bad):
            lsns = lsns.copy()
            lsns[bad] = self.replayed.newest_at(children.level, children.replay_slots, bad)
        if not np.array_equal(lsns, children.lsn):
            nodes, found = self._logged(lsns)
        return nodes, found, since

    def newest_whole(self, lsns: Ints) -> tuple[Nodes, npt.NDArray[np.uint8], Mask]:
        """Read the newest versions of nodes in trees of old duplicates, deltas merged.

        Returns:
            The nodes, a `Found` of each, and a mask of those that lack their full version.
        """
        logged, found = self._logged(lsns)
        if len(self.replayed):
            whole, _, _ = self._with_full(logged)
            newest = self.replayed.newest_of_node(whole.node_id)
            newest = np.where(logged.good, np.maximum(newest, lsns), lsns)
            if not np.array_equal(newest, lsns):
                logged, found = self._logged(newest)
        whole, no_full, _ = self._with_full(logged)
        return whole, found, no_full

    def _logged(self, lsns: Ints) -> tuple[Nodes, npt.NDArray[np.uint8]]:
        """Return nodes as logged, and a `Found` of each."""
        entries = fetch(self.image, lsns)
        return read_nodes(entries), entries.found

    def _with_full(self, nodes: Nodes) -> tuple[Nodes, Mask, Nodes]:
        """Merge deltas with their full versions.

        Returns:
            The nodes, a mask of the deltas whose full version cannot be read, and the full
            versions.
        """
        deltas = np.flatnonzero(nodes.is_delta)
        missing = np.zeros(len(nodes), np.bool_)
        if not len(deltas):
            return nodes, missing, no_nodes(self.image.data)
        full_lsns = self._own_fulls(nodes.last_full_lsn[deltas], nodes.node_id[deltas])
        fulls = read_nodes(fetch(self.image, full_lsns))
        usable = fulls.good & ~fulls.is_delta & (fulls.db_id == nodes.db_id[deltas])
        # Deltas of the old form do not hold the id of their node.
        node_ids = nodes.node_id[deltas]
        usable &= (node_ids == 0) | (node_ids == fulls.node_id)
        of_delta = np.full(len(nodes), -1, np.int64)
        of_delta[deltas[usable]] = np.flatnonzero(usable)
        missing[deltas[~usable]] = True
        whole = merged(nodes, fulls, of_delta, ordered=self.ordered, two_part=self.by_parts)
        return whole, missing, fulls

    def _own_fulls(self, full_lsns: Ints, node_ids: Ints) -> Ints:
        """Return the LSN of the full version of each delta, no LSN twice; NULL_LSN for the others.

        Damaged deltas may name the same full version. It goes to a delta of the same node if there
        is one.
        """
        distinct, place = np.unique(full_lsns, return_inverse=True)
        if len(distinct) == len(full_lsns):
            return full_lsns
        fulls = read_nodes(fetch(self.image, distinct))
        fits = (node_ids == 0) | (node_ids == fulls.node_id[place])
        order = np.lexsort((~fits, place))
        is_first = np.diff(place[order], prepend=-1) != 0
        own = np.full(len(full_lsns), NULL_LSN, np.int64)
        own[order[is_first]] = full_lsns[order[is_first]]
        return own

    def wrong_root_marks(self, loaded: LoadedNodes) -> Mask:
        """Return a mask of the roots without a root mark, and of other nodes with one.

        A crash between the two steps of a root's split leaves the old root, with its mark, as the
        only child of the new one. That is not wrong.
        """
        nodes, children = loaded.nodes, loaded.children
        marked = nodes.booleans & NodeFlag.ROOT != 0
        is_root = children.parent_lsn == NULL_LSN
        wrong: Mask = nodes.good & np.where(is_root, ~marked, marked & ~children.is_lone)
        return wrong

    def wrong_identifiers(self, loaded: LoadedNodes) -> Mask:
        """Return a mask of the nodes whose identifier key is outside the range of their slot."""
        keys, children = loaded.nodes.identifier_key, loaded.children
        if not self.ordered:
            return np.zeros(len(keys), np.bool_)
        inside = within(
            Spans(keys.data, keys.starts, np.maximum(keys.sizes, 0)),
            np.arange(len(keys) + 1),
            children.low,
            children.high,
            two_part=self.by_parts,
        )
        wrong: Mask = loaded.nodes.good & (keys.sizes >= 0) & ~inside
        return wrong

    def are_in_range(self, loaded: LoadedNodes) -> Mask:
        """Return a mask of the slots whose keys lie in the range that their parents give them.

        A crash can leave others: stale copies that the engine's searches never reach.
        """
        slots = loaded.nodes.slots
        if not self.ordered or not len(slots):
            return np.ones(len(slots), np.bool_)
        return within(
            slots.key,
            loaded.nodes.first,
            loaded.children.low,
            loaded.children.high,
            two_part=self.by_parts,
        )

    def slots_in_range(self, loaded: LoadedNodes) -> tuple[Slots, list[Fault]]:
        """Return the slots of BINs for which `are_in_range` is true, and the faults."""
        slots = loaded.nodes.slots
        faults = list(loaded.faults)
        inside = self.are_in_range(loaded)
        if inside.all():
            return slots, faults
        nodes = np.unique(loaded.nodes.slot_node[~inside])
        faults += [self._fault(FaultKind.STRAY_SLOTS, loaded, node) for node in nodes.tolist()]
        return slots.select(inside), faults

    def _faults(
        self, loaded: LoadedNodes, found: npt.NDArray[np.uint8], no_full: Mask
    ) -> list[Fault]:
        nodes = loaded.nodes
        wrong_level = nodes.level & LEVEL_MASK != loaded.children.level
        wrong_db = nodes.db_id != self.db_id
        troubled = ~nodes.good | wrong_level | wrong_db | no_full
        faults = []
        for row in np.flatnonzero(troubled).tolist():
            if found[row] in (Found.NO_FILE, Found.NO_ENTRY):
                kind = FaultKind.MISSING
            elif found[row] == Found.BAD:
                kind = FaultKind.DAMAGED
            elif not nodes.good[row]:
                kind = FaultKind.NOT_A_NODE
            elif wrong_db[row]:
                kind = FaultKind.WRONG_DATABASE
            else:
                kind = FaultKind.NO_FULL_VERSION if no_full[row] else FaultKind.WRONG_LEVEL
            faults.append(self._fault(kind, loaded, row))
        # Engines up to 18.3 keep the unit of the delta when they merge it.
        wrong_unit = nodes.has_wrong_unit | nodes.have_other_unit(loaded.logged[0].booleans)
        units = np.flatnonzero(wrong_unit & ~troubled)
        return faults + [
            self._fault(FaultKind.EXPIRATION_UNIT, loaded, row) for row in units.tolist()
        ]

    def _contradictions(self, loaded: LoadedNodes) -> list[Fault]:
        """Return faults of nodes that contradict their place in the tree.

        Their records are read nevertheless.
        """
        wrongs = {
            FaultKind.WRONG_ROOT_MARK: self.wrong_root_marks(loaded),
            FaultKind.OTHER_RANGE: self.wrong_identifiers(loaded),
        }
        return [
            self._fault(kind, loaded, row)
            for kind, wrong in wrongs.items()
            for row in np.flatnonzero(wrong).tolist()
        ]

    def _fault(self, kind: FaultKind, loaded: LoadedNodes, row: int) -> Fault:
        children = loaded.children
        return Fault(
            kind,
            self.db_id,
            int(loaded.nodes.lsn[row]),
            int(children.parent_lsn[row]),
            children.low[row],
            children.high[row],
        )
