"""Cleaner metadata: entries that the engine counts as obsolete, reserved files, file summaries.

Source: je-log.md "Records"; UtilizationProfile.getObsoleteDetailSorted, FileProtector, JE 18.3.12.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, field

from je_tools.formats.je.internal.names import RESERVED_FILES_DB
from je_tools.formats.je.tuples import TupleError, TupleReader
from je_tools.recovery.utilization import FileSummary, record_places, stored_summaries

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.recovery.snapshot import Snapshot


class NewestSummary(Struct, frozen=True):
    """The newest summary of a file.

    Attributes:
        lsn: LSN of its entry.
        counts: its totals.
    """

    lsn: int
    counts: FileSummary


class CleanerMetadata(Struct, frozen=True):
    """Cleaner metadata of a log.

    Attributes:
        obsolete: int64, ascending; LSNs of obsolete entries.
        reserved: numbers of files that wait for deletion.
        summaries: newest summary of each file, by file number.
    """

    obsolete: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    reserved: frozenset[int] = frozenset()
    summaries: dict[int, NewestSummary] = field(default_factory=dict)

    def is_obsolete(self, lsns: Ints) -> Mask:
        """Return a mask of the LSNs that the engine counts as obsolete."""
        if not len(self.obsolete):
            return np.zeros(len(lsns), np.bool_)
        # Searching for ascending values is several times faster.
        order = np.argsort(lsns)
        ascending = lsns[order]
        at = np.minimum(np.searchsorted(self.obsolete, ascending), len(self.obsolete) - 1)
        found = np.zeros(len(lsns), np.bool_)
        found[order] = self.obsolete[at] == ascending
        return found

    def is_reserved(self, lsns: Ints) -> Mask:
        """Return a mask of the LSNs in files that wait for deletion."""
        return np.isin(lsns >> 32 & 0xFFFFFFFF, list(self.reserved))


def read_cleaner_metadata(snapshot: Snapshot) -> CleanerMetadata:
    """Read the cleaner metadata from its databases; records that cannot be read are left out."""
    stored = stored_summaries(snapshot)
    newest = {file_no: NewestSummary(lsn, counts) for file_no, lsn, counts in stored.newest()}
    obsolete = np.sort(stored.summaries.obsolete, kind="stable")
    return CleanerMetadata(obsolete, frozenset(_reserved(snapshot)), newest)


def _reserved(snapshot: Snapshot) -> Iterator[int]:
    """Yield the numbers of reserved files, which are the keys of their records."""
    for key, _ in record_places(snapshot, RESERVED_FILES_DB):
        try:
            yield TupleReader(key).i64()
        except TupleError:
            continue
