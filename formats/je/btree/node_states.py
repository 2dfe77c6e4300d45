"""States of the slots of BINs: the columns that suffice to count their records.

Source: je-log.md "Nodes"; BIN.applyDelta, JE 18.3.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.formats import _native
from je_tools.formats.je.btree.nodes import (
    STATES_SINCE,
    Nodes,
    fit_memory,
    values_from_base,
    whole_keys,
)
from je_tools.formats.je.btree.slots import split_embedded
from je_tools.formats.je.expirations import expiration_ms
from je_tools.formats.je.flags import SlotState
from je_tools.formats.je.types import Family
from je_tools.formats.spans import Spans

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.je.log.fetch import Entries


class States(Struct, frozen=True):
    """Columns of BINs that suffice to count their records.

    Attributes:
        db_id, node_id, level, booleans: int64; as stored.
        identifier_key: whole key.
        first: int64 (n + 1,); slots of node i are [first[i], first[i + 1]).
        deleted: bool (slots,); as `Slots.deleted`.
        expires_ms: int64 (slots,); 0 if not stored.
        prefix: prefix of each node's keys; null if it has none.
        rest: key of each slot after the prefix.
        ends: whole keys of the first and the last slot of each node that has slots.
    """

    db_id: Ints
    node_id: Ints
    level: Ints
    booleans: Ints
    identifier_key: Spans
    first: Ints
    deleted: Mask
    expires_ms: Ints
    prefix: Spans
    rest: Spans
    ends: Spans


_OF_STATES = frozenset({"key", "state", "expiration_offset"})


def read_states(entries: Entries) -> States | None:
    """Decode only the parts of BINs that are needed to count their records.

    Args:
        entries: good entries of the type BIN.

    Returns:
        None if an entry does not decode, if there are several log versions or more than MAX_ROWS
        entries, or if the log version is less than 9: states mean less there.
    """
    rows = np.arange(len(entries))
    parts = list(entries.decode(Family.NODE, rows, of_slots=_OF_STATES))
    if len(parts) != 1 or entries.version[0] < STATES_SINCE:
        return None
    ((_, decoded),) = parts
    head, slots, first = decoded.fields, decoded.slots, decoded.slot_first
    if slots is None or decoded.bad.any() or not fit_memory(decoded).all():
        return None
    offsets = values_from_base(head, slots, np.diff(first), "expiration_base", "expiration")
    starts, sizes, _, _ = split_embedded(slots)
    filled = np.diff(first) > 0
    places = np.stack((first[:-1][filled], first[1:][filled] - 1), axis=1).ravel()
    of_ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(np.where(filled, 2, 0))))
    no_prefix = np.zeros(len(entries), np.int64), np.full(len(entries), -1, np.int64)
    has_prefix = head.has("key_prefix") and not head.is_empty("key_prefix")
    return States(
        db_id=head.number("db_id"),
        node_id=head.number("node_id"),
        level=head.number("level"),
        booleans=head.number("booleans"),
        identifier_key=Spans(slots.data, *head.span("identifier_key")),
        first=first,
        deleted=slots.number("state") & (SlotState.KNOWN_DELETED | SlotState.PENDING_DELETED) != 0,
        expires_ms=expiration_ms(offsets),
        prefix=Spans(slots.data, *(head.span("key_prefix") if has_prefix else no_prefix)),
        rest=Spans(slots.data, starts, sizes),
        ends=whole_keys(head, filled, slots, of_ends, starts[places], sizes[places]),
    )


def count_replaced(
    deltas: Nodes, fulls: States, rows: Ints, alive: Mask, *, ascending: bool
) -> int:
    """Return the number of live slots of full nodes that a slot of their delta replaces.

    Args:
        deltas: deltas.
        fulls: nodes that include the full versions.
        rows: int64; index in `fulls` of the full version of each delta.
        alive: bool; mask of live slots of `fulls`.
        ascending: True if keys are in byte order, so that each slot is compared only once.
    """
    keys = deltas.slots.key
    return _native.count_replaced(keys, deltas.first, fulls, rows, alive, ascending=ascending)
