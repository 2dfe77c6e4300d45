"""Snapshots of directories, and their contents as plain Python."""

from __future__ import annotations

from pathlib import Path

from je_tools.formats.spans import Spans
from je_tools.log.opening import open_environment
from je_tools.log.scan import Scanner
from je_tools.recovery.database import Database
from je_tools.recovery.findings import snapshot_findings
from je_tools.recovery.opening import take_snapshot
from je_tools.recovery.snapshot import Snapshot
from tests.truth.contents import Contents

NOW_MS = 1_700_000_000_000


def snapshot_of(
    home: Path, *, now_ms: int = NOW_MS, to_lsn: int | None = None, threads: int = 1
) -> Snapshot:
    """Take a snapshot of a directory."""
    scanner = Scanner(threads=threads)
    return take_snapshot(open_environment([home]), scanner, now_ms=now_ms, to_lsn=to_lsn)


def contents_of(snapshot: Snapshot) -> Contents:
    """Return the records of all application databases, by name."""
    return {
        each.name: records_of(snapshot, each)
        for each in snapshot.databases.values()
        if each.name is not None and not each.is_internal
    }


def records_of(snapshot: Snapshot, database: Database) -> list[tuple[bytes, bytes]]:
    """Return key and data of each record, in the order in which they come."""
    found: list[tuple[bytes, bytes]] = []
    for batch in snapshot.records(database):
        keys, data = strings_of(batch.key), strings_of(batch.data)
        assert None not in keys
        found += [(key or b"", each or b"") for key, each in zip(keys, data, strict=True)]
    return found


def strings_of(spans: Spans) -> list[bytes | None]:
    """Return the strings of a column, None for null."""
    data = spans.data.tobytes()
    pairs = zip(spans.starts.tolist(), spans.sizes.tolist(), strict=True)
    return [None if size < 0 else data[start : start + size] for start, size in pairs]


def codes_of(snapshot: Snapshot) -> list[str]:
    """Return the codes of the findings on what has been read, in order."""
    return [finding.code for finding in snapshot_findings(snapshot)]
