"""The last VLSNs of logs, to compare nodes of a group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from je_tools.formats.je.internal.names import VLSN_MAP_DB
from je_tools.vlsn.stream_tail import TailReader

if TYPE_CHECKING:
    from je_tools.recovery.snapshot import Snapshot


def last_vlsn(snapshot: Snapshot) -> int | None:
    """Return the last VLSN that no rollback undid; None if the log is not replicated.

    Two nodes of a group with equal records may still have different last VLSNs: the further entries
    of one may be undone, or belong to transactions without an end.

    Raises:
        StoppedError: a file shrank, vanished or was replaced meanwhile.
        InputError: a file cannot be read.
    """
    if not any(database.name == VLSN_MAP_DB for database in snapshot.databases.values()):
        return None
    return TailReader(snapshot).at_least(1).last_vlsn


def ends_apart(a: Snapshot, b: Snapshot) -> tuple[int, int] | None:
    """Return the last VLSNs of two nodes if they differ; None if they do not, or one has none.

    Raises:
        StoppedError: a file shrank, vanished or was replaced meanwhile.
        InputError: a file cannot be read.
    """
    ends = last_vlsn(a), last_vlsn(b)
    if ends[0] is None or ends[1] is None or ends[0] == ends[1]:
        return None
    return ends[0], ends[1]
