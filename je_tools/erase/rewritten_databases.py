"""Databases whose trees are written anew, so that no keys of deleted records are left in them.

Until a node is written again in full, a slot of an upper node keeps the key with which its child
once began, and a BIN-delta keeps slots of deleted records.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from je_tools.core.escaping import printable
from je_tools.errors import RefusedError, UsageError

if TYPE_CHECKING:
    from je_tools.recovery.snapshot import Snapshot


def rewritable(snapshot: Snapshot, names: Collection[str]) -> frozenset[int]:
    """Return the ids of databases whose trees are to be written anew.

    Args:
        snapshot: the log.
        names: names of databases of the application.

    Raises:
        UsageError: there is no such database.
        RefusedError: only the application can put its keys in order.
    """
    named = {each.name: each for each in snapshot.databases.values() if not each.is_internal}
    home = snapshot.environment.name
    ids = set()
    for name in names:
        if name not in named:
            raise UsageError(f"{home}: there is no database {printable(name)}")
        if named[name].comparators:
            raise RefusedError(
                f"{home}: database {printable(name)} has a comparator of its application, so its "
                "tree cannot be written anew. Let the engine write it: set je.tree.binDelta to 0, "
                "open the environment with the application, and run a checkpoint with "
                "minimizeRecoveryTime"
            )
        ids.add(named[name].db_id)
    return frozenset(ids)
