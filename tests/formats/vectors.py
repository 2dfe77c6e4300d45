"""Decoded entries in the words of the vector files, so that the two can be compared whole.

Our names are on the left of each table, and those of the vector files on the right.
Nothing here uses `layout`: the vectors come from an independent decoder.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from je_tools.formats.je.btree.keys import slot_parts
from je_tools.formats.je.entry.entries import Entry

Fields = Mapping[str, Any]

NO_DATA = 0x20
"""State flag of a slot whose record has no data: its key is not two-part (je-log.md "Nodes")."""

COUNTS = frozenset(
    {
        "cleaner_adjustment_count",
        "active_txn_count",
        "completed_scan_count",
        "data_exists",
        "dup_count_exists",
        "file_count",
        "trigger_count",
    }
)
"""Fields that only count the items of another field; the vectors have only the items."""

PLAIN = {
    "abort_created_ms": "abortCreationTime",
    "abort_data": "abortData",
    "abort_key": "abortKey",
    "abort_lsn": "abortLsn",
    "abort_modified_ms": "abortModTime",
    "abort_vlsn": "abortVLSN",
    "anchor_lsn": "anchorLsn",
    "base_file_no": "baseFile",
    "bloom_filter": "bloom",
    "booleans": "bools",
    "branch_qualifier": "bqual",
    "btree_comparator": "btreeCmp",
    "ckpt_start_lsn": "ckptStart",
    "compact_max_key_size": "maxCompactKey",
    "created_at_log_version": "createdAtLogVersion",
    "created_base_ms": "ctBase",
    "created_ms": "creationTime",
    "created_offset": "ct",
    "data_as_key": "dataAsKey",
    "db_flags": "flags",
    "db_id": "dbId",
    "dtvlsn": "dtvlsn",
    "dup_comparator": "dupCmp",
    "dup_count": "dupCount",
    "dup_key": "dupKey",
    "expiration_base": "expBase",
    "expiration_offset": "exp",
    "failure_type": "failure",
    "first_active_lsn": "firstActive",
    "format_id": "formatId",
    "full_max_entries": "fullMax",
    "full_slot_count": "fullN",
    "global_txn_id": "gid",
    "header_file_no": "fileNum",
    "id": "id",
    "identifier_key": "idKey",
    "initial_log_version": "initialLogVersion",
    "invoker": "invoker",
    "key": "key",
    "key_prefix": "prefix",
    "last_delta_lsn": "lastDeltaLsn",
    "last_delta_size": "lastDeltaSize",
    "last_entry_in_prev_file_offset": "prevOff",
    "last_full_lsn": "lastFullLsn",
    "last_full_size": "lastFullSize",
    "last_local_db_id": "lastLocalDbId",
    "last_local_extinction_id": "lastLocalExtId",
    "last_local_node_id": "lastLocalNodeId",
    "last_local_txn_id": "lastLocalTxnId",
    "last_lsn": "lastLsn",
    "last_replicated_db_id": "lastRepDbId",
    "last_replicated_extinction_id": "lastRepExtId",
    "last_replicated_node_id": "lastRepNodeId",
    "last_replicated_txn_id": "lastRepTxnId",
    "log_version": "version",
    "logged_size": "logSize",
    "lsn": "lsn",
    "main_key": "mainKey",
    "mark": "byte",
    "master_node_id": "masterId",
    "master_term": "masterTerm",
    "matchpoint_lsn": "matchLSN",
    "matchpoint_vlsn": "matchVLSN",
    "max_dup_entries": "maxDupTreeEntries",
    "message": "msg",
    "modified_base_ms": "mtBase",
    "modified_ms": "modTime",
    "modified_offset": "mt",
    "name": "name",
    "name_db_id": "nameId",
    "operation": "dbOp",
    "prior_file_no": "priorFile",
    "prior_size": "priorSize",
    "properties": "props",
    "rollback_start_lsn": "startLSN",
    "root_key": "rootKey",
    "root_lsn": "rootLsn",
    "root_state": "rootState",
    "slot_count": "nEntries",
    "state": "state",
    "time_ms": "time",
    "tree_exists": "rootExists",
    "trigger": "trigger",
    "triggers": "triggers",
    "truncated_db_id": "truncateOldDbId",
    "txn_prev_lsn": "txnPrevLsn",
    "vlsn": "vlsn",
}

SUMMARY = {
    "total_count": "totalCount",
    "total_size": "totalSize",
    "total_in_count": "totalINCount",
    "total_in_size": "totalINSize",
    "total_ln_count": "totalLNCount",
    "total_ln_size": "totalLNSize",
    "max_ln_size": "maxLNSize",
    "obsolete_in_count": "obsoleteINCount",
    "obsolete_ln_count": "obsoleteLNCount",
    "obsolete_ln_size": "obsoleteLNSize",
    "obsolete_ln_size_counted": "obsoleteLNSizeCounted",
}
EXPIRATIONS = {
    "expiration": ("expiration", "expHours"),
    "abort_expiration": ("abortExpiration", "abortExpHours"),
    "before_image_expiration": ("biExpiration", "biExpHours"),
}


def as_vector(entry: Entry) -> dict[str, Any]:
    """Return the fields of `entry` under the names and in the forms of a vector's `decoded`."""
    return _ENTRY.get(entry.type_name, _any)(entry)


def plain(fields: Fields, **others: str) -> dict[str, Any]:
    """Rename fields by `PLAIN`, which `others` overrides. Every field must be in one of them."""
    return {
        others.get(name) or PLAIN[name]: value_of(name, value)
        for name, value in fields.items()
        if name not in COUNTS
    }


def value_of(name: str, value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list):
        return [value_of("", item) for item in value]
    if name == "lsn" or name.endswith("_lsn"):
        return f"0x{value >> 32 & 0xFFFFFFFF:x}/0x{value & 0xFFFFFFFF:x}"
    return value


def without(fields: Fields, *names: str) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in names}


def _any(entry: Entry) -> dict[str, Any]:
    if "slots" in entry.fields:
        return _node(entry.fields)
    if "data" in entry.fields:
        return _ln(entry)
    return plain(entry.fields)


def _ln(entry: Entry) -> dict[str, Any]:
    fields = entry.fields
    special = ("data", "flags", "flags2", "flags3", "txn_id", "node_id", *EXPIRATIONS)
    groups = ("database", "config", "summary", "obsolete_offsets", "deleted")
    result = plain(without(fields, *special, *groups))
    result["dataLen"] = -1 if fields["data"] is None else len(fields["data"])
    if fields["data"] is not None:
        result["data"] = fields["data"].hex()
    result["flags"] = [fields.get(name, 0) for name in ("flags", "flags2", "flags3")]
    if "txn_id" in fields:
        result["txnId"] = fields["txn_id"]
    if "node_id" in fields:
        result["nodeId_old"] = fields["node_id"]
    if entry.type_name == "FileSummaryLN":
        # The vectors have the anchor even in log versions that have none.
        result.setdefault("anchorLsn", None)
    for name, (number, hours) in EXPIRATIONS.items():
        if name in fields:
            result |= {number: abs(fields[name]), hours: fields[name] < 0}
    return result | _ln_groups(entry)


def _ln_groups(entry: Entry) -> dict[str, Any]:
    fields = entry.fields
    result: dict[str, Any] = {}
    if "database" in fields:
        result |= {"database": database(fields["database"]), "mapDeleted": fields["deleted"]}
    elif "deleted" in fields:
        result["nameDeleted"] = fields["deleted"]
    if "config" in fields:
        config = fields["config"]
        result["config"] = plain(config, max_entries="maxTreeEntriesPerNode", max_dup_entries="dup")
    if "summary" in fields:
        result["summary"] = {SUMMARY[k]: v for k, v in fields["summary"].items()}
        result["offsets"] = fields["obsolete_offsets"]
        result["offsetsSize"] = shorts_in(fields["obsolete_offsets"])
    return result


def shorts_in(offsets: list[int]) -> int:
    """Return the number of 16-bit groups that packed offsets take, from their differences."""
    differences = (b - a for a, b in zip([0, *offsets], offsets, strict=False))
    return sum(max(1, -(-difference.bit_length() // 15)) for difference in differences)


def database(fields: Fields) -> dict[str, Any]:
    result = plain(without(fields, "file_utilization"), max_entries="maxTreeEntriesPerNode")
    if "file_utilization" in fields:
        result["dbFileSummaries"] = {
            str(item["utilization_file_no"]): {
                SUMMARY[k]: v for k, v in item.items() if k != "utilization_file_no"
            }
            for item in fields["file_utilization"]
        }
    return result


def _node(fields: Fields) -> dict[str, Any]:
    special = ("slots", "level", "compact_lsns", "delta_last_full_lsn")
    dup_count = ("dup_count_key", "dup_count_lsn", "dup_count_state")
    result = plain(without(fields, *special, *dup_count), node_id="nodeId", max_entries="length")
    result["level"] = f"{fields['level']:x}"
    if "compact_lsns" in fields:
        result["compact"] = bool(fields["compact_lsns"])
    if "delta_last_full_lsn" in fields:
        result["lastFullLsn"] = value_of("_lsn", fields["delta_last_full_lsn"])
    if "dup_count_key" in fields:
        key, lsn, state = (fields[name] for name in dup_count)
        result["dupCountRef"] = [key.hex(), value_of("_lsn", lsn), state]
    base = fields.get("base_file_no", 0)
    result["slots"] = [_slot(slot, base) for slot in fields["slots"]]
    return result


def _slot(slot: Fields, base_file_no: int) -> dict[str, Any]:
    result = plain(without(slot, "compact_lsn"))
    if "compact_lsn" in slot:
        difference, offset = slot["compact_lsn"]
        lsn = -1 if offset == 0xFFFFFF else base_file_no + difference << 32 | offset
        result["lsn"] = value_of("_lsn", lsn)
    suffix, data = slot_parts(slot)
    if data is not None and not slot["state"] & NO_DATA:
        result |= {"keySuffix": suffix.hex(), "embData": data.hex()}
    return result


def _old_delta(entry: Entry) -> dict[str, Any]:
    result = plain(without(entry.fields, "slots", "slot_count"))
    result["deltas"] = [plain(slot) for slot in entry.fields["slots"]]
    return result


def _db_tree(entry: Entry) -> dict[str, Any]:
    result = plain(without(entry.fields, "id_database", "name_database"), flags="flags")
    result["idDb"] = database(entry.fields["id_database"])
    result["nameDb"] = database(entry.fields["name_database"])
    return result


def _ckpt_end(entry: Entry) -> dict[str, Any]:
    adjusted = (
        "cleaner_last_file_no",
        "cleaner_initial_adjustment_count",
        "cleaner_adjustments",
    )
    fields = without(entry.fields, *adjusted)
    result = plain(fields, ckpt_id="id", root_lsn="root", completed_scans="scanIds", flags="flags")
    if "cleaner_last_file_no" in entry.fields:
        # The vectors keep these as bytes, encoded here by the format page's rule.
        tail = [entry.fields[name] for name in adjusted[:2]]
        rows = entry.fields["cleaner_adjustments"]
        numbers = [*tail, len(rows), *(value for row in rows for value in row.values())]
        result["v8extra_"] = b"".join(map(packed, numbers)).hex()
    return result


def packed(value: int) -> bytes:
    """Encode a number by the rule of je-log.md "Codings": non-negative values and -1."""
    if value <= 119:
        return bytes([value & 0xFF])
    size = max(1, ((value - 119).bit_length() + 7) // 8)
    return bytes([119 + size]) + (value - 119).to_bytes(size, "little")


def _erased(entry: Entry) -> dict[str, Any]:
    return {"allZeros": not any(entry.fields["item"])}


def _renamed(**names: str) -> Any:
    return lambda entry: plain(entry.fields, **names)


_ENTRY = {
    "BINDelta": _old_delta,
    "DupBINDelta": _old_delta,
    "DbTree": _db_tree,
    "CkptStart": _renamed(ckpt_id="id"),
    "CkptEnd": _ckpt_end,
    "Commit": _renamed(txn_id="id"),
    "Abort": _renamed(txn_id="id"),
    "Prepare": _renamed(txn_id="id"),
    "INDelete": _renamed(node_id="nodeId"),
    "INDupDelete": _renamed(node_id="nodeId"),
    "RollbackStart": _renamed(active_txns="txns"),
    "Matchpoint": _renamed(master_node_id="master"),
    "FileHeader": _renamed(created_ms="time"),
    "Erased": _erased,
}
