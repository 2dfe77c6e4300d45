"""B-tree nodes as columns: whole keys, LSNs, states and embedded records of their slots.

The form is the same for every log version: keys with their prefix, LSNs as numbers, times in
milliseconds. A BIN-delta holds the slots that changed since the full BIN that it names; `merged`
combines the two.

Source: je-log.md "Nodes"; IN.readFromLog, BIN.applyDelta, TTL, JE 7.5.11 and 25.3.17.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import asdict, astuple, replace

from je_tools.formats import _native
from je_tools.formats.je.expirations import DAYS_MAX, expiration_ms
from je_tools.formats.je.flags import NodeFlag, SlotState
from je_tools.formats.je.header import NULL_LSN
from je_tools.formats.je.slots import split_embedded
from je_tools.formats.je.types import BY_NAME, Family, mask_of
from je_tools.formats.spans import Spans

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.je.columns import Columns, Decoded
    from je_tools.formats.je.fetch import Entries
    from je_tools.formats.source import Bytes

IN_NO, BIN_NO, DELTA_NO = (BY_NAME[name].no for name in ("IN", "BIN", "NewBINDelta"))
OLD_DELTA_NOS = (BY_NAME["BINDelta"].no, BY_NAME["DupBINDelta"].no)

_IS_DELTA = mask_of([DELTA_NO, *OLD_DELTA_NOS])

TRANSIENT = (SlotState.OLD_TRANSIENT | SlotState.TRANSIENT).value
"""Bits of a slot's state that engines clear when they log it, from log version 9 on."""

KEYS_MAX = 1 << 29
"""Largest total size of the prefixes of nodes read together, counted once per slot.

Each key gets a copy of its node's prefix, whose size may be damaged.
"""

_STATES_SINCE = 9


class Slots(Struct, frozen=True):
    """Slots of nodes.

    Attributes:
        key: whole key without embedded data; a two-part key in a database with duplicates.
        lsn: int64; NULL_LSN for none.
        state: int64; bits of the slot's state.
        logged_size: int64; size of the child's entry, 0 if not stored.
        vlsn: int64; 0 if not stored.
        data_start, data_size: int64; span of embedded data in the image, size -1 if not embedded.
        expires_ms, created_ms, modified_ms: int64; 0 if not stored.
    """

    key: Spans
    lsn: Ints
    state: Ints
    logged_size: Ints
    vlsn: Ints
    data_start: Ints
    data_size: Ints
    expires_ms: Ints
    created_ms: Ints
    modified_ms: Ints

    @classmethod
    def of_keys(cls, key: Spans) -> Slots:
        """Return slots with keys and empty columns, to be filled."""
        columns = {name: np.zeros(len(key), np.int64) for name in _SLOT_NUMBERS}
        columns["lsn"][:] = NULL_LSN
        columns["data_size"][:] = -1
        return cls(key, **columns)

    def __len__(self) -> int:
        return len(self.lsn)

    def take(self, keep: npt.NDArray[Any] | slice) -> Slots:
        """Select slots by a mask, by an index array in its order, or by a slice."""
        return Slots(*(_taken(column, keep) for column in astuple(self)))

    @property
    def deleted(self) -> Mask:
        """Mask of the slots that are known to be deleted or pending deletion."""
        gone: Mask = self.state & (SlotState.KNOWN_DELETED | SlotState.PENDING_DELETED) != 0
        return gone


_SLOT_NUMBERS = tuple(name for name in Slots.__struct_fields__ if name != "key")


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
        slots = self.slots.take(~dropped[self.slot_node])
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
            usable = ~decoded.bad & _fits(decoded)
            good[rows] = usable
            slots = _slots(decoded, usable, int(entries.version[rows[0]]))
            counts[rows] = np.where(usable, np.diff(decoded.slot_first), 0)
            owner = np.repeat(np.arange(len(rows)), np.diff(decoded.slot_first))
            kept = usable[owner]
            parts.append(slots if kept.all() else slots.take(kept))
            rows_of.append(rows[owner[kept]])
    first = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))
    slots = joined(parts)
    owner = np.concatenate(rows_of)
    if len(parts) > 1:
        slots = slots.take(np.argsort(owner, kind="stable"))
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


def _fits(decoded: Decoded) -> Mask:
    """Return a mask of the nodes whose prefixes, with those before them, do not exceed KEYS_MAX."""
    head = decoded.fields
    if not head.has("key_prefix") or head.is_empty("key_prefix"):
        return np.ones(len(decoded.bad), np.bool_)
    sizes = np.maximum(head.span("key_prefix")[1], 0) * np.diff(decoded.slot_first)
    fitting: Mask = ~decoded.bad & (sizes <= KEYS_MAX)
    fitting &= np.cumsum(np.where(fitting, sizes, 0)) <= KEYS_MAX
    return fitting


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
        entries, or before log version 9, in which states mean less.
    """
    rows = np.arange(len(entries))
    parts = list(entries.decode(Family.NODE, rows, of_slots=_OF_STATES))
    if len(parts) != 1 or entries.version[0] < _STATES_SINCE:
        return None
    ((_, decoded),) = parts
    head, slots, first = decoded.fields, decoded.slots, decoded.slot_first
    if slots is None or decoded.bad.any() or not _fits(decoded).all():
        return None
    offsets = _based(head, slots, np.diff(first), "expiration_base", "expiration")
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
        ends=_whole_keys(head, filled, slots, of_ends, starts[places], sizes[places]),
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


def _slots(decoded: Decoded, usable: Mask, version: int) -> Slots:
    """Return the slots of nodes of one log version; only keys of usable nodes have their prefix."""
    head, slots = decoded.fields, decoded.slots
    assert slots is not None
    counts = np.diff(decoded.slot_first)
    starts, suffixes, data_starts, data_sizes = split_embedded(slots)
    key = _whole_keys(head, usable, slots, decoded.slot_first, starts, suffixes)
    lsn, state = slots.number("lsn"), slots.number("state")
    if version < _STATES_SINCE:
        state = state & ~TRANSIENT | np.where(lsn == NULL_LSN, SlotState.KNOWN_DELETED, 0)
    return Slots(
        key=key,
        lsn=lsn,
        state=state,
        logged_size=slots.known("logged_size"),
        vlsn=slots.known("vlsn"),
        data_start=data_starts,
        data_size=np.where(state & SlotState.EMBEDDED, data_sizes, -1),
        expires_ms=expiration_ms(_based(head, slots, counts, "expiration_base", "expiration")),
        created_ms=_based(head, slots, counts, "created_base_ms", "created"),
        modified_ms=_based(head, slots, counts, "modified_base_ms", "modified"),
    )


def _based(head: Columns, slots: Columns, counts: Ints, base: str, name: str) -> Ints:
    """Return values that are stored as differences to a base of the node; 0 for none."""
    offsets = slots.known(f"{name}_offset")
    if not head.has(base) or not offsets.any():
        return np.zeros(len(offsets), np.int64)
    bases = np.repeat(head.number(base), counts)
    return np.where(offsets != 0, offsets - 1 + bases, 0)


def _whole_keys(
    head: Columns, usable: Mask, slots: Columns, first: Ints, starts: Ints, sizes: Ints
) -> Spans:
    sizes = np.maximum(sizes, 0)
    if not head.has("key_prefix") or head.is_empty("key_prefix"):
        return Spans(slots.data, starts, sizes)
    prefix_starts, prefix_sizes = head.span("key_prefix")
    prefixes = Spans(slots.data, prefix_starts, np.where(usable, prefix_sizes, -1))
    return Spans(*_native.join_keys(first, prefixes, Spans(slots.data, starts, sizes)))


T = TypeVar("T", npt.NDArray[Any], Spans)


def _taken(column: Any, keep: npt.NDArray[Any] | slice) -> Any:
    return column.take(keep) if isinstance(column, Spans) else column[keep]


def joined(parts: Sequence[Slots]) -> Slots:
    """Concatenate slots."""
    if len(parts) == 1:
        return parts[0]
    columns = {
        name: np.concatenate([np.empty(0, np.int64), *(getattr(p, name) for p in parts)])
        for name in _SLOT_NUMBERS
    }
    return Slots(key=joined_spans([part.key for part in parts]), **columns)


def joined_spans(parts: Sequence[Spans]) -> Spans:
    """Concatenate columns of byte strings; copy their bytes unless they share one buffer."""
    if not parts:
        return Spans(np.empty(0, np.uint8), np.empty(0, np.int64), np.empty(0, np.int64))
    sizes = np.concatenate([part.sizes for part in parts])
    if all(part.data is parts[0].data for part in parts):
        return Spans(parts[0].data, np.concatenate([part.starts for part in parts]), sizes)
    packed = [part.packed() for part in parts]
    bases = np.cumsum([0, *(len(part.data) for part in packed)])
    starts = [part.starts + base for part, base in zip(packed, bases, strict=False)]
    data = np.concatenate([part.data for part in packed])
    data.flags.writeable = False
    return Spans(data, np.concatenate(starts), sizes)


def merged(nodes: Nodes, fulls: Nodes, of_delta: Ints, *, ordered: bool, two_part: bool) -> Nodes:
    """Return nodes in which deltas also have the slots of their full versions.

    Args:
        nodes: nodes, some of which are deltas.
        fulls: full versions.
        of_delta: int64 (nodes,); index in `fulls` of each delta's full version, -1 for others.
        ordered: True if keys are ordered by their bytes.
        two_part: True for keys of a database with duplicates.
    """
    there = of_delta >= 0
    if not there.any():
        return nodes
    slots = joined([nodes.slots, fulls.slots])
    place = np.where(there, of_delta, 0)
    base = len(nodes.slots)
    full_first = np.where(there, fulls.first[place] + base, 0)
    full_last = np.where(there, fulls.first[place + there] + base, 0)
    kept, counts = _native.merge_slots(
        slots.key, nodes.first, full_first, full_last, ordered=ordered, two_part=two_part
    )
    columns = asdict(nodes)
    for name in ("node_id", "level", "booleans", "max_entries"):
        columns[name] = np.where(there, getattr(fulls, name)[place], columns[name])
    own, other = nodes.identifier_key, fulls.identifier_key
    columns["identifier_key"] = Spans(
        own.data,
        np.where(there, other.starts[place], own.starts),
        np.where(there, other.sizes[place], own.sizes),
    )
    columns["first"] = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))
    columns["slots"] = slots.take(kept)
    return Nodes(**columns)


def within(keys: Spans, first: Ints, low: Spans, high: Spans, *, two_part: bool) -> Mask:
    """Return a mask of the slots whose key is in [low, high) of their node.

    Args:
        keys: keys of all slots.
        first: int64 (nodes + 1,); slots of node i are [first[i], first[i + 1]).
        low, high: bounds of each node; null if open.
        two_part: True for keys of a database with duplicates.
    """
    return _native.within(keys, first, low, high, two_part=two_part)
