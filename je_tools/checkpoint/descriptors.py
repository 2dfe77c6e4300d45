"""Database descriptors to write: their fields, and the tree root that they refer to.

Source: DatabaseImpl.writeToLog, Tree.writeToLog, JE 7.5.11 and 18.3.12.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MAX_ENTRIES = 128
"""Number of slots of a node if the descriptor of its database states none."""

_OLD_FIELDS: dict[str, Any] = {
    "max_dup_entries": MAX_ENTRIES,
    "file_count": 0,
    "file_utilization": (),
    "trigger_count": 0,
    "triggers": (),
}
"""Values of fields that a descriptor of another log version may lack."""


def new_descriptor(db_id: int, name: str, version: int, db_flags: int) -> dict[str, Any]:
    """Return the descriptor of a new internal database, which has no tree yet.

    Args:
        db_id: id of the database.
        name: its name.
        version: log version.
        db_flags: bits of `DatabaseFlag`.
    """
    return {
        "id": db_id,
        "name": name,
        "tree_exists": 0,
        "db_flags": db_flags,
        "btree_comparator": b"",
        "dup_comparator": b"",
        "max_entries": MAX_ENTRIES,
        "created_at_log_version": version,
    }


def complete_descriptor(
    descriptor: Mapping[str, Any], root_lsn: int | None = None
) -> dict[str, Any]:
    """Return a descriptor with the fields of all log versions, and a root if one is given."""
    complete = {**_OLD_FIELDS, **descriptor}
    if root_lsn is not None:
        complete |= {"tree_exists": 1, "root_key": b"", "root_lsn": root_lsn, "root_state": 0}
    return complete
