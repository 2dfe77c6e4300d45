"""Counts of one file: its entries by type, and runs of VLSNs."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from je_tools.audit.rows import signed
from je_tools.formats.je.header import lsn_of
from je_tools.formats.je.log.tally import COUNT, MAX, MIN, PROVISIONAL, TOTAL
from je_tools.formats.je.types import type_name
from je_tools.verify.vlsn_sequence import ROLLBACK

if TYPE_CHECKING:
    from je_tools.audit.audited_rows import AuditedRows


class FileCounts:
    """Counts of one file: entries by type, and runs of VLSNs."""

    def __init__(self) -> None:
        self._stats: dict[int, list[int]] = {}
        self._runs: list[tuple[int, int, int]] = []
        self._is_run_open = False

    def add(self, shown: AuditedRows) -> None:
        """Add the results of some rows, in the order of the file."""
        for type_no, *counts in shown.types.tolist():
            known = self._stats.get(type_no)
            self._stats[type_no] = counts if known is None else _added(known, counts)
        runs = shown.file.judged.runs
        if runs is not None:
            columns = (runs.offset.tolist(), runs.first.tolist(), runs.last.tolist())
            for offset, first, last in zip(*columns, strict=True):
                self._add_run(offset, first, last)

    def _add_run(self, offset: int, first: int, last: int) -> None:
        if first == ROLLBACK:
            self._is_run_open = False
        elif self._is_run_open and first == self._runs[-1][2] + 1:
            self._runs[-1] = (*self._runs[-1][:2], last)
        else:
            self._runs.append((offset, first, last))
            self._is_run_open = True

    def stats_rows(self, env: str, file_no: int) -> Iterator[tuple[Any, ...]]:
        """Yield rows of the table entry_stats."""
        for no, counts in sorted(self._stats.items()):
            total = dict(zip(_COUNTED, counts, strict=True))
            yield (
                *(env, file_no, type_name(no), no, total[COUNT], total[PROVISIONAL]),
                *(total[TOTAL], total[MIN], total[MAX]),
            )

    def run_rows(self, env: str, file_no: int) -> Iterator[tuple[Any, ...]]:
        """Yield rows of the table vlsn_ranges."""
        for offset, first, last in self._runs:
            yield env, file_no, signed(lsn_of(file_no, offset)), first, last, last - first + 1


_COUNTED = (COUNT, TOTAL, MIN, MAX, PROVISIONAL)


def _added(known: list[int], new: list[int]) -> list[int]:
    how = {MIN: min, MAX: max}
    return [
        how.get(column, operator.add)(a, b)
        for column, a, b in zip(_COUNTED, known, new, strict=True)
    ]
