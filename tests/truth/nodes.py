"""B-tree nodes and the old BIN-deltas as printed."""

from __future__ import annotations

import re
from typing import Any

from tests.truth.cursor import NULL_LSN, Cursor, byte_text, time_ms, truth
from tests.truth.databases import root_slot

_DB_ID = re.compile(r'<dbId id="(-?\d+)"/>')
_BEGIN = re.compile(r"<(in|bin|din|dbin)>")
_NODE_ID = re.compile(r'<nodeId val="(-?\d+)"/>|<node>(-?\d+)</node>')
_HEAD = re.compile(
    r'<(?:idKey|key) v="([\d ]*)"/><isRoot val="(\w+)"/><level val="([0-9a-f]+)"/>'
    r'(?:<keyPrefix v="([\d ]*)"/>|<keyPrefix><key v="([\d ]*)"/></keyPrefix>)?'
    r'<entries numEntries="(\d+)" length="(\d+)"'
    r'(?: numFullBinEntries="(-?\d+)" maxFullBinEntries="(-?\d+)")?'
    r'(?: baseFileNumber="(-?\d+)")?(?: baseExpiration="(-?\d+)")?(?: expirationIn="(\w+)")?'
    r'(?: baseCreateTime="(-?\d+)")?(?: baseModTime="(-?\d+)")?>'
)
_SLOT = re.compile(
    r'<ref (?:kd|knownDeleted)="(\w+)" (?:pd|pendingDeleted)="(\w+)"'
    r'(?: dirty="(\w+)" embedded="(\w+)" noData="(\w+)")?(?: logSize="(\d+)")?'
    r'(?: vlsn="([\d,]+)")?(?: expires="([^"]*)")?(?: tombstone="(\w+)")?'
    r'(?: creationTime="([^"]*)")?(?: modTime="([^"]*)")?>'
    r'<key v="([\d ]*)"/>(?:<data v="([\d ]*)"/>)?<DbLsn val="(\S+?)"/></ref>'
)
_ENTRIES_END = re.compile(r"</entries>")
_BLOOM = re.compile(r"<BloomFilter>([01]*)</BloomFilter>")
_KEY = re.compile(r'<key v="([\d ]*)"/>')
_END = re.compile(r"</(?:in|bin|din|dbin)>")
_FULL_LSN = re.compile(r"<prevFullLsn>(\S+?)</prevFullLsn>")
_DELTA_LSN = re.compile(r"<prevDeltaLsn>(\S+?)</prevDeltaLsn>")
_VERSIONS = re.compile(
    r'<lastFullVersion lsn="(\S+?)" size="(\d+)"/><lastDeltaVersion lsn="(\S+?)" size="(\d+)"/>'
)
_OLD_DELTA_FULL = re.compile(r'<lastFullLsn>(?:<DbLsn val="(\S+?)"/>|(\S+?))</lastFullLsn>')
_OLD_DELTA_COUNT = re.compile(r'<deltas size="(\d+)"/>')
_OLD_DELTA_SLOT = re.compile(
    r'<key v="([\d ]*)"/><DbLsn val="(\S+?)"/>'
    r'<knownDeleted val="(\w+)"/><pendingDeleted val="(\w+)"/>'
)


def node(cursor: Cursor) -> tuple[int, dict[str, Any]]:
    """Parse a node's database and fields.

    The engines before 7.5 print the database after the node; JE 3.3 prints no earlier versions.
    """
    db_id = cursor.take(_DB_ID)
    kind = cursor.need(_BEGIN)[1]
    number = cursor.need(_NODE_ID)
    fields = {"node_id": int(number[1] or number[2]), **_head(cursor)}
    fields["slots"] = _slots(cursor)
    cursor.need(_ENTRIES_END)
    if (bloom := cursor.take(_BLOOM)) is not None:
        fields["bloom_filter"] = bloom[1]
    if kind in ("din", "dbin"):
        fields["dup_key"] = byte_text(cursor.need(_KEY)[1])
    if kind == "din":
        fields["dup_count"] = root_slot(cursor)
    cursor.need(_END)
    db_id = db_id or cursor.need(_DB_ID)
    if number[2] is None:
        fields |= _earlier_versions(cursor)
    return int(db_id[1]), fields


def _head(cursor: Cursor) -> dict[str, Any]:
    match = cursor.need(_HEAD)
    prefix = match[4] if match[4] is not None else match[5]
    fields = {
        "identifier_key": byte_text(match[1]),
        "is_root": truth(match[2]),
        "level": int(match[3], 16),
        "key_prefix": None if prefix is None else byte_text(prefix),
        "slot_count": int(match[6]),
        "max_entries": int(match[7]),
    }
    numbers = {"full_slot_count": 8, "full_max_entries": 9, "base_file_no": 10}
    numbers |= {"expiration_base": 11}
    fields |= {name: int(match[group]) for name, group in numbers.items() if match[group]}
    if match[12] is not None:
        fields["expires_in_hours"] = {"hours": True, "days": False}[match[12]]
        fields["created_base_ms"] = int(match[13] or -1)
        fields["modified_base_ms"] = int(match[14] or -1)
    return fields


def _slots(cursor: Cursor) -> list[dict[str, Any]]:
    slots = []
    while (match := cursor.take(_SLOT)) is not None:
        slots.append(_slot(match))
    return slots


def _slot(match: re.Match[str]) -> dict[str, Any]:
    """Return one slot; `expires` is as printed, None if the engine does not print it."""
    slot: dict[str, Any] = {
        "known_deleted": truth(match[1]),
        "pending_deleted": truth(match[2]),
        "key": byte_text(match[12]),
        "lsn": match[14],
    }
    if match[3] is None:
        return slot
    slot |= {"dirty": truth(match[3]), "embedded": truth(match[4]), "no_data": truth(match[5])}
    slot["data"] = None if match[13] is None else byte_text(match[13])
    slot["vlsn"] = None if match[7] is None else int(match[7].replace(",", ""))
    if match[6] is not None:
        slot["logged_size"] = int(match[6])
    # JE 25.3 prints for every slot of a BIN if it expires and when; 7.5 and 18.3 only for those
    # that do.
    slot["expires"] = match[8] or None
    if match[9] is not None:
        slot["tombstone"] = truth(match[9])
        slot["created_ms"] = None if match[10] is None else time_ms(match[10])
        slot["modified_ms"] = None if match[11] is None else time_ms(match[11])
    return slot


def _earlier_versions(cursor: Cursor) -> dict[str, Any]:
    """Parse places of earlier versions; JE 25.3 also prints sizes, the others only real LSNs."""
    match = cursor.take(_VERSIONS)
    if match is not None:
        return {
            "last_full_lsn": match[1],
            "last_full_size": int(match[2]),
            "last_delta_lsn": match[3],
            "last_delta_size": int(match[4]),
        }
    full, delta = cursor.take(_FULL_LSN), cursor.take(_DELTA_LSN)
    return {
        "last_full_lsn": full[1] if full else NULL_LSN,
        "last_delta_lsn": delta[1] if delta else NULL_LSN,
    }


def old_delta(cursor: Cursor) -> tuple[int, dict[str, Any]]:
    """Parse the database and fields of a BIN-delta of log version 8 or older."""
    db_id = int(cursor.need(_DB_ID)[1])
    full = cursor.need(_OLD_DELTA_FULL)
    fields: dict[str, Any] = {"last_full_lsn": full[1] or full[2]}
    if (delta := cursor.take(_DELTA_LSN)) is not None:
        fields["last_delta_lsn"] = delta[1]
    fields["slot_count"] = int(cursor.need(_OLD_DELTA_COUNT)[1])
    slots = []
    while (match := cursor.take(_OLD_DELTA_SLOT)) is not None:
        slot = {"key": byte_text(match[1]), "lsn": match[2]}
        slots.append(slot | {"known_deleted": truth(match[3]), "pending_deleted": truth(match[4])})
    return db_id, fields | {"slots": slots}
