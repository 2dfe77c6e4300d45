"""Obsolete entries of a log: where they are, their sizes, and whether a file summary lists them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from msgspec.structs import astuple

from je_tools.formats.arrays import Ints, Mask, rows_by
from je_tools.recovery.interval_tables import ColumnTable
from je_tools.recovery.utilization import FileSummary

_OFFSET = (1 << 32) - 1
_NONE = np.empty(0, np.int64)


class ObsoleteEntries(ColumnTable, frozen=True):
    """Obsolete entries, in no order.

    Attributes:
        lsn: int64; the offset is 0 if only the file is known.
        size: int64; bytes, 0 if unknown.
        is_ln, is_listed: bool.
    """

    lsn: Ints
    size: Ints
    is_ln: Mask
    is_listed: Mask

    @classmethod
    def of(
        cls, lsn: Ints, size: Ints | int = 0, *, is_ln: bool, is_listed: Mask | bool
    ) -> ObsoleteEntries:
        """Build obsolete entries that are all LNs, or all not."""
        n = len(lsn)
        return cls(
            lsn,
            np.broadcast_to(np.asarray(size, np.int64), (n,)).copy(),
            np.full(n, is_ln),
            np.broadcast_to(np.asarray(is_listed, np.bool_), (n,)).copy(),
        )

    def select(self, keep: Mask | Ints) -> ObsoleteEntries:
        """Return some rows."""
        return ObsoleteEntries(*(column[keep] for column in astuple(self)))


def joined_obsolete(parts: Iterable[ObsoleteEntries]) -> ObsoleteEntries:
    """Concatenate obsolete entries."""
    every = list(parts)
    if not every:
        return ObsoleteEntries.of(_NONE, is_ln=True, is_listed=False)
    columns = map(np.concatenate, zip(*map(astuple, every), strict=True))
    return ObsoleteEntries(*columns)


def obsolete_by_file(obsolete: ObsoleteEntries) -> dict[int, tuple[FileSummary, tuple[int, ...]]]:
    """Sum the obsolete entries of each file, and collect its listed offsets, ascending.

    Args:
        obsolete: obsolete entries; a listed entry that occurs twice counts once.
    """
    listed = np.flatnonzero(obsolete.is_listed)
    _, first = np.unique(obsolete.lsn[listed], return_index=True)
    rows = np.concatenate((np.flatnonzero(~obsolete.is_listed), listed[first]))
    obsolete = obsolete.select(rows)
    found = {}
    for file_no, own in rows_by(obsolete.lsn >> 32).items():
        of_file = obsolete.select(own)
        sized = of_file.is_ln & (of_file.size > 0)
        summary = FileSummary(
            obsolete_in_count=int(np.count_nonzero(~of_file.is_ln)),
            obsolete_ln_count=int(np.count_nonzero(of_file.is_ln)),
            obsolete_ln_size=int(of_file.size[sized].sum()),
            obsolete_ln_size_counted=int(np.count_nonzero(sized)),
        )
        offsets = np.sort(of_file.lsn[of_file.is_listed] & _OFFSET)
        found[file_no] = summary, tuple(offsets.tolist())
    return found
