"""B-tree nodes encoded from columns: items of INs, BINs and BIN-deltas, as the engine logs them.

This is the reverse of `nodes.read_nodes`. Prefixes, bases, units and the form of LSNs are chosen
anew from the slots, as the engine chooses them for a node whose slots it has just inserted.

Source: je-log.md "Nodes"; IN.serialize, IN.computeKeyPrefix, IN.setLsnInternal,
BIN.setExpiration, BIN.setModificationTime, JE 7.5.11 and 25.3.17.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.formats import _native
from je_tools.formats.je.btree.nodes import BIN_NO, DELTA_NO, IN_NO, TRANSIENT, Nodes
from je_tools.formats.je.entry.programs import program_of
from je_tools.formats.je.expirations import DAY_MS, DAYS_MAX, HOUR_MS
from je_tools.formats.je.flags import NodeFlag, SlotState
from je_tools.formats.je.header import NULL_LSN
from je_tools.formats.je.layout import COMPACT_NULL_OFFSET, SLOTS_MAX
from je_tools.formats.je.types import LOG_VERSION_MAX, Family
from je_tools.formats.je.write.column_writer import EntryPart, encode_parts
from je_tools.formats.spans import Spans, joined_spans

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.files.source import Bytes
    from je_tools.formats.je.btree.slots import Slots

WRITTEN_MIN, WRITTEN_MAX = 8, LOG_VERSION_MAX
"""Log versions in which nodes are written; older databases with duplicates have trees in trees."""

DELTAS_MIN = 9
"""First log version with NewBINDelta: deltas that are read outside recovery too."""

_NONE = -1
"""Base of a node in which no slot has a value, and size that stands for no prefix."""

_LAST_FULL_IS_LAST = 9
"""Log version whose deltas name their full version after the slots."""

_SIZES_OF_BINS_SINCE, _SIZES_OF_INS_SINCE = 9, 21
_VLSNS_SINCE = 11
_COMPACT_FILES_MAX = 127
_INT64_MAX = (1 << 63) - 1


def encode_nodes(
    nodes: Nodes, data: Bytes, version: int, *, prefixing: bool, two_part: bool
) -> Spans:
    """Return the items of full nodes of one database, as entries of a log version hold them.

    Fields that the log version lacks are omitted: expirations before 12, modification times of
    embedded records before 19, creation times before 26. Of the booleans, only the root bit and the
    unit of expirations are kept. The nodes have no previous delta, and no size of the previous full
    version.

    Args:
        nodes: good nodes of the types IN and BIN, with whole keys.
        data: buffer of their embedded data.
        version: log version, WRITTEN_MIN to WRITTEN_MAX.
        prefixing: True if the database uses key prefixes.
        two_part: True for keys of a database with duplicates.

    Raises:
        ValueError: a node cannot be written like this.
    """
    _check(nodes, version, (IN_NO, BIN_NO))
    return _encode(nodes, None, data, version, prefixing=prefixing, two_part=two_part)


class FullVersions(Struct, frozen=True):
    """Properties of whole nodes that their deltas record, as int64 (deltas,) each.

    Attributes:
        size: size of the full version's entry.
        slot_count, max_entries: numbers of the whole node, with the slots of the delta in it.
    """

    size: Ints
    slot_count: Ints
    max_entries: Ints

    def select(self, keep: Mask | Ints) -> FullVersions:
        """Select rows."""
        return FullVersions(self.size[keep], self.slot_count[keep], self.max_entries[keep])


def encode_deltas(
    nodes: Nodes, fulls: FullVersions, data: Bytes, version: int, *, prefixing: bool, two_part: bool
) -> Spans:
    """Return the items of BIN-deltas of one database, as entries of a log version hold them.

    This differs from `encode_nodes` in three ways: `last_full_lsn` is the LSN that the engine will
    read, all slots are dirty, and the unit of expirations is that of `booleans` even if no slot
    expires, because engines up to 18.3 apply it to the full version too. There is no bloom filter:
    the engine only uses it for `je.tree.binDeltaBlindPuts`, and works without it.

    Source: IN.writeToLog, BIN.createBloomFilter, BIN.mayHaveKeyInFullBin, BINDeltaLogEntry,
    JE 7.5.11.

    Args:
        nodes: good nodes of the type NewBINDelta, with whole keys; `max_entries` of the delta.
        fulls: properties of their whole nodes.
        data: buffer of their embedded data.
        version: log version, DELTAS_MIN to WRITTEN_MAX.
        prefixing: True if the database uses key prefixes.
        two_part: True for keys of a database with duplicates.

    Raises:
        ValueError: a node cannot be written like this.
    """
    if version < DELTAS_MIN:
        raise ValueError(f"deltas of log version {version} are not written")
    if (nodes.last_full_lsn == NULL_LSN).any():
        raise ValueError("only deltas of full versions are written")
    _check(nodes, version, (DELTA_NO,))
    return _encode(nodes, fulls, data, version, prefixing=prefixing, two_part=two_part)


def _encode(
    nodes: Nodes,
    fulls: FullVersions | None,
    data: Bytes,
    version: int,
    *,
    prefixing: bool,
    two_part: bool,
) -> Spans:
    prefixes = _prefixes(nodes, prefixing=prefixing)
    found = _Encoding.of(nodes)
    head = _head(nodes, found)
    head["booleans"] = _booleans(nodes, found, prefixes, version, two_part=two_part)
    head["identifier_key"], head["key_prefix"] = _head_keys(nodes, prefixes)
    slots = _slots(nodes.slots, found, is_delta=fulls is not None)
    slots["key"] = _rests(nodes, data, prefixes)
    tail: dict[str, Ints | Spans] = {}
    if fulls is not None:
        head["last_full_size"] = fulls.size
        tail["full_slot_count"], tail["full_max_entries"] = fulls.slot_count, fulls.max_entries
        if version == _LAST_FULL_IS_LAST:
            tail["delta_last_full_lsn"] = nodes.last_full_lsn
            head["last_full_lsn"] = np.full(len(nodes), NULL_LSN)
    once, rows = np.ones(len(nodes), np.int64), np.arange(len(nodes))
    of_head, of_slots, of_tail = (
        program_of(Family.NODE, version, part, None) for part in ("head", "slots", "tail")
    )
    return encode_parts(
        nodes.type,
        EntryPart.of(of_head, head, once, rows),
        EntryPart.of(of_slots, slots, np.diff(nodes.first), nodes.first[:-1]),
        EntryPart.of(of_tail, tail, once, rows),
    )


def _check(nodes: Nodes, version: int, types: Collection[int]) -> None:
    slots = nodes.slots
    if not WRITTEN_MIN <= version <= WRITTEN_MAX:
        raise ValueError(f"nodes of log version {version} are not written")
    if not (nodes.good & np.isin(nodes.type, list(types))).all():
        raise ValueError(f"only good nodes of the types {types} are written")
    if (np.diff(nodes.first) > SLOTS_MAX).any():
        raise ValueError(f"a node of more than {SLOTS_MAX} slots")
    if ((slots.state & SlotState.EMBEDDED != 0) != (slots.data_size >= 0)).any():
        raise ValueError("the state of a slot and what is embedded in it do not agree")
    if (slots.expires_ms % HOUR_MS).any():
        raise ValueError("an expiration within an hour")


class _Based(Struct, frozen=True):
    """Numbers as nodes store them: differences from a base of the node, 0 for none.

    Attributes:
        base: int64 (nodes,); smallest number of the node, _NONE if it has none.
        offset: int64 (slots,); 1 for the base.
    """

    base: Ints
    offset: Ints

    @classmethod
    def of(cls, values: Ints, nodes: Nodes) -> _Based:
        least = _over_nodes(
            np.minimum, np.where(values != 0, values, _INT64_MAX), nodes, _INT64_MAX
        )
        base = np.where(least == _INT64_MAX, _NONE, least)
        return cls(base, np.where(values != 0, values - base[nodes.slot_node] + 1, 0))


class _Encoding(Struct, frozen=True):
    """Encoding of nodes, chosen from their slots.

    Attributes:
        in_hours: bool (nodes,); True if expirations are in hours, False if in days.
        expirations, created, modified: times of the slots.
        compact: bool (nodes,); True if LSNs are differences from `base_file_no`, in four bytes.
        base_file_no: int64 (nodes,).
    """

    in_hours: Mask
    expirations: _Based
    created: _Based
    modified: _Based
    compact: Mask
    base_file_no: Ints

    @classmethod
    def of(cls, nodes: Nodes) -> _Encoding:
        slots = nodes.slots
        is_embedded = slots.state & SlotState.EMBEDDED != 0
        in_hours = _in_hours(nodes)
        units = np.where(in_hours, HOUR_MS, DAY_MS)
        compact, base_file_no = _compact(nodes)
        return cls(
            in_hours=in_hours,
            expirations=_Based.of(slots.expires_ms // units[nodes.slot_node], nodes),
            created=_Based.of(np.where(is_embedded, slots.created_ms, 0), nodes),
            modified=_Based.of(np.where(is_embedded, slots.modified_ms, 0), nodes),
            compact=compact,
            base_file_no=base_file_no,
        )


def _in_hours(nodes: Nodes) -> Mask:
    """Return a mask of the nodes whose expirations are in hours, or cannot be stored in days.

    More than DAYS_MAX days cannot be stored: readers take them for hours.
    """
    expires = nodes.slots.expires_ms
    needs_hours = (expires % DAY_MS != 0) | (expires > DAYS_MAX * DAY_MS)
    counts = _any(expires != 0, nodes) | (nodes.type == DELTA_NO)
    kept: Mask = (nodes.booleans & NodeFlag.IN_HOURS != 0) & counts
    return kept | _any(needs_hours, nodes)


def _compact(nodes: Nodes) -> tuple[Mask, Ints]:
    """Return a mask of the nodes whose LSNs fit in four bytes each, and their base files.

    Source: IN.setLsnInternal, IN.adjustFileNumbers, JE 7.5.11.
    """
    lsn = nodes.slots.lsn
    is_null = lsn == NULL_LSN
    file_nos = lsn >> 32 & 0xFFFFFFFF
    least = _over_nodes(np.minimum, np.where(is_null, _INT64_MAX, file_nos), nodes, _INT64_MAX)
    most = _over_nodes(np.maximum, np.where(is_null, _NONE, file_nos), nodes, _NONE)
    offsets = np.where(is_null, 0, lsn & 0xFFFFFFFF)
    far = _over_nodes(np.maximum, offsets, nodes, 0) >= COMPACT_NULL_OFFSET
    empty = most == _NONE
    return ~far & (empty | (most - least <= _COMPACT_FILES_MAX)), np.where(empty, _NONE, least)


def _over_nodes(function: np.ufunc, values: Ints, nodes: Nodes, of_none: int) -> Ints:
    """Reduce the values of each node's slots by `function`; `of_none` if there are none."""
    out = np.full(len(nodes), of_none, np.int64)
    filled = np.diff(nodes.first) > 0
    if filled.any():
        out[filled] = function.reduceat(values, nodes.first[:-1][filled])
    return out


def _any(mask: Mask, nodes: Nodes) -> Mask:
    """Return a mask of the nodes that have a slot in `mask`."""
    found: Mask = _over_nodes(np.maximum, mask.astype(np.int64), nodes, 0) != 0
    return found


def _booleans(
    nodes: Nodes, found: _Encoding, prefixes: Ints, version: int, *, two_part: bool
) -> Ints:
    slots = nodes.slots
    is_bin = nodes.type != IN_NO
    is_embedded = slots.state & SlotState.EMBEDDED != 0
    # The LN of a duplicate is obsolete as soon as it is logged: nothing asks for its size.
    sized = _any(~is_embedded & (slots.logged_size != 0), nodes) | (not two_part)
    sized &= is_bin & (version >= _SIZES_OF_BINS_SINCE)
    sized |= ~is_bin & (version >= _SIZES_OF_INS_SINCE)
    has_vlsns = _any(is_embedded & (slots.vlsn != 0), nodes) & (version >= _VLSNS_SINCE)
    return (
        nodes.booleans & NodeFlag.ROOT
        | np.where(prefixes >= 0, NodeFlag.HAS_PREFIX, 0)
        | np.where(sized, NodeFlag.HAS_SIZES, 0)
        | np.where(has_vlsns, NodeFlag.HAS_VLSNS, 0)
        | np.where(found.in_hours, NodeFlag.IN_HOURS, 0)
    )


def _head(nodes: Nodes, found: _Encoding) -> dict[str, Ints | Spans]:
    n = len(nodes)
    return {
        "db_id": nodes.db_id,
        "last_full_lsn": nodes.last_full_lsn,
        "last_delta_lsn": np.full(n, NULL_LSN),
        "expiration_base": found.expirations.base,
        "created_base_ms": found.created.base,
        "modified_base_ms": found.modified.base,
        "node_id": nodes.node_id,
        "compact_max_key_size": np.full(n, _NONE),
        "slot_count": np.diff(nodes.first),
        "level": nodes.level,
        "max_entries": nodes.max_entries,
        "compact_lsns": found.compact.astype(np.int64),
        "base_file_no": found.base_file_no,
    }


def _slots(slots: Slots, found: _Encoding, *, is_delta: bool) -> dict[str, Ints | Spans]:
    return {
        "lsn": slots.lsn,
        "state": slots.state & ~(SlotState.DIRTY.value | TRANSIENT)
        | (SlotState.DIRTY if is_delta else 0),
        "logged_size": slots.logged_size,
        "vlsn": slots.vlsn,
        "expiration_offset": found.expirations.offset,
        "created_offset": found.created.offset,
        "modified_offset": found.modified.offset,
    }


def _prefixes(nodes: Nodes, *, prefixing: bool) -> Ints:
    """Return the size of each node's prefix, -1 for none."""
    if not prefixing:
        return np.full(len(nodes), _NONE, np.int64)
    return _native.prefix_sizes(nodes.slots.key, nodes.first)


def _head_keys(nodes: Nodes, prefixes: Ints) -> tuple[Spans, Spans]:
    """Return identifier keys and prefixes, with their bytes in one array."""
    n, key, own = len(nodes), nodes.slots.key, nodes.identifier_key
    starts = np.zeros(n, np.int64)
    cut = prefixes >= 0
    starts[cut] = key.starts[nodes.first[:-1][cut]]
    both = joined_spans([own, Spans(key.data, starts, prefixes)])
    return both.select(slice(n)), both.select(slice(n, None))


def _rests(nodes: Nodes, data: Bytes, prefixes: Ints) -> Spans:
    """Return the stored key of each slot: the key after the prefix, then embedded data."""
    slots = nodes.slots
    is_two_part = slots.state & (SlotState.EMBEDDED | SlotState.NO_DATA) == SlotState.EMBEDDED
    embedded = Spans(data, slots.data_start, np.where(is_two_part, slots.data_size, _NONE))
    return Spans(*_native.join_rests(slots.key, embedded, nodes.first, prefixes))
