"""Internal databases of an environment, and the flags in its DbTree."""

from __future__ import annotations

from typing import TYPE_CHECKING

from je_tools.formats.je.flags import DbTreeFlag
from je_tools.formats.je.internal.names import (
    EXPIRATION_DB,
    EXTINCT_SCANS_DB,
    RESERVED_FILES_DB,
    UTILIZATION_DB,
    VLSN_MAP_DB,
)

if TYPE_CHECKING:
    from je_tools.recovery.database import Database
    from je_tools.recovery.snapshot import Snapshot


def internal_database(snapshot: Snapshot, name: str) -> Database | None:
    """Return the internal database of a name, or None if the log has none."""
    found = [each for each in snapshot.databases.values() if each.name == name]
    return found[0] if found else None


def is_replicated(snapshot: Snapshot) -> bool:
    """Return True if the log is that of a replicated node."""
    return (
        bool(environment_flags(snapshot) & DbTreeFlag.REPLICATED)
        or internal_database(snapshot, VLSN_MAP_DB) is not None
    )


def environment_flags(snapshot: Snapshot) -> int:
    """Return the flags of the environment in the DbTree."""
    root = snapshot.entry(snapshot.checkpoint.root_lsn)
    return int(root.fields["flags"]) if root is not None else 0


MAX_ENTRIES = 128
"""Slots of a node, and of a node of old duplicates, if nothing else is set."""

CHANGED_DATABASES = (
    UTILIZATION_DB,
    EXPIRATION_DB,
    RESERVED_FILES_DB,
    EXTINCT_SCANS_DB,
    VLSN_MAP_DB,
)
"""Databases whose records a checkpoint changes; they are written after all others."""
