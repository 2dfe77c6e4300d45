"""Choose BINs to write as BIN-deltas, and build the deltas.

A delta refers to the last full version of its BIN, which stays in use. It holds every slot that
differs from that version: the slots of the previous delta, and those that change now. A removed
key has a known-deleted slot if the full version has its record, and no slot otherwise.

Like the engine, this module writes a delta only if at most a given share of the slots differ. In
addition, a BIN is written whole if one of its other slots needs repair, has to be removed, or needs
another unit of expirations.

Source: BIN.shouldLogDelta, BIN.reconstituteBIN, BIN.applyDelta, BIN.getDeltaCapacity,
IN.logInternal, JE 7.5.11 and 25.3.17.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.checkpoint.slot_repair import expire_far, lack_sizes, repair_slots
from je_tools.formats.je.btree.keysort import order_keys
from je_tools.formats.je.btree.nodes import BIN_NO, DELTA_NO, Nodes
from je_tools.formats.je.btree.slots import Slots, joined_slots
from je_tools.formats.je.expirations import DAY_MS, DAYS_MAX
from je_tools.formats.je.flags import NodeFlag, SlotState
from je_tools.formats.je.header import NULL_LSN
from je_tools.formats.je.log.fetch import fetch
from je_tools.formats.je.write.node_writer import FullVersions
from je_tools.recovery.slot_matching import match_slots

if TYPE_CHECKING:
    from je_tools.btree.children import LoadedNodes
    from je_tools.btree.tree import Tree
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.spans import Spans


class BinChanges(Struct, frozen=True):
    """Changes to some BINs.

    Attributes:
        key: each once, ascending.
        node: int64, ascending; BIN of each key.
        has_slot: bool; keys that have a slot from now on.
        slots: slots of these keys, in their order.
    """

    key: Spans
    node: Ints
    has_slot: Mask
    slots: Slots


class Deltas(Struct, frozen=True):
    """BINs to write as deltas.

    Attributes:
        row: int64, ascending; rows of the BINs.
        nodes: the deltas.
        fulls: fields of the deltas that describe the whole BINs.
    """

    row: Ints
    nodes: Nodes
    fulls: FullVersions


class _Bases(Struct, frozen=True):
    """Full versions of BINs: one row a BIN, and the slots of all in no order.

    Attributes:
        there: bool; full versions that can be read.
        lsn: int64.
        is_in_hours, is_in_days: bool; unit of its expirations; both False if it never had any.
        is_wrong: bool; its flag states another unit than its values have.
        slots: slots of the versions that can be read.
        node: int64 (slots,); BIN of each slot.
    """

    there: Mask
    lsn: Ints
    is_in_hours: Mask
    is_in_days: Mask
    is_wrong: Mask
    slots: Slots
    node: Ints

    @classmethod
    def of(cls, loaded: LoadedNodes, may_be: Mask) -> _Bases:
        """Collect the full versions of the BINs that may be deltas."""
        logged, fulls = loaded.logged
        deltas = np.flatnonzero(logged.is_delta)
        own = np.flatnonzero(may_be & logged.good & (logged.type == BIN_NO))
        usable = fulls.good & (fulls.type == BIN_NO) & (logged.type[deltas] == DELTA_NO)
        usable &= fulls.db_id == logged.db_id[deltas]
        usable &= (fulls.node_id == logged.node_id[deltas]) & may_be[deltas]
        there, hours, days, wrong = np.zeros((4, len(logged)), np.bool_)
        lsn = np.full(len(logged), NULL_LSN, np.int64)
        parts, owners = [], []
        for nodes, some, rows in (
            (logged, own, own),
            (fulls, np.flatnonzero(usable), deltas[usable]),
        ):
            there[rows], lsn[rows] = True, nodes.lsn[some]
            counted = nodes.expiration_base[some] > 0
            in_hours = nodes.booleans[some] & NodeFlag.IN_HOURS != 0
            hours[rows], days[rows] = counted & in_hours, counted & ~in_hours
            wrong[rows] = nodes.has_wrong_unit[some]
            row_of = np.full(len(nodes), -1, np.int64)
            row_of[some] = rows
            owner = row_of[nodes.slot_node]
            parts.append(nodes.slots.select(owner >= 0))
            owners.append(owner[owner >= 0])
        return cls(there, lsn, hours, days, wrong, joined_slots(parts), np.concatenate(owners))


class _Differing(Struct, frozen=True):
    """Slots of deltas.

    Attributes:
        slots: ascending by key; slots of removed keys are known-deleted.
        node: int64, ascending; BIN of each slot.
    """

    slots: Slots
    node: Ints

    @classmethod
    def of(cls, tree: Tree, loaded: LoadedNodes, changes: BinChanges, may_be: Mask) -> _Differing:
        """Combine the slots of existing deltas with the changes."""
        logged = loaded.logged[0]
        of_delta = (logged.is_delta & may_be)[logged.slot_node]
        before, owner = logged.slots.select(of_delta), logged.slot_node[of_delta]
        _, again = match_slots(tree, changes.key, before)
        before, owner = before.select(~again), owner[~again]
        dead = is_dead(before)
        kept = may_be[changes.node[changes.has_slot]]
        removed = ~changes.has_slot & may_be[changes.node]
        slots = joined_slots(
            [
                repair_slots(tree, before.select(~dead)),
                _deleted(before.key.select(dead)),
                changes.slots.select(kept),
                _deleted(changes.key.select(removed)),
            ]
        )
        new = changes.node[changes.has_slot][kept]
        node = np.concatenate((owner[~dead], owner[dead], new, changes.node[removed]))
        order = order_keys(slots.key, two_part=tree.by_parts)
        return cls(slots.select(order), node[order])


def is_dead(slots: Slots) -> Mask:
    """Return a mask of the slots that hold no record."""
    dead: Mask = slots.deleted | (slots.lsn == NULL_LSN)
    return dead


def _deleted(key: Spans) -> Slots:
    """Return known-deleted slots for keys."""
    slots = Slots.of_keys(key)
    slots.state[:] = SlotState.KNOWN_DELETED
    return slots


def find_deltas(
    tree: Tree, loaded: LoadedNodes, changes: BinChanges, may_be: Mask, percent: int
) -> Deltas | None:
    """Return the BINs that become deltas, or None if there are none.

    Args:
        tree: tree of the database.
        loaded: BINs as they are.
        changes: changes to them.
        may_be: bool; BINs that may be deltas. They have no slots out of their range.
        percent: largest percentage of slots that may differ; 0 for no deltas.
    """
    n = len(loaded.nodes)
    changed = np.bincount(changes.node[changes.has_slot], minlength=n)
    few = changed <= (np.diff(loaded.nodes.first) + changed) * percent // 100
    bases = _Bases.of(loaded, may_be & few)
    if not bases.there.any():
        return None
    differing = _Differing.of(tree, loaded, changes, bases.there)
    return _chosen(tree, loaded.nodes, bases, differing, percent)


def _chosen(
    tree: Tree, nodes: Nodes, bases: _Bases, differing: _Differing, percent: int
) -> Deltas | None:
    n, slots, node = len(nodes), differing.slots, differing.node
    at, same = match_slots(tree, slots.key, bases.slots)
    dead = is_dead(bases.slots)
    in_full, alive_in_full = np.zeros((2, len(slots)), np.bool_)
    in_full[at[same]] = True
    alive_in_full[at[same & ~dead]] = True
    gone = slots.state & SlotState.KNOWN_DELETED != 0
    needed = ~gone | alive_in_full
    own = np.bincount(node[needed], minlength=n)
    whole = np.bincount(bases.node, minlength=n) + own
    whole -= np.bincount(node[needed & in_full], minlength=n)
    stays = ~same & ~dead
    alive = np.bincount(bases.node[stays], minlength=n)
    alive += np.bincount(node[~gone], minlength=n)
    chosen = bases.there & (own > 0) & (own <= whole * percent // 100)
    chosen &= (whole <= nodes.max_entries) & (alive > 0)
    lacking = expire_far(bases.slots)
    if not tree.two_part:
        lacking |= lack_sizes(bases.slots)
    chosen &= np.bincount(bases.node[stays & lacking], minlength=n) == 0
    # Engines up to 18.3 read all slots with the unit of the delta.
    expires = slots.expires_ms
    in_hours = (expires % DAY_MS != 0) | (expires > DAYS_MAX * DAY_MS)
    chosen &= ~(bases.is_in_days & (np.bincount(node[in_hours], minlength=n) > 0))
    chosen &= ~bases.is_wrong
    row = np.flatnonzero(chosen)
    if not len(row):
        return None
    first = np.concatenate((np.zeros(1, np.int64), np.cumsum(own[row])))
    columns = {name: getattr(nodes, name)[row] for name in ("lsn", "db_id", "node_id", "level")}
    deltas = Nodes(
        type=np.full(len(row), DELTA_NO, np.uint8),
        booleans=np.where(bases.is_in_hours[row], NodeFlag.IN_HOURS, 0),
        max_entries=whole[row] * percent // 100,
        last_full_lsn=bases.lsn[row],
        expiration_base=np.full(len(row), -1, np.int64),
        identifier_key=nodes.identifier_key.select(row),
        good=np.ones(len(row), np.bool_),
        first=first,
        slots=slots.select(needed & chosen[node]),
        **columns,
    )
    sizes = fetch(tree.image, deltas.last_full_lsn, check=False).size
    return Deltas(row, deltas, FullVersions(sizes, whole[row], nodes.max_entries[row]))
