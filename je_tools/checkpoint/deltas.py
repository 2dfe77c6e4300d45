"""Which BINs are written as deltas, and what these hold.

A delta names the last full version of its BIN, which stays in use, and has every slot that differs
from it: those of the delta before, and those that change now. A key that goes leaves a slot that is
known to be deleted where the full version has its record, and none where it has not.

The engine writes a delta where no more than a share of the slots differ. It is not enough here: a
BIN of which other slots have to be mended, or to go, or get another unit of expirations, is written
whole.

Source: BIN.shouldLogDelta, BIN.reconstituteBIN, BIN.applyDelta, BIN.getDeltaCapacity,
IN.logInternal, JE 7.5.11 and 25.3.17.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from je_tools.btree.tree import Leaves, Tree
from je_tools.checkpoint.mending import expire_far, lack_sizes, mended
from je_tools.formats.arrays import Ints, Mask
from je_tools.formats.je.expirations import DAY_MS, DAYS_MAX
from je_tools.formats.je.fetch import fetch
from je_tools.formats.je.header import NULL_LSN
from je_tools.formats.je.keysort import order_keys
from je_tools.formats.je.node_writer import FullVersions
from je_tools.formats.je.nodes import (
    BIN_NO,
    DELTA_NO,
    IN_HOURS,
    KNOWN_DELETED,
    Nodes,
    Slots,
    joined,
)
from je_tools.formats.spans import Spans
from je_tools.recovery.overlay import match


class Given(Struct, frozen=True):
    """What changes in some BINs.

    Attributes:
        key: each once, ascending.
        node: int64, ascending; the BIN of each.
        has_slot: bool; which keys have a slot from now on.
        slots: of these, in their order.
    """

    key: Spans
    node: Ints
    has_slot: Mask
    slots: Slots


class Deltas(Struct, frozen=True):
    """BINs that are written as deltas.

    Attributes:
        row: int64, ascending; which BINs.
        nodes: as they are written.
        fulls: what they say of the BINs.
    """

    row: Ints
    nodes: Nodes
    fulls: FullVersions


class _Bases(Struct, frozen=True):
    """The full versions of BINs; one row a BIN, and the slots of all in no order.

    Attributes:
        there: bool; which can be had.
        lsn: int64.
        is_in_hours, is_in_days: bool; the unit of its expirations, of which it has one or had.
        is_wrong: bool; does not say that unit.
        slots: of those that are there.
        node: int64 (slots,); the BIN of each.
    """

    there: Mask
    lsn: Ints
    is_in_hours: Mask
    is_in_days: Mask
    is_wrong: Mask
    slots: Slots
    node: Ints

    @classmethod
    def of(cls, leaves: Leaves, may_be: Mask) -> _Bases:
        """Of those BINs that may be deltas."""
        logged, fulls = leaves.logged
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
            in_hours = nodes.booleans[some] & IN_HOURS != 0
            hours[rows], days[rows] = counted & in_hours, counted & ~in_hours
            wrong[rows] = nodes.has_wrong_unit[some]
            row_of = np.full(len(nodes), -1, np.int64)
            row_of[some] = rows
            owner = row_of[nodes.slot_node]
            parts.append(nodes.slots.take(owner >= 0))
            owners.append(owner[owner >= 0])
        return cls(there, lsn, hours, days, wrong, joined(parts), np.concatenate(owners))


class _Differing(Struct, frozen=True):
    """Slots of deltas.

    Attributes:
        slots: ascending by their keys; those of keys that go are known to be deleted.
        node: int64, ascending; the BIN of each.
    """

    slots: Slots
    node: Ints

    @classmethod
    def of(cls, tree: Tree, leaves: Leaves, given: Given, may_be: Mask) -> _Differing:
        """Of the deltas that BINs have, and of what changes."""
        logged = leaves.logged[0]
        of_delta = (logged.is_delta & may_be)[logged.slot_node]
        before, owner = logged.slots.take(of_delta), logged.slot_node[of_delta]
        _, again = match(tree, given.key, before)
        before, owner = before.take(~again), owner[~again]
        dead = is_dead(before)
        coming = may_be[given.node[given.has_slot]]
        going = ~given.has_slot & may_be[given.node]
        slots = joined(
            [
                mended(tree, before.take(~dead)),
                _deleted(before.key.take(dead)),
                given.slots.take(coming),
                _deleted(given.key.take(going)),
            ]
        )
        new = given.node[given.has_slot][coming]
        node = np.concatenate((owner[~dead], owner[dead], new, given.node[going]))
        order = order_keys(slots.key, two_part=tree.by_parts)
        return cls(slots.take(order), node[order])


def is_dead(slots: Slots) -> Mask:
    """Which slots hold no record."""
    dead: Mask = slots.deleted | (slots.lsn == NULL_LSN)
    return dead


def _deleted(key: Spans) -> Slots:
    """Slots of keys that are known to be deleted."""
    slots = Slots.of_keys(key)
    slots.state[:] = KNOWN_DELETED
    return slots


def find_deltas(
    tree: Tree, leaves: Leaves, given: Given, may_be: Mask, percent: int
) -> Deltas | None:
    """The BINs that become deltas; None where there are none.

    Args:
        tree: of the database.
        leaves: BINs as they are.
        given: what changes in them.
        may_be: bool; which of them may be deltas. These have no slots out of their range.
        percent: so many of a hundred slots may differ, 0 for no deltas.
    """
    n = len(leaves.nodes)
    coming = np.bincount(given.node[given.has_slot], minlength=n)
    few = coming <= (np.diff(leaves.nodes.first) + coming) * percent // 100
    bases = _Bases.of(leaves, may_be & few)
    if not bases.there.any():
        return None
    differing = _Differing.of(tree, leaves, given, bases.there)
    return _chosen(tree, leaves.nodes, bases, differing, percent)


def _chosen(
    tree: Tree, nodes: Nodes, bases: _Bases, differing: _Differing, percent: int
) -> Deltas | None:
    n, slots, node = len(nodes), differing.slots, differing.node
    at, same = match(tree, slots.key, bases.slots)
    dead = is_dead(bases.slots)
    in_full, alive_in_full = np.zeros((2, len(slots)), np.bool_)
    in_full[at[same]] = True
    alive_in_full[at[same & ~dead]] = True
    gone = slots.state & KNOWN_DELETED != 0
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
    # Engines up to 18.3 take the delta's unit for that of all slots.
    expires = slots.expires_ms
    in_hours = (expires % DAY_MS != 0) | (expires > DAYS_MAX * DAY_MS)
    chosen &= ~(bases.is_in_days & (np.bincount(node[in_hours], minlength=n) > 0))
    chosen &= ~bases.is_wrong
    row = np.flatnonzero(chosen)
    if not len(row):
        return None
    first = np.concatenate((np.zeros(1, np.int64), np.cumsum(own[row])))
    columns = {name: getattr(nodes, name)[row] for name in ("lsn", "db_id", "node_id", "level")}
    made = Nodes(
        type=np.full(len(row), DELTA_NO, np.uint8),
        booleans=np.where(bases.is_in_hours[row], IN_HOURS, 0),
        max_entries=whole[row] * percent // 100,
        last_full_lsn=bases.lsn[row],
        expiration_base=np.full(len(row), -1, np.int64),
        identifier_key=nodes.identifier_key.take(row),
        good=np.ones(len(row), np.bool_),
        first=first,
        slots=slots.take(needed & chosen[node]),
        **columns,
    )
    sizes = fetch(tree.image, made.last_full_lsn, check=False).size
    return Deltas(row, made, FullVersions(sizes, whole[row], nodes.max_entries[row]))
