"""Prepare the nodes of a tree for writing: replace slots, split nodes, choose identifier keys.

Source: IN.split, JE 18.3.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from je_tools.formats.je.btree.keysort import equal_keys
from je_tools.formats.je.btree.nodes import BIN_NO, IN_NO, Nodes
from je_tools.formats.je.btree.slots import Slots, joined_slots
from je_tools.formats.je.flags import LEVEL_MASK
from je_tools.formats.je.header import NULL_LSN
from je_tools.formats.spans import joined_spans

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.spans import Spans


_SLOTS_LEAST = 4
"""Least number of slots for which a node has room, even if a damaged one claims less."""


class SlotReplacements(Struct, frozen=True):
    """Replacements for slots of upper nodes.

    Attributes:
        replaced: int64, ascending; slots to remove.
        slot: int64, ascending; for each new node, the slot whose place it takes. A slot may get
            none, or several.
        key, lsn, size: of each new node.
    """

    replaced: Ints
    slot: Ints
    key: Spans
    lsn: Ints
    size: Ints

    def removing(self, slots: Ints) -> SlotReplacements:
        """Return these replacements, which also remove some slots without a replacement."""
        return replace(self, replaced=np.union1d(self.replaced, slots))


class NodesToWrite(Struct, frozen=True):
    """Nodes to write, in key order.

    Attributes:
        nodes: the nodes: whole ones, and the parts of those that are split. A part that is not the
            first of its node gets its node id later.
        row: int64; the old node of which each is the whole or a part.
        is_first: bool; True for a whole node or a first part, which keeps the node id.
    """

    nodes: Nodes
    row: Ints
    is_first: Mask


def has_new_key(nodes_to_write: NodesToWrite, leads: Mask) -> Mask:
    """Return a mask of the nodes whose slot gets their own first key, not that of the old slot.

    The first slot of a node stands for all keys below the second, whatever its own key is. That key
    may be above keys of its child, so if the child is split, the slot needs a key from the child.

    Args:
        nodes_to_write: nodes to write.
        leads: bool, by node; True if the slot that refers to it is the first of the node above.
    """
    are_several = np.bincount(nodes_to_write.row, minlength=len(leads)) > 1
    return ~nodes_to_write.is_first | (are_several & leads)[nodes_to_write.row]


def joined_replacements(parts: list[SlotReplacements]) -> SlotReplacements:
    """Concatenate replacements."""
    return SlotReplacements(
        np.concatenate([part.replaced for part in parts]),
        np.concatenate([part.slot for part in parts]),
        joined_spans([part.key for part in parts]),
        np.concatenate([part.lsn for part in parts]),
        np.concatenate([part.size for part in parts]),
    )


def with_replacements(nodes: Nodes, replacements: SlotReplacements) -> tuple[Slots, Ints]:
    """Replace slots of upper nodes; return all their slots, and the node of each."""
    stays = np.ones(len(nodes.slots), np.bool_)
    stays[replacements.replaced] = False
    both = joined_slots(
        [
            nodes.slots.select(stays),
            upper_slots(replacements.key, replacements.lsn, replacements.size),
        ]
    )
    place = np.concatenate((np.flatnonzero(stays), replacements.slot))
    order = np.argsort(place, kind="stable")
    return both.select(order), nodes.slot_node[place[order]]


def upper_slots(key: Spans, lsn: Ints, size: Ints) -> Slots:
    """Build slots of upper nodes."""
    zeros = np.zeros(len(lsn), np.int64)
    return Slots(
        key=key,
        lsn=lsn,
        state=zeros,
        logged_size=size,
        vlsn=zeros,
        data_start=zeros,
        data_size=zeros - 1,
        expires_ms=zeros,
        created_ms=zeros,
        modified_ms=zeros,
    )


def room_for_slots(nodes: Nodes) -> Ints:
    """Return the number of slots for which each node has room."""
    most: Ints = np.maximum(nodes.max_entries, _SLOTS_LEAST)
    return most


def split_nodes(
    nodes: Nodes, touched: Mask, slots: Slots, owner: Ints, limit: Ints
) -> NodesToWrite:
    """Build the nodes to write, and split those with too many slots into parts of similar size.

    Args:
        nodes: nodes as they were.
        touched: mask of the nodes to write.
        slots: slots of these nodes, in order.
        owner: int64, ascending; node of each slot.
        limit: int64; maximum number of slots of each node.

    Returns:
        The nodes; none for a node without slots.
    """
    counts = np.where(touched, np.bincount(owner, minlength=len(nodes)), 0)
    parts = -(-counts // limit)
    row = np.repeat(np.arange(len(nodes)), parts)
    after = np.cumsum(parts)
    place = np.arange(len(row)) - (after - parts)[row]
    share, more = counts[row] // parts[row], counts[row] % parts[row]
    sizes = share + (place < more)
    first = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
    columns = {
        name: getattr(nodes, name)[row]
        for name in ("lsn", "db_id", "node_id", "level", "booleans", "max_entries")
    }
    is_bin = columns["level"] & LEVEL_MASK == 1
    cut = Nodes(
        # A delta becomes a full node here.
        type=np.where(is_bin, BIN_NO, IN_NO).astype(np.uint8),
        last_full_lsn=np.full(len(row), NULL_LSN, np.int64),
        expiration_base=np.full(len(row), -1, np.int64),
        identifier_key=nodes.identifier_key.select(row),
        good=np.ones(len(row), np.bool_),
        first=first,
        slots=slots,
        **columns,
    )
    return NodesToWrite(cut, row, place == 0)


def emptied(bin_: Nodes) -> Nodes:
    """Return a full BIN without slots."""
    return replace(
        bin_,
        type=np.full(1, BIN_NO, np.uint8),
        last_full_lsn=np.full(1, NULL_LSN, np.int64),
        first=np.zeros(2, np.int64),
        slots=bin_.slots.select(np.empty(0, np.int64)),
    )


def identifier_keys(nodes: Nodes) -> Spans:
    """Return an identifier key for each node: the old one if a slot has it, else the first key.

    A node without slots keeps the old one.
    """
    key, own = nodes.slots.key, nodes.identifier_key
    owner = nodes.slot_node
    same = equal_keys(own.select(owner), key)
    stays = np.bincount(owner[same], minlength=len(nodes)) > 0
    stays |= np.diff(nodes.first) == 0
    changed = np.flatnonzero(~stays)
    both = joined_spans([own, key.select(nodes.first[changed])])
    rows = np.arange(len(nodes))
    rows[changed] = len(nodes) + np.arange(len(changed))
    return both.select(rows)
