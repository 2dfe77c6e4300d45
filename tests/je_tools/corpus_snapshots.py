"""Snapshots of environments for tests, and their records as plain values."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from je_tools.formats.je.entry.columns import MAX_ROWS
from je_tools.formats.je.log.entry_rows import Rows
from je_tools.log.entry_table import NO_TIME, build_table
from je_tools.log.opening import open_environment
from je_tools.log.records import Records
from je_tools.log.scan import Scanner
from je_tools.recovery.database import Database
from je_tools.recovery.opening import take_snapshot
from je_tools.recovery.snapshot import Snapshot

_TIMES = frozenset({"time_ms", "modified_ms", "created_ms"})


@functools.cache
def newest_ms(home: Path) -> int:
    """Return the newest time in a log; fixed logs are read as of this time."""

    def newest(rows: Rows) -> int:
        latest = NO_TIME
        for first in range(0, len(rows), MAX_ROWS):
            some = rows.select(np.arange(first, min(first + MAX_ROWS, len(rows))))
            latest = max(latest, int(build_table(some, wanted=_TIMES).time_ms.max()))
        return latest

    parts = Scanner(threads=1).scan(open_environment([home]), newest)
    return max(time_ms for part in parts for time_ms in part.results)


def snapshot_of(home: Path, *, now_ms: int | None = None) -> Snapshot:
    """Return the snapshot of an environment as of `now_ms`, by default its newest time."""
    scanner = Scanner(wide=True)
    when = newest_ms(home) if now_ms is None else now_ms
    return take_snapshot(open_environment([home]), scanner, now_ms=when)


def database_named(snapshot: Snapshot, name: str) -> Database:
    """Return the database with this name."""
    (found,) = (each for each in snapshot.databases.values() if each.name == name)
    return found


def pairs_of(batches: Iterable[Records]) -> list[tuple[bytes, bytes | None]]:
    """Return keys and data as pairs."""
    return [
        (records.key[row] or b"", records.data[row])
        for records in batches
        for row in range(len(records))
    ]
