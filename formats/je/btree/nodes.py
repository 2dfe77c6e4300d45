"""B-tree nodes as columns: whole keys, LSNs, states and embedded records of their slots.

The form is the same for every log version: keys with their prefix, LSNs as numbers, times in
milliseconds. A BIN-delta holds the slots that changed since the full BIN that it names; `merged`
combines the two.

Source: je-log.md "Nodes"; IN.readFromLog, BIN.applyDelta, TTL, JE 7.5.11 and 25.3.17.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from je_tools.formats import _native
from je_tools.formats.je.btree.slots import Slots, joined_slots, split_embedded
from je_tools.formats.je.expirations import DAYS_MAX, expiration_ms
from je_tools.formats.je.flags import NodeFlag, SlotState
from je_tools.formats.je.header import NULL_LSN
from je_tools.formats.je.types import BY_NAME, Family, mask_of
from je_tools.formats.spans import Spans

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.files.source import Bytes
    from je_tools.formats.je.entry.columns import Columns, Decoded
    from je_tools.formats.je.log.fetch import Entries

IN_NO, BIN_NO, DELTA_NO = (BY_NAME[name].no for name in ("IN", "BIN", "NewBINDelta"))

OLD_DELTA_NOS = (BY_NAME["BINDelta"].no, BY_NAME["DupBINDelta"].no)

_IS_DELTA = mask_of([DELTA_NO, *OLD_DELTA_NOS])

TRANSIENT = (SlotState.OLD_TRANSIENT | SlotState.TRANSIENT).value
"""Bits of a slot's state that engines clear when they log it, from log version 9 on."""

KEYS_MAX = 1 << 29
"""Largest total size of the prefixes of nodes read together, counted once per slot.

Each key gets a copy of its node's prefix, whose size may be damaged.
"""

STATES_SINCE = 9


class Nodes(Struct, frozen=True):
    """Nodes, in the order in which they were requested.

    Attributes:
        lsn: int64; LSN of the entry.
        type: uint8.
        db_id, node_id, level, booleans, max_entries, last_full_lsn, expiration_base: int64; as
            stored, 0 if a node of its type and log version does not have the field.
        identifier_key: whole key; null for a delta of the old form.
        good: bool; True for an entry that is a node and decodes. Others have no slots, and their
            columns are meaningless.
        first: int64 (n + 1,); slots of node i are [first[i], first[i + 1]).
        slots: slots of all nodes.
    """

    lsn: Ints
    type: npt.NDArray[np.uint8]
    db_id: Ints
    node_id: Ints
    level: Ints
    booleans: Ints
    max_entries: Ints
    last_full_lsn: Ints
    expiration_base: Ints
    identifier_key: Spans
    good: Mask
    first: Ints
    slots: Slots

    def __len__(self) -> int:
        return len(self.lsn)

    @property
    def slot_node(self) -> Ints:
        """Index of each slot's node, int64 (slots,)."""
        return np.repeat(np.arange(len(self)), np.diff(self.first))

    def without(self, dropped: Mask) -> Nodes:
        """Return the same nodes, except that dropped ones are not good and have no slots."""
        if not dropped.any():
            return self
        counts = np.where(dropped, 0, np.diff(self.first))
        first = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))
        slots = self.slots.select(~dropped[self.slot_node])
        return replace(self, good=self.good & ~dropped, first=first, slots=slots)

    @property
    def has_wrong_unit(self) -> Mask:
        """Mask of the nodes that give hours as the unit of expirations in days, or the reverse."""
        return self.have_other_unit(self.booleans)

    def have_other_unit(self, booleans: Ints) -> Mask:
        """Return a mask of the nodes whose expirations are not in the unit of these booleans."""
        differs = (self.expiration_base > DAYS_MAX) != (booleans & NodeFlag.IN_HOURS != 0)
        wrong: Mask = self.good & (self.expiration_base > 0) & differs
        return wrong

    @property
    def is_full(self) -> Mask:
        """Mask of the nodes without a free slot."""
        full: Mask = np.diff(self.first) >= self.max_entries
        return full

    @property
    def is_delta(self) -> Mask:
        """Mask of the nodes that only hold changed slots."""
        delta: Mask = self.good & _IS_DELTA[self.type]
        return delta


_NUMBERS = (
    "db_id",
    "node_id",
    "level",
    "booleans",
    "max_entries",
    "last_full_lsn",
    "expiration_base",
)


def read_nodes(entries: Entries) -> Nodes:
    """Decode nodes; `good` is False for an entry that is not a node or does not decode.

    Args:
        entries: any entries; those that are good and IN, BIN, BIN-delta, DIN or DBIN are decoded.
    """
    n = len(entries)
    numbers = {name: np.zeros(n, np.int64) for name in _NUMBERS}
    key_start, key_size = np.zeros(n, np.int64), np.full(n, -1, np.int64)
    good = np.zeros(n, np.bool_)
    counts = np.zeros(n, np.int64)
    rows_of, parts = [np.empty(0, np.int64)], []
    for family in (Family.NODE, Family.OLD_DELTA):
        wanted = np.flatnonzero(entries.is_family(family))
        for rows, decoded in entries.decode(family, wanted):
            head = decoded.fields
            if decoded.slots is None:
                # Before log version 6 a node is one field of bytes.
                continue
            for name in _NUMBERS:
                if head.has(name):
                    numbers[name][rows] = head.number(name)
            if head.has("delta_last_full_lsn"):
                own = head.is_present("delta_last_full_lsn")
                numbers["last_full_lsn"][rows[own]] = head.number("delta_last_full_lsn")[own]
            if head.has("identifier_key"):
                key_start[rows], key_size[rows] = head.span("identifier_key")
            usable = ~decoded.bad & fit_memory(decoded)
            good[rows] = usable
            slots = _slots(decoded, usable, int(entries.version[rows[0]]))
            counts[rows] = np.where(usable, np.diff(decoded.slot_first), 0)
            owner = np.repeat(np.arange(len(rows)), np.diff(decoded.slot_first))
            kept = usable[owner]
            parts.append(slots if kept.all() else slots.select(kept))
            rows_of.append(rows[owner[kept]])
    first = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))
    slots = joined_slots(parts)
    owner = np.concatenate(rows_of)
    if len(parts) > 1:
        slots = slots.select(np.argsort(owner, kind="stable"))
    key = Spans(entries.image.data, key_start, key_size)
    return Nodes(
        lsn=entries.lsn,
        type=entries.type,
        identifier_key=key,
        good=good,
        first=first,
        slots=slots,
        **numbers,
    )


def no_nodes(data: Bytes) -> Nodes:
    """Return no nodes; `data` is the buffer of their keys."""
    none = np.empty(0, np.int64)
    keys = Spans(data, none, none)
    return Nodes(
        lsn=none,
        type=np.empty(0, np.uint8),
        identifier_key=keys,
        good=np.empty(0, np.bool_),
        first=np.zeros(1, np.int64),
        slots=Slots(keys, *[none] * 9),
        **dict.fromkeys(_NUMBERS, none),
    )


def fit_memory(decoded: Decoded) -> Mask:
    """Return a mask of the nodes whose prefixes, with those before them, do not exceed KEYS_MAX."""
    head = decoded.fields
    if not head.has("key_prefix") or head.is_empty("key_prefix"):
        return np.ones(len(decoded.bad), np.bool_)
    sizes = np.maximum(head.span("key_prefix")[1], 0) * np.diff(decoded.slot_first)
    fitting: Mask = ~decoded.bad & (sizes <= KEYS_MAX)
    fitting &= np.cumsum(np.where(fitting, sizes, 0)) <= KEYS_MAX
    return fitting


def _slots(decoded: Decoded, usable: Mask, version: int) -> Slots:
    """Return the slots of nodes of one log version; only keys of usable nodes have their prefix."""
    head, slots = decoded.fields, decoded.slots
    assert slots is not None
    counts = np.diff(decoded.slot_first)
    starts, suffixes, data_starts, data_sizes = split_embedded(slots)
    key = whole_keys(head, usable, slots, decoded.slot_first, starts, suffixes)
    lsn, state = slots.number("lsn"), slots.number("state")
    if version < STATES_SINCE:
        state = state & ~TRANSIENT | np.where(lsn == NULL_LSN, SlotState.KNOWN_DELETED, 0)
    return Slots(
        key=key,
        lsn=lsn,
        state=state,
        logged_size=slots.known("logged_size"),
        vlsn=slots.known("vlsn"),
        data_start=data_starts,
        data_size=np.where(state & SlotState.EMBEDDED, data_sizes, -1),
        expires_ms=expiration_ms(
            values_from_base(head, slots, counts, "expiration_base", "expiration")
        ),
        created_ms=values_from_base(head, slots, counts, "created_base_ms", "created"),
        modified_ms=values_from_base(head, slots, counts, "modified_base_ms", "modified"),
    )


def values_from_base(head: Columns, slots: Columns, counts: Ints, base: str, name: str) -> Ints:
    """Return values that are stored as differences from a base of the node; 0 for none."""
    offsets = slots.known(f"{name}_offset")
    if not head.has(base) or not offsets.any():
        return np.zeros(len(offsets), np.int64)
    bases = np.repeat(head.number(base), counts)
    return np.where(offsets != 0, offsets - 1 + bases, 0)


def whole_keys(
    head: Columns, usable: Mask, slots: Columns, first: Ints, starts: Ints, sizes: Ints
) -> Spans:
    """Return the keys of slots with the prefixes of their nodes, if the nodes are usable."""
    sizes = np.maximum(sizes, 0)
    if not head.has("key_prefix") or head.is_empty("key_prefix"):
        return Spans(slots.data, starts, sizes)
    prefix_starts, prefix_sizes = head.span("key_prefix")
    prefixes = Spans(slots.data, prefix_starts, np.where(usable, prefix_sizes, -1))
    return Spans(*_native.join_keys(first, prefixes, Spans(slots.data, starts, sizes)))
