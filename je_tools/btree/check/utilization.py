"""The check of the totals in file summaries against a count of the entries of each file.

Source: je-log.md "Records"; FileSummary, UtilizationTracker.countNewLogEntry, JE 18.3.12.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from je_tools.formats.je.layout import SUMMARY_TOTALS
from je_tools.formats.je.types import ERASED_NO, FILE_HEADER_NO, IS_LN, IS_NODE

if TYPE_CHECKING:
    from je_tools.btree.check.cleaner_metadata import CleanerMetadata
    from je_tools.formats.arrays import Ints
    from je_tools.formats.je.log.entry_rows import Rows
    from je_tools.log.environment import Environment
    from je_tools.log.scan import Scanner

_TOTALS = SUMMARY_TOTALS[:6]
"""Totals of a file that follow from its entries alone."""

_ERASED_PLACE = len(_TOTALS)


class TotalsDifference(Struct, frozen=True):
    """A file with wrong totals.

    Attributes:
        file_no: number of the file.
        lsn: LSN of the summary.
        stored, counted: totals that differ, by name: in the summary, and as counted.
    """

    file_no: int
    lsn: int
    stored: dict[str, int]
    counted: dict[str, int]


def count_rows(rows: Rows) -> tuple[int, Ints]:
    """Return the file number of some entries, and their totals, int64 (totals + 1,).

    The last element counts erased entries, whose types are unknown.
    """
    types, sizes = rows.type, rows.size.astype(np.int64)
    counted = types != FILE_HEADER_NO
    totals = np.zeros(_ERASED_PLACE + 1, np.int64)
    for place, mask in enumerate((counted, IS_NODE[types], IS_LN[types])):
        totals[2 * place] = np.count_nonzero(mask)
        totals[2 * place + 1] = sizes[mask].sum()
    totals[_ERASED_PLACE] = np.count_nonzero(types == ERASED_NO)
    return rows.file_no, totals


def wrong_totals(
    environment: Environment, scanner: Scanner, cleaner: CleanerMetadata
) -> Iterator[TotalsDifference]:
    """Yield files whose totals differ from a count of their entries.

    A summary that was written before its file was complete may have lower totals, but not higher
    ones. If a file has erased entries, only its total count and size are compared.
    """
    counts: dict[int, Ints] = {}
    for part in replace(scanner, check=False, progress=None).scan(environment, count_rows):
        for file_no, totals in part.results:
            counts[file_no] = counts.get(file_no, np.zeros(_ERASED_PLACE + 1, np.int64)) + totals
    for file_no, totals in counts.items():
        summary = cleaner.summaries.get(file_no)
        if summary is None:
            continue
        known = _TOTALS if not totals[_ERASED_PLACE] else _TOTALS[:2]
        stored = {name: getattr(summary.counts, name) for name in known}
        counted = dict(zip(_TOTALS, totals.tolist(), strict=False))
        is_whole = summary.lsn >> 32 > file_no
        wrong = [
            name
            for name in known
            if stored[name] > counted[name] or (is_whole and stored[name] < counted[name])
        ]
        if wrong:
            yield TotalsDifference(
                file_no,
                summary.lsn,
                {name: stored[name] for name in wrong},
                {name: counted[name] for name in wrong},
            )
