"""Nodes one by one in plain Python: the entries that an engine would log for freshly set slots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct, field

from je_tools.formats.arrays import Ints
from je_tools.formats.files.source import Bytes
from je_tools.formats.je.btree.keys import slot_parts
from je_tools.formats.je.btree.nodes import Nodes
from je_tools.formats.je.btree.slots import Slots
from je_tools.formats.packed import encode_packed
from je_tools.formats.spans import Spans

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
IN_NO, BIN_NO, DELTA_NO = 12, 13, 37
ROOT, PREFIX, SIZES, BLOOM, VLSNS, HOURS = 1, 2, 4, 8, 16, 32
EMBEDDED, NO_DATA = 0x10, 0x20
NOT_LOGGED = 0x46
DIRTY = 0x02


class PlainSlot(Struct):
    """A slot; `data` is the embedded data, or `None`."""

    key: bytes
    lsn: int
    state: int = 0
    data: bytes | None = None
    logged_size: int = 0
    vlsn: int = 0
    expires_ms: int = 0
    created_ms: int = 0
    modified_ms: int = 0


class PlainNode(Struct):
    """A full node, or a delta.

    Attributes:
        full: for a delta, bytes of its full version, and number and maximum of the whole node's
            slots.
    """

    type_no: int
    db_id: int = 6
    node_id: int = 100
    level: int = 0x10001
    is_root: bool = False
    in_hours: bool = False
    max_entries: int = 128
    last_full_lsn: int = -1
    identifier_key: bytes = b""
    slots: list[PlainSlot] = field(default_factory=list)
    full: tuple[int, int, int] = (0, 0, 0)


def fields_of(node: PlainNode, version: int, *, prefixing: bool, two_part: bool) -> dict[str, Any]:
    """Return the fields of the node's entry."""
    is_bin, is_delta = node.type_no != IN_NO, node.type_no == DELTA_NO
    slots = node.slots
    embedded = [s for s in slots if s.state & EMBEDDED]
    expiring = [s.expires_ms for s in slots if s.expires_ms]
    prefix = _common([s.key for s in slots]) if prefixing and len(slots) > 1 else None
    sizes = is_bin and (not two_part or any(s.logged_size for s in slots if not s.state & EMBEDDED))
    sizes = (version >= 9 and sizes) or (version >= 21 and not is_bin)
    vlsns = version >= 11 and any(s.vlsn for s in embedded)
    hours = any(e % DAY_MS or e > 100_000 * DAY_MS for e in expiring)
    hours |= node.in_hours and (bool(expiring) or is_delta)
    bases = {
        "expiration": min(expiring, default=None),
        "created": min((s.created_ms for s in embedded if s.created_ms), default=None),
        "modified": min((s.modified_ms for s in embedded if s.modified_ms), default=None),
    }
    unit = HOUR_MS if hours else DAY_MS
    base_of = {name: -1 if base is None else base for name, base in bases.items()}
    if bases["expiration"] is not None:
        base_of["expiration"] = bases["expiration"] // unit
    lsns = [s.lsn for s in slots if s.lsn != -1]
    files = [lsn >> 32 for lsn in lsns]
    compact = all(lsn & 0xFFFFFFFF < 0xFFFFFF for lsn in lsns)
    compact = compact and (not files or max(files) - min(files) <= 127)
    head = {
        "db_id": node.db_id,
        "last_full_lsn": -1 if is_delta and version == 9 else node.last_full_lsn,
        "last_full_size": node.full[0],
        "last_delta_lsn": -1,
        "last_delta_size": 0,
        "expiration_base": base_of["expiration"],
        "created_base_ms": base_of["created"],
        "modified_base_ms": base_of["modified"],
        "node_id": node.node_id,
        "identifier_key": node.identifier_key,
        "booleans": node.is_root * ROOT
        | (prefix is not None) * PREFIX
        | sizes * SIZES
        | vlsns * VLSNS
        | hours * HOURS,
        "key_prefix": prefix,
        "compact_max_key_size": -1,
        "slot_count": len(slots),
        "level": node.level,
        "max_entries": node.max_entries,
        "compact_lsns": int(compact),
        "base_file_no": min(files, default=-1),
    }
    cut = len(prefix or b"")
    written = [_slot(s, cut, base_of, unit, head["base_file_no"]) for s in slots]
    if not is_delta:
        return head | {"slots": written}
    for each in written:
        each["state"] |= DIRTY
    of_full = {"full_slot_count": node.full[1], "full_max_entries": node.full[2]}
    return head | of_full | {"delta_last_full_lsn": node.last_full_lsn, "slots": written}


def _common(keys: Sequence[bytes]) -> bytes:
    size = 0
    while all(len(key) > size and key[size] == keys[0][size] for key in keys):
        size += 1
    return keys[0][:size]


def _slot(
    slot: PlainSlot, cut: int, base_of: Mapping[str, int], unit: int, base_file_no: int
) -> dict[str, Any]:
    def offset(name: str, value: int) -> int:
        return value - base_of[name] + 1 if value else 0

    rest = slot.key[cut:]
    if slot.state & (EMBEDDED | NO_DATA) == EMBEDDED:
        assert slot.data is not None
        rest += slot.data + encode_packed(len(rest))[::-1]
    null = slot.lsn == -1
    return {
        "key": rest,
        "compact_lsn": [0, 0xFFFFFF]
        if null
        else [(slot.lsn >> 32) - base_file_no, slot.lsn & 0xFFFFFF],
        "lsn": slot.lsn,
        "state": slot.state & ~NOT_LOGGED,
        "logged_size": slot.logged_size,
        "vlsn": slot.vlsn,
        "expiration_offset": offset("expiration", slot.expires_ms // unit),
        "created_offset": offset("created", slot.created_ms),
        "modified_offset": offset("modified", slot.modified_ms),
    }


def plain_node(type_no: int, version: int, fields: Mapping[str, Any]) -> PlainNode:
    """Return a node that an engine wrote, from the fields of its entry."""
    prefix = fields.get("key_prefix") or b""
    return PlainNode(
        type_no,
        fields["db_id"],
        fields["node_id"],
        fields["level"],
        bool(fields["booleans"] & ROOT),
        bool(fields["booleans"] & HOURS),
        fields["max_entries"],
        fields.get("delta_last_full_lsn", fields["last_full_lsn"]),
        fields["identifier_key"],
        [_plain_slot(each, prefix, version, fields) for each in fields["slots"]],
        _of_full(fields) if type_no == DELTA_NO else (0, 0, 0),
    )


def _of_full(fields: Mapping[str, Any]) -> tuple[int, int, int]:
    names = ("last_full_size", "full_slot_count", "full_max_entries")
    size, count, most = (fields.get(name, 0) for name in names)
    return size, count, most


def _plain_slot(
    slot: Mapping[str, Any], prefix: bytes, version: int, fields: Mapping[str, Any]
) -> PlainSlot:
    def value(name: str, base: str) -> int:
        offset: int = slot.get(name, 0)
        return offset - 1 + int(fields[base]) if offset else 0

    key, data = slot_parts(slot)
    lsn = slot.get("lsn")
    if lsn is None:
        step, offset = slot["compact_lsn"]
        lsn = -1 if offset == 0xFFFFFF else fields["base_file_no"] + step << 32 | offset
    # Before log version 9 a slot without an LSN is deleted, whatever its state.
    state = slot["state"] | (version < 9 and lsn == -1)
    expiration = value("expiration_offset", "expiration_base")
    return PlainSlot(
        prefix + key,
        lsn,
        state,
        data,
        slot.get("logged_size", 0),
        slot.get("vlsn", 0),
        expiration * (HOUR_MS if expiration > 100_000 else DAY_MS),
        value("created_offset", "created_base_ms"),
        value("modified_offset", "modified_base_ms"),
    )


def engine_choices(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an engine's node except what means nothing or only shows its past."""
    is_delta = "full_slot_count" in fields or "delta_last_full_lsn" in fields
    known: dict[str, Any] = {"last_delta_lsn": -1, "last_delta_size": 0}
    known |= {} if is_delta else {"last_full_size": 0}
    known["compact_max_key_size"] = -1
    kept = {name: known.get(name, value) for name, value in fields.items()}
    if kept.pop("bloom_filter", None) is not None:
        kept["booleans"] &= ~BLOOM
    dirty = DIRTY if is_delta else 0
    kept["slots"] = [
        each | {"state": each["state"] & ~NOT_LOGGED | each["state"] & dirty}
        for each in fields["slots"]
    ]
    return kept


def columns_of(nodes: Sequence[PlainNode]) -> tuple[Nodes, Bytes]:
    """Return nodes in columns, and the bytes that contain their embedded data."""
    slots = [slot for node in nodes for slot in node.slots]
    keys = _strings([slot.key for slot in slots])
    data = _strings([slot.data or b"" for slot in slots])

    def of(things: Sequence[Any], name: str) -> Ints:
        return np.array([getattr(thing, name) for thing in things], np.int64)

    names = ("lsn", "state", "logged_size", "vlsn", "expires_ms", "created_ms", "modified_ms")
    sizes = np.where([slot.data is None for slot in slots], -1, data.sizes)
    numbers = ("db_id", "node_id", "level", "max_entries", "last_full_lsn")
    return Nodes(
        **{name: of(nodes, name) for name in numbers},
        lsn=np.zeros(len(nodes), np.int64),
        type=of(nodes, "type_no").astype(np.uint8),
        booleans=of(nodes, "is_root") * ROOT | of(nodes, "in_hours") * HOURS,
        expiration_base=np.zeros(len(nodes), np.int64),
        identifier_key=_strings([node.identifier_key for node in nodes]),
        good=np.ones(len(nodes), np.bool_),
        first=np.cumsum([0, *(len(node.slots) for node in nodes)]),
        slots=Slots(
            key=keys,
            data_start=data.starts,
            data_size=sizes.astype(np.int64),
            **{name: of(slots, name) for name in names},
        ),
    ), data.data


def _strings(values: Sequence[bytes]) -> Spans:
    data = np.frombuffer(b"\xa5" + b"".join(values), np.uint8)
    sizes = np.array([len(value) for value in values], np.int64)
    return Spans(data, 1 + np.concatenate(([0], np.cumsum(sizes)))[:-1].astype(np.int64), sizes)
