"""The last Commit that recovery leaves, and the VLSNs that it cuts off."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from msgspec.structs import replace

from je_tools.formats.je.log.entry_rows import WantedEntries
from je_tools.formats.je.types import COMMIT_NO, mask_of
from je_tools.log.references import read_references
from je_tools.vlsn.stream import ReplicationStream

if TYPE_CHECKING:
    from je_tools.formats.je.log.entry_rows import Rows
    from je_tools.log.log_files import LogFile
    from je_tools.recovery.snapshot import Snapshot

T = TypeVar("T")

BACK_MAX = 8
"""Largest number of files that are read back to the last Commit."""

_COMMITS = mask_of((COMMIT_NO,))
_FOREVER = (1 << 63) - 1


def find_last_commit(snapshot: Snapshot) -> int | None:
    """Return the time of the last Commit of a log; None if the last files have none.

    Raises:
        StoppedError: a file shrank, vanished or was replaced meanwhile.
        InputError: a file cannot be read.
    """
    ends = snapshot.interval.ends
    rows = np.flatnonzero(ends.is_commit)
    if len(rows):
        return int(ends.time_ms[rows[np.argmax(ends.lsn[rows])]])
    next_lsn = snapshot.end.next_lsn

    def last_of(rows: Rows) -> int | None:
        wanted = _COMMITS[rows.type] & rows.good & (rows.lsn < next_lsn)
        if not wanted.any():
            return None
        last = rows.select(np.flatnonzero(wanted)[-1:])
        return int(read_references(last, _COMMITS, ("time_ms",)).numbers["time_ms"][0])

    asked = WantedEntries(_COMMITS)
    for file in snapshot.end.files[::-1][:BACK_MAX]:
        found = [each for each in _scanned(snapshot, [file], last_of, asked) if each is not None]
        if found:
            return found[-1]
    return None


def lost_vlsns(snapshot: Snapshot) -> tuple[int | None, int | None]:
    """Return the lowest and the highest VLSN after the end of a log; None if there is none.

    Raises:
        StoppedError: a file shrank, vanished or was replaced meanwhile.
        InputError: a file cannot be read.
    """
    first_lsn, skipped = snapshot.end.next_lsn, {each.file.path for each in snapshot.end.skipped}
    files = [
        file
        for file in snapshot.environment.files
        if file.file_no >= first_lsn >> 32 and file.path not in skipped
    ]

    def ends_of(rows: Rows) -> tuple[int, int] | None:
        vlsns = ReplicationStream.of_rows(rows, first_lsn, _FOREVER).vlsn
        vlsns = vlsns[vlsns > 0]
        return (int(vlsns.min()), int(vlsns.max())) if len(vlsns) else None

    found = [each for each in _scanned(snapshot, files, ends_of) if each is not None]
    if not found:
        return None, None
    return min(first for first, _ in found), max(last for _, last in found)


def _scanned(
    snapshot: Snapshot,
    files: Iterable[LogFile],
    inspect: Callable[[Rows], T],
    asked: WantedEntries | None = None,
) -> list[T]:
    scanner = replace(snapshot.scanner, progress=None, stage=None, wide=True)
    if asked is not None:
        scanner = replace(scanner, asked=lambda _: asked)
    parts = scanner.scan(replace(snapshot.environment, files=tuple(files)), inspect)
    return [each for part in parts for each in part.results]
