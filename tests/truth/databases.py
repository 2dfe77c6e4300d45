"""Databases, their roots and their utilization, as printed inside other entries."""

from __future__ import annotations

import re
from typing import Any

from tests.truth.cursor import Cursor, byte_text, snake_case, truth

_FLAGS = r'dupsort="(\w+)" replicated="(\w+)" (?:temp="(\w+)" )? *'
_DATABASE = re.compile(
    rf'<database (?:name="(.*?)" )? *{_FLAGS}btcmp="(.*?)" dupcmp="(.*?)" > <dbId id="(-?\d+)"/>',
    re.DOTALL,
)
_CONFIG = re.compile(rf'<config +{_FLAGS}btcmpSet="(\w+)" dupcmpSet="(\w+)" />')
_ROOT = re.compile(r"<root>")
_ROOT_END = re.compile(r"</root>")
_ROOT_SLOT = re.compile(
    r'<ref (?:kd|knownDeleted)="(\w+)" (?:pd|pendingDeleted)="(\w+)">'
    r'<key v="([\d ]*)"/><DbLsn val="(\S+?)"/></ref>'
)
_FILE = re.compile(r'<file file="(\d+)">')
_FILE_END = re.compile(r"</file>")
_SUMMARY = re.compile(r"<summary ([^>]*)/>")
_PAIR = re.compile(r'(\w+)="([^"]*)"\s*')
_DATABASE_END = re.compile(r"</database>")


def flags(dups: str, replicated: str, temporary: str | None) -> dict[str, bool]:
    """Return the flags of a database that are printed; JE 25.3 omits `temporary`."""
    found = {"dups": truth(dups), "replicated": truth(replicated)}
    return found if temporary is None else found | {"temporary": truth(temporary)}


def database(cursor: Cursor) -> dict[str, Any]:
    """Parse a database record: name, id, flags, comparators, root, utilization."""
    match = cursor.need(_DATABASE)
    found: dict[str, Any] = {"id": int(match[7]), **flags(*match.groups()[1:4])}
    if match[1] is not None:
        found["name"] = match[1]
    found |= {"btree_comparator": match[5], "dup_comparator": match[6]}
    cursor.need(_ROOT)
    found["root"] = root_slot(cursor)
    cursor.need(_ROOT_END)
    found["file_utilization"] = _utilization(cursor)
    cursor.need(_DATABASE_END)
    return found


def root_slot(cursor: Cursor) -> dict[str, Any] | None:
    """Parse a reference to one node; return None if there is none."""
    match = cursor.take(_ROOT_SLOT)
    if match is None:
        return None
    return {
        "known_deleted": truth(match[1]),
        "pending_deleted": truth(match[2]),
        "key": byte_text(match[3]),
        "lsn": match[4],
    }


def _utilization(cursor: Cursor) -> list[dict[str, int]]:
    files = []
    while (match := cursor.take(_FILE)) is not None:
        files.append({"utilization_file_no": int(match[1]), **summary(cursor)})
        cursor.need(_FILE_END)
    return files


def summary(cursor: Cursor) -> dict[str, int]:
    """Parse the counters of a utilization summary, without those that the engine derives."""
    pairs = Cursor(cursor.need(_SUMMARY)[1])
    found = {}
    while (pair := pairs.take(_PAIR)) is not None:
        if not pair[1].startswith("get"):
            found[snake_case(pair[1])] = int(pair[2])
    pairs.end()
    return found


def config(cursor: Cursor) -> dict[str, bool] | None:
    """Parse the configuration logged with a database's name; return None if there is none."""
    match = cursor.take(_CONFIG)
    if match is None:
        return None
    return {
        **flags(*match.groups()[:3]),
        "btree_comparator": truth(match[4]),
        "dup_comparator": truth(match[5]),
    }
