"""What the engine's cleaner has noted of a log: obsolete entries, files that are to go.

Source: je-log.md "Records"; UtilizationProfile.getObsoleteDetailSorted, FileProtector, JE 18.3.12.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from je_tools.formats.arrays import Ints, Mask
from je_tools.formats.je.tuples import TupleError, TupleReader

if TYPE_CHECKING:
    from je_tools.snapshot import Snapshot

UTILIZATION_DB, RESERVED_FILES_DB = "_jeUtilization", "_jeReservedFilesDb"

TOTALS = (
    "total_count",
    "total_size",
    "total_in_count",
    "total_in_size",
    "total_ln_count",
    "total_ln_size",
)
"""Counts of a file's entries that a FileSummaryLN has."""

_FILE_NO_SIZE = 4


@dataclass(frozen=True)
class Summary:
    """The newest summary of a file.

    Attributes:
        lsn: of its entry.
        totals: by name.
    """

    lsn: int
    totals: dict[str, int]


@dataclass(frozen=True)
class CleanerNotes:
    """What the cleaner has noted.

    Attributes:
        obsolete: int64 LSNs, ascending: entries that nothing needs.
        reserved: numbers of files that wait for their deletion.
        summaries: by file number.
    """

    obsolete: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    reserved: frozenset[int] = frozenset()
    summaries: dict[int, Summary] = field(default_factory=dict)

    def is_obsolete(self, lsns: Ints) -> Mask:
        """Which LSNs are noted as obsolete."""
        if not len(self.obsolete):
            return np.zeros(len(lsns), np.bool_)
        # Needles that ascend are found several times faster.
        order = np.argsort(lsns)
        needles = lsns[order]
        at = np.minimum(np.searchsorted(self.obsolete, needles), len(self.obsolete) - 1)
        noted = np.zeros(len(lsns), np.bool_)
        noted[order] = self.obsolete[at] == needles
        return noted

    def is_reserved(self, lsns: Ints) -> Mask:
        """Which LSNs lie in files that wait for their deletion."""
        return np.isin(lsns >> 32 & 0xFFFFFFFF, list(self.reserved))


def cleaner_notes(snapshot: Snapshot) -> CleanerNotes:
    """What the records of the cleaner's databases say; those that cannot be read say nothing."""
    obsolete, summaries = _summaries(snapshot)
    return CleanerNotes(obsolete, frozenset(_reserved(snapshot)), summaries)


def _lsns_of(snapshot: Snapshot, name: str) -> list[int]:
    for database in snapshot.databases.values():
        if database.name == name:
            batches = snapshot.records(database, with_data=False)
            return [lsn for batch in batches for lsn in batch.lsn.tolist()]
    return []


def _summaries(snapshot: Snapshot) -> tuple[Ints, dict[int, Summary]]:
    """Obsolete LSNs of all records, and of each file the newest record, which has its totals."""
    pieces = [np.empty(0, np.int64)]
    newest: dict[int, Summary] = {}
    for lsn in _lsns_of(snapshot, UTILIZATION_DB):
        entry = snapshot.entry(lsn)
        key = entry.fields.get("key") if entry is not None else None
        if entry is None or not key or "summary" not in entry.fields:
            continue
        file_no = int.from_bytes(key[:_FILE_NO_SIZE], "big")
        offsets = np.array(entry.fields["obsolete_offsets"], np.int64)
        pieces.append(file_no << 32 | offsets)
        if file_no not in newest or newest[file_no].lsn < lsn:
            group = entry.fields["summary"]
            newest[file_no] = Summary(lsn, {name: group[name] for name in TOTALS})
    obsolete = np.concatenate(pieces)
    obsolete.sort(kind="stable")
    return obsolete, newest


def _reserved(snapshot: Snapshot) -> list[int]:
    """Numbers of reserved files, which are the keys of their records."""
    files = []
    for database in snapshot.databases.values():
        if database.name != RESERVED_FILES_DB:
            continue
        for batch in snapshot.records(database, with_data=False):
            for row in range(len(batch)):
                try:
                    files.append(TupleReader(batch.key[row] or b"").i64())
                except TupleError:
                    continue
    return files
