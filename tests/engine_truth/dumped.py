"""Differences between rows of `je-tools dump` and an engine's print of the same entries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.truth.cursor import NULL_LSN, hour_text
from tests.truth.printlog import Printed

Entry = dict[str, Any]

_NO_FILE = 0xFFFFFFFF
_WHOLE_KEYS = 12
"""JE 5.0 and older print the keys of slots without their common prefix."""
_DB_NAMES = {0: "_jeIdMap", 1: "_jeNameMap"}
_OPERATIONS = ("NONE", "CREATE", "REMOVE", "TRUNCATE", "RENAME", "UPDATE_CONFIG")


def differences(printed: Printed, row: Entry) -> list[str]:
    """Return the differences between an entry of the dump and the print; empty if they agree."""
    entry = row["entry"]
    said: Entry = {
        "lsn": printed.lsn_text,
        "type": printed.type,
        "provisional": printed.provisional,
        "replicated": printed.replicated,
        "invisible": printed.invisible,
        "vlsn": printed.vlsn,
        "prev_offset": printed.prev_offset,
        "item_size": printed.item_size,
        "db_id": printed.db_id,
        "txn_id": printed.txn_id,
        "key": printed.key,
        "data": printed.data,
        "data_size": None if printed.data is None else len(printed.data) // 2,
        "checksum": "none" if printed.type == "Erased" else "ok",
    }
    if printed.version is not None:
        said["version"] = printed.version
    found = [
        f"{name}: printed {value!r}, dumped {row[name]!r}"
        for name, value in said.items()
        if row[name] != value
    ]
    for name, value in printed.fields.items():
        if name == "base_file_no" and not entry["compact_lsns"]:
            continue  # of the node in memory: none is logged
        shown = of_entry(name, entry, row["version"])
        if shown != value:
            found.append(f"{name}: printed {value!r}, dumped {shown!r}")
    return found


def of_entry(name: str, entry: Entry, version: int) -> Any:
    """Return a printed value by its name, from the payload in the dump, or None."""
    derive = _DERIVED.get(name)
    return entry.get(name) if derive is None else derive(entry, version)


def _bit(name: str, mask: int) -> Callable[[Entry, int], bool]:
    return lambda entry, _: bool(entry.get(name, 0) & mask)


def _or(name: str, default: Any) -> Callable[[Entry, int], Any]:
    return lambda entry, _: entry.get(name, default)


def _expires(name: str) -> Callable[[Entry, int], str | None]:
    """Return a function for an expiration as printed; JE 25.3 adds the number to the time."""

    def text(entry: Entry, version: int) -> str | None:
        value = entry.get(name)
        if value is None:
            return None
        hours = value < 0
        time = hour_text(hours=-value) if hours else hour_text(days=value)
        number = f" val:{abs(value)} {'hours' if hours else 'days'}" if version >= 19 else ""
        return time + number

    return text


def _prior(entry: Entry, _version: int) -> tuple[int, int] | None:
    if "prior_size" not in entry and "prior_file_no" not in entry:
        return None
    return entry.get("prior_size", 0), entry.get("prior_file_no", _NO_FILE)


def _flags(holder: Entry) -> Entry:
    flags = holder["db_flags"]
    return {
        "dups": bool(flags & 0x01),
        "temporary": bool(flags & 0x02),
        "replicated": bool(flags & 0x04),
    }


def _config(entry: Entry, version: int) -> Entry | None:
    logged = entry.get("config")
    if logged is None:
        return None
    shown = {
        **_flags(logged),
        "btree_comparator": bool(logged["btree_comparator"]),
        "dup_comparator": bool(logged["dup_comparator"]),
    }
    return _without_temporary(shown, version)


def _without_temporary(shown: Entry, version: int) -> Entry:
    """Remove `temporary` for JE 25.3, which does not print it."""
    if version >= 19:
        del shown["temporary"]
    return shown


def _database(name: str) -> Callable[[Entry, int], Entry]:
    def shown(entry: Entry, version: int) -> Entry:
        logged = entry[name]
        found = {
            "id": logged["id"],
            **_flags(logged),
            "btree_comparator": logged["btree_comparator"],
            "dup_comparator": logged["dup_comparator"],
            "root": _root(logged, "root") if logged["tree_exists"] else None,
            "file_utilization": logged.get("file_utilization", []),
        }
        if version >= 16:
            found["name"] = logged.get("name", _DB_NAMES.get(logged["id"]))
        return _without_temporary(found, version)

    return shown


def _root(holder: Entry, name: str) -> Entry:
    state = holder[f"{name}_state"]
    return {
        "known_deleted": bool(state & 0x01),
        "pending_deleted": bool(state & 0x08),
        "key": holder[f"{name}_key"],
        "lsn": holder[f"{name}_lsn"],
    }


def _dup_count(entry: Entry, _version: int) -> Any:
    if "dup_count" in entry:
        return entry["dup_count"]
    return _root(entry, "dup_count") if entry["dup_count_exists"] else None


def _bloom_filter(entry: Entry, _version: int) -> str | None:
    """Return bits in the order of their numbers, the lowest of a byte first."""
    logged = entry.get("bloom_filter")
    if logged is None:
        return None
    return "".join(f"{byte:08b}"[::-1] for byte in bytes.fromhex(logged))


def _slots(entry: Entry, version: int) -> list[Entry]:
    """Return slots as printed: whole keys, bits by name, times and expirations with their bases."""
    prefix = entry.get("key_prefix") or ""
    if version < _WHOLE_KEYS:
        prefix = ""
    old_delta = "level" not in entry
    return [_slot(entry, slot, prefix, version, old_delta) for slot in entry["slots"]]


def _slot(entry: Entry, slot: Entry, prefix: str, version: int, old_delta: bool) -> Entry:
    state = slot["state"]
    shown: Entry = {
        "known_deleted": bool(state & 0x01),
        "pending_deleted": bool(state & 0x08),
        "key": prefix + slot["key"],
        "lsn": slot["lsn"],
    }
    if version < 12 or old_delta:
        return shown
    is_bin = entry["level"] & 0xFFFF == 1
    shown |= {
        # The engine clears the bit when it reads a whole node.
        "dirty": bool(state & 0x02) and "full_slot_count" in entry,
        "embedded": bool(state & 0x10),
        "no_data": bool(state & 0x20),
        "data": slot.get("data"),
        "vlsn": slot["vlsn"] if slot.get("vlsn", 0) > 0 else None,
        "expires": _slot_expires(entry, slot, version),
    }
    if is_bin or version >= 19:
        shown["logged_size"] = slot.get("logged_size", 0)
    if is_bin and version >= 19:
        shown["tombstone"] = bool(state & 0x80)
        shown["created_ms"] = _slot_time(entry, slot, "created")
        shown["modified_ms"] = _slot_time(entry, slot, "modified")
    return shown


def _slot_time(entry: Entry, slot: Entry, name: str) -> int | None:
    """Return base plus offset; the offset 0 means no time."""
    base, offset = entry[f"{name}_base_ms"], slot.get(f"{name}_offset", 0)
    return base + offset - 1 if base != -1 and offset else None


def _slot_expires(entry: Entry, slot: Entry, version: int) -> str | None:
    offset = slot.get("expiration_offset", 0)
    if not offset:
        return None
    value = entry["expiration_base"] + offset - 1
    hours = bool(entry["booleans"] & 0x20)
    time = hour_text(hours=value) if hours else hour_text(days=value)
    return f"{time} val:{value} off:{offset}" if version >= 19 else time


_DERIVED: dict[str, Callable[[Entry, int], Any]] = {
    "abort_lsn": _or("abort_lsn", NULL_LSN),
    "abort_known_deleted": _bit("flags", 0x01),
    "embedded": _bit("flags", 0x02),
    "tombstone": _bit("flags2", 0x04),
    "abort_tombstone": _bit("flags2", 0x08),
    "blind_deletion": _bit("flags2", 0x20),
    "created_in_insert": _bit("flags3", 0x01),
    "created_ms": _or("created_ms", 0),
    "modified_ms": _or("modified_ms", 0),
    "expires": _expires("expiration"),
    "abort_expires": _expires("abort_expiration"),
    "prior": _prior,
    "operation": lambda entry, _: _OPERATIONS[entry["operation"]],
    "config": _config,
    "database": _database("database"),
    "id_database": _database("id_database"),
    "name_database": _database("name_database"),
    "dup_count": _dup_count,
    "is_root": _bit("booleans", 0x01),
    "expires_in_hours": _bit("booleans", 0x20),
    "bloom_filter": _bloom_filter,
    "slots": _slots,
    "root_exists": _bit("flags", 0x01),
    "cleaned_files_to_delete": _bit("flags", 0x02),
    "all_zeros": lambda entry, _: not entry["item"].strip("0"),
}
