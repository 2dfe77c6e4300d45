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
from je_tools.formats.je.types import ENTRY_TYPES, ERASED_NO, FILE_HEADER_NO, Family, Group, mask_of

if TYPE_CHECKING:
    from je_tools.btree.check.cleaner_metadata import CleanerNotes
    from je_tools.formats.arrays import Ints
    from je_tools.formats.je.log.entry_rows import Rows
    from je_tools.log.environment import Environment
    from je_tools.log.scan import Scanner

_IS_LN = mask_of(each.no for each in ENTRY_TYPES.values() if Group.LN in each.groups)
_IS_NODE = mask_of(
    each.no for each in ENTRY_TYPES.values() if each.family in (Family.NODE, Family.OLD_DELTA)
)
_TOTALS = SUMMARY_TOTALS[:6]
"""Totals of a file that follow from its entries alone."""

_ERASED_PLACE = len(_TOTALS)


class TotalsDifference(Struct, frozen=True):
    """A file with wrong totals.

    Attributes:
        file_no: number of the file.
        lsn: LSN of the summary.
        kept, counted: totals that differ, by name: those of the summary, and those counted.
    """

    file_no: int
    lsn: int
    kept: dict[str, int]
    counted: dict[str, int]


def count_rows(rows: Rows) -> tuple[int, Ints]:
    """Return the file number of some entries, and their totals, int64 (totals + 1,).

    The last element counts erased entries, whose types are unknown.
    """
    types, sizes = rows.type, rows.size.astype(np.int64)
    counted = types != FILE_HEADER_NO
    totals = np.zeros(_ERASED_PLACE + 1, np.int64)
    for place, mask in enumerate((counted, _IS_NODE[types], _IS_LN[types])):
        totals[2 * place] = np.count_nonzero(mask)
        totals[2 * place + 1] = sizes[mask].sum()
    totals[_ERASED_PLACE] = np.count_nonzero(types == ERASED_NO)
    return rows.file_no, totals


def wrong_totals(
    environment: Environment, scanner: Scanner, notes: CleanerNotes
) -> Iterator[TotalsDifference]:
    """Yield files whose totals differ from a count of their entries.

    A summary that was written before its file was complete covers part of it, so its totals may be
    lower, but not higher. If a file has erased entries, only total count and size are compared.
    """
    counts: dict[int, Ints] = {}
    for part in replace(scanner, check=False, progress=None).scan(environment, count_rows):
        for file_no, totals in part.results:
            counts[file_no] = counts.get(file_no, np.zeros(_ERASED_PLACE + 1, np.int64)) + totals
    for file_no, totals in counts.items():
        summary = notes.summaries.get(file_no)
        if summary is None:
            continue
        known = _TOTALS if not totals[_ERASED_PLACE] else _TOTALS[:2]
        kept = {name: getattr(summary.counts, name) for name in known}
        counted = dict(zip(_TOTALS, totals.tolist(), strict=False))
        is_whole = summary.lsn >> 32 > file_no
        wrong = [
            name
            for name in known
            if kept[name] > counted[name] or (is_whole and kept[name] < counted[name])
        ]
        if wrong:
            yield TotalsDifference(
                file_no,
                summary.lsn,
                {name: kept[name] for name in wrong},
                {name: counted[name] for name in wrong},
            )
