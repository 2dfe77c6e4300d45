"""B-tree nodes out of columns: the items of INs, BINs and BIN-deltas, as the engine logs them.

The reverse of `nodes.read_nodes`: prefixes, bases, units and the form of LSNs are chosen anew from
what the slots hold, as the engine chooses them for a node whose slots it has just put in.

Source: je-log.md "Nodes"; IN.serialize, IN.computeKeyPrefix, IN.setLsnInternal,
BIN.setExpiration, BIN.setModificationTime, JE 7.5.11 and 25.3.17.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from msgspec import Struct

from je_tools.formats import _native
from je_tools.formats.arrays import Ints, Mask
from je_tools.formats.je.column_writer import Part, encode_parts
from je_tools.formats.je.expirations import DAY_MS, DAYS_MAX, HOUR_MS
from je_tools.formats.je.header import NULL_LSN
from je_tools.formats.je.layout import (
    COMPACT_NULL_OFFSET,
    NODE_HAS_PREFIX,
    NODE_HAS_SIZES,
    NODE_HAS_VLSNS,
    SLOT_EMBEDDED,
    SLOT_NO_DATA,
    SLOTS_MAX,
)
from je_tools.formats.je.nodes import (
    BIN_NO,
    DELTA_NO,
    DIRTY,
    IN_HOURS,
    IN_NO,
    IS_ROOT,
    TRANSIENT,
    Nodes,
    Slots,
    joined_spans,
)
from je_tools.formats.je.programs import program_of
from je_tools.formats.je.types import LOG_VERSION_MAX, Family
from je_tools.formats.source import Bytes
from je_tools.formats.spans import Spans

WRITTEN_MIN, WRITTEN_MAX = 8, LOG_VERSION_MAX
"""Log versions in which nodes are written; before, databases with duplicates had trees in trees."""

DELTAS_MIN = 9
"""Log version since which there are deltas that recovery does not need alone: NewBINDelta."""

_NONE = -1
"""A base of nothing."""

_LAST_FULL_IS_LAST = 9
"""The log version whose deltas say behind their slots which version they belong to."""

_SIZES_OF_BINS_SINCE, _SIZES_OF_INS_SINCE = 9, 21
_VLSNS_SINCE = 11
_COMPACT_FILES_MAX = 127
_INT64_MAX = (1 << 63) - 1


def encode_nodes(
    nodes: Nodes, data: Bytes, version: int, *, prefixing: bool, two_part: bool
) -> Spans:
    """The items of full nodes, of one database, as entries of a log version hold them.

    What a log version has no field for is left out: expirations before 12, times of embedded
    records before 19 and 26. Of the booleans only whether it is a root is kept, and that its
    expirations are in hours; there is no previous delta, and of the previous full version no size.

    Args:
        nodes: good ones of the types IN and BIN, with whole keys.
        data: the bytes in which their embedded data lies.
        version: log version, WRITTEN_MIN to WRITTEN_MAX.
        prefixing: whether the database has its keys cut by what they have in common.
        two_part: whether keys are those of a database with duplicates.

    Raises:
        ValueError: there is a node that cannot be written so.
    """
    _check(nodes, version, (IN_NO, BIN_NO))
    return _encode(nodes, None, data, version, prefixing=prefixing, two_part=two_part)


class FullVersions(Struct, frozen=True):
    """What deltas say of the nodes that they are of, as int64 (deltas,) each.

    Attributes:
        size: bytes of the entry of the full version.
        slot_count, max_entries: of the whole node, with the slots of the delta in it.
    """

    size: Ints
    slot_count: Ints
    max_entries: Ints

    def take(self, keep: Mask | Ints) -> FullVersions:
        """Some of them."""
        return FullVersions(self.size[keep], self.slot_count[keep], self.max_entries[keep])


def encode_deltas(
    nodes: Nodes, fulls: FullVersions, data: Bytes, version: int, *, prefixing: bool, two_part: bool
) -> Spans:
    """The items of BIN-deltas, of one database, as entries of a log version hold them.

    As `encode_nodes`; but `last_full_lsn` is what the engine will read, all slots are dirty, and
    the unit of expirations is that of `booleans` also where no slot expires: an engine up to 18.3
    takes it for that of the full version's. There is no bloom filter, which only the engine's
    `je.tree.binDeltaBlindPuts` asks for, and which it does without.

    Source: IN.writeToLog, BIN.createBloomFilter, BIN.mayHaveKeyInFullBin, BINDeltaLogEntry,
    JE 7.5.11.

    Args:
        nodes: good ones of the type NewBINDelta, with whole keys; `max_entries` of the delta.
        fulls: of their nodes.
        data: the bytes in which their embedded data lies.
        version: log version, DELTAS_MIN to WRITTEN_MAX.
        prefixing: whether the database has its keys cut by what they have in common.
        two_part: whether keys are those of a database with duplicates.

    Raises:
        ValueError: there is a node that cannot be written so.
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
    found = _Found.of(nodes)
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
        Part.of(of_head, head, once, rows),
        Part.of(of_slots, slots, np.diff(nodes.first), nodes.first[:-1]),
        Part.of(of_tail, tail, once, rows),
    )


def _check(nodes: Nodes, version: int, types: Collection[int]) -> None:
    slots = nodes.slots
    if not WRITTEN_MIN <= version <= WRITTEN_MAX:
        raise ValueError(f"nodes of log version {version} are not written")
    if not (nodes.good & np.isin(nodes.type, list(types))).all():
        raise ValueError(f"only good nodes of the types {types} are written")
    if (np.diff(nodes.first) > SLOTS_MAX).any():
        raise ValueError(f"a node of more than {SLOTS_MAX} slots")
    if ((slots.state & SLOT_EMBEDDED != 0) != (slots.data_size >= 0)).any():
        raise ValueError("the state of a slot and what is embedded in it do not agree")
    if (slots.expires_ms % HOUR_MS).any():
        raise ValueError("an expiration within an hour")


class _Based(Struct, frozen=True):
    """Numbers as nodes hold them: differences to one of the node, 0 for none.

    Attributes:
        base: int64 (nodes,); the least, _NONE where none is.
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


class _Found(Struct, frozen=True):
    """What is chosen by what the slots hold.

    Attributes:
        in_hours: bool (nodes,); the unit of expirations, else days.
        expirations, created, modified: of the slots.
        compact: bool (nodes,); LSNs as differences to `base_file_no`, in four bytes.
        base_file_no: int64 (nodes,).
    """

    in_hours: Mask
    expirations: _Based
    created: _Based
    modified: _Based
    compact: Mask
    base_file_no: Ints

    @classmethod
    def of(cls, nodes: Nodes) -> _Found:
        slots = nodes.slots
        is_embedded = slots.state & SLOT_EMBEDDED != 0
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
    """Which have expirations that are in hours, or cannot be told in days.

    A number of days that is taken for one of hours is not written.
    """
    expires = nodes.slots.expires_ms
    needs_hours = (expires % DAY_MS != 0) | (expires > DAYS_MAX * DAY_MS)
    counts = _any(expires != 0, nodes) | (nodes.type == DELTA_NO)
    kept: Mask = (nodes.booleans & IN_HOURS != 0) & counts
    return kept | _any(needs_hours, nodes)


def _compact(nodes: Nodes) -> tuple[Mask, Ints]:
    """Whose LSNs fit into four bytes each, and the file that these are counted from.

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
    """A function of the values of each node's slots."""
    out = np.full(len(nodes), of_none, np.int64)
    filled = np.diff(nodes.first) > 0
    if filled.any():
        out[filled] = function.reduceat(values, nodes.first[:-1][filled])
    return out


def _any(mask: Mask, nodes: Nodes) -> Mask:
    """Which nodes have a slot of these."""
    found: Mask = _over_nodes(np.maximum, mask.astype(np.int64), nodes, 0) != 0
    return found


def _booleans(nodes: Nodes, found: _Found, prefixes: Ints, version: int, *, two_part: bool) -> Ints:
    slots = nodes.slots
    is_bin = nodes.type != IN_NO
    is_embedded = slots.state & SLOT_EMBEDDED != 0
    # What duplicates are logged with is of no use any more once it is logged: nobody asks its size.
    sized = _any(~is_embedded & (slots.logged_size != 0), nodes) | (not two_part)
    sized &= is_bin & (version >= _SIZES_OF_BINS_SINCE)
    sized |= ~is_bin & (version >= _SIZES_OF_INS_SINCE)
    has_vlsns = _any(is_embedded & (slots.vlsn != 0), nodes) & (version >= _VLSNS_SINCE)
    return (
        nodes.booleans & IS_ROOT
        | np.where(prefixes >= 0, NODE_HAS_PREFIX, 0)
        | np.where(sized, NODE_HAS_SIZES, 0)
        | np.where(has_vlsns, NODE_HAS_VLSNS, 0)
        | np.where(found.in_hours, IN_HOURS, 0)
    )


def _head(nodes: Nodes, found: _Found) -> dict[str, Ints | Spans]:
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


def _slots(slots: Slots, found: _Found, *, is_delta: bool) -> dict[str, Ints | Spans]:
    return {
        "lsn": slots.lsn,
        "state": slots.state & ~(DIRTY | TRANSIENT) | (DIRTY if is_delta else 0),
        "logged_size": slots.logged_size,
        "vlsn": slots.vlsn,
        "expiration_offset": found.expirations.offset,
        "created_offset": found.created.offset,
        "modified_offset": found.modified.offset,
    }


def _prefixes(nodes: Nodes, *, prefixing: bool) -> Ints:
    """Bytes of each node's prefix, -1 for none."""
    if not prefixing:
        return np.full(len(nodes), _NONE, np.int64)
    return _native.prefix_sizes(nodes.slots.key, nodes.first)


def _head_keys(nodes: Nodes, prefixes: Ints) -> tuple[Spans, Spans]:
    """Identifier keys and prefixes, in one array."""
    n, key, own = len(nodes), nodes.slots.key, nodes.identifier_key
    starts = np.zeros(n, np.int64)
    cut = prefixes >= 0
    starts[cut] = key.starts[nodes.first[:-1][cut]]
    both = joined_spans([own, Spans(key.data, starts, prefixes)])
    return both.take(slice(n)), both.take(slice(n, None))


def _rests(nodes: Nodes, data: Bytes, prefixes: Ints) -> Spans:
    """What each slot has for its key: what is behind the prefix, and data that is embedded."""
    slots = nodes.slots
    is_two_part = slots.state & (SLOT_EMBEDDED | SLOT_NO_DATA) == SLOT_EMBEDDED
    embedded = Spans(data, slots.data_start, np.where(is_two_part, slots.data_size, _NONE))
    return Spans(*_native.join_rests(slots.key, embedded, nodes.first, prefixes))
