"""Internal databases of a snapshot, and the flags of the environment in its DbTree."""

from __future__ import annotations

from typing import TYPE_CHECKING

from je_tools.errors import InputError
from je_tools.formats.je.flags import DbTreeFlag
from je_tools.formats.je.internal.names import VLSN_MAP_DB

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
    """Return the flags of the environment, bits of `DbTreeFlag`; 0 if the DbTree is unreadable."""
    root = snapshot.entry(snapshot.checkpoint.root_lsn)
    return int(root.fields["flags"]) if root is not None else 0


def check_replicated(snapshot: Snapshot) -> None:
    """Check that a log is that of a replicated node.

    Raises:
        InputError: it is that of a node without replication.
    """
    if not is_replicated(snapshot):
        raise InputError(
            f"{snapshot.environment.name}: the environment is not replicated, so it has no VLSN "
            "index: name the environment of a node of a group"
        )
