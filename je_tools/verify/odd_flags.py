"""Entries whose header flags cannot be right for their type, their place, or the environment.

A rollback sets the invisible flag of the entries that it undoes, in place, after it has logged
a RollbackStart. The checksum does not cover this flag. An engine skips an invisible entry when it
reads the log, and fails when a tree leads to one.

Source: RollbackTracker, LogManager.getLogEntryFromLogSource, JE 5.0.73 and 18.3.12.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, field

from je_tools.findings import Severity
from je_tools.formats.je.allowed_flags import allowed_flags
from je_tools.formats.je.flags import DbTreeFlag, HeaderFlag
from je_tools.formats.je.log.entry_rows import lsns_of
from je_tools.formats.je.types import (
    LOG_VERSION_MAX,
    ROLLBACK_END_NO,
    ROLLBACK_START_NO,
    mask_of,
    type_name,
)
from je_tools.log.file_findings import finding

if TYPE_CHECKING:
    from je_tools.findings import Finding
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.je.log.entry_rows import Rows
    from je_tools.log.environment import Environment

LISTED = 100
"""Largest number of entries with odd flags that are reported one by one."""

KEPT = 1000
"""Largest number of invisible entries kept of one range of a file: the first ones, and the last."""

ROLLBACK_TYPES = mask_of((ROLLBACK_START_NO, ROLLBACK_END_NO))
"""Types that `collect_periods` reads."""

_INVISIBLE = HeaderFlag.INVISIBLE.value
_REPLICATED = HeaderFlag.REPLICATED.value

Period = tuple[int, int]
"""A rollback: LSN of its matchpoint, and of its RollbackStart."""


def collect_periods(rows: Rows) -> list[Period]:
    """Return the rollbacks that entries of these rows describe."""
    if not rows.survey.counts[ROLLBACK_TYPES].any():
        return []
    periods = []
    for row in np.flatnonzero(ROLLBACK_TYPES[rows.type] & rows.good).tolist():
        fields = rows.fields(row)
        start = fields.get("rollback_start_lsn", int(rows.lsn[row]))
        if "matchpoint_lsn" in fields:
            periods.append((fields["matchpoint_lsn"], start))
    return periods


class OddFlags(Struct):
    """Collector of entries with odd flags; add the parts of a log in log order.

    Attributes:
        environment: the log.
    """

    environment: Environment
    _wrong: list[tuple[int, int, int]] = field(default_factory=list)
    _wrong_count: int = 0
    _invisible: list[Ints] = field(default_factory=list)
    _periods: list[Period] = field(default_factory=list)
    _is_replicated: bool = False

    def add(
        self, file_no: int, odd: Ints, periods: Sequence[Period], *, is_replicated: bool
    ) -> None:
        """Add a part of a file.

        Args:
            file_no: number of the file.
            odd: int64 (n, 3); offset, type and flags of the entries.
            periods: rollbacks that the part describes.
            is_replicated: True if there are replicated entries in the part.
        """
        self._periods += periods
        self._is_replicated |= is_replicated
        if not len(odd):
            return
        lsns = lsns_of(file_no, odd[:, 0])
        rolled_back = _may_be_rolled_back(odd[:, 1], odd[:, 2])
        wrong = np.flatnonzero(~rolled_back)
        self._wrong_count += len(wrong)
        for row in wrong[: LISTED - len(self._wrong)].tolist():
            self._wrong.append((int(lsns[row]), int(odd[row, 1]), int(odd[row, 2])))
        kept = odd[rolled_back]
        if len(kept):
            kept = np.column_stack((lsns[rolled_back], kept[:, 1:]))
            self._invisible.append(np.concatenate((kept[: KEPT - 1], kept[KEPT - 1 :][-1:])))

    def findings(self, db_tree_flags: int | None, lost_nos: Sequence[int]) -> Iterator[Finding]:
        """Yield the findings, after all parts have been added.

        Args:
            db_tree_flags: flags of the last DbTree; None if it is not known.
            lost_nos: numbers of files that are missing or could not be read. A rollback may have
                been logged there.
        """
        found = [*self._wrong, *self._outside_of_rollbacks(max(lost_nos, default=-1))]
        for lsn, type_no, flags in found[:LISTED]:
            yield self._finding(lsn, type_no, flags)
        more = self._wrong_count - len(self._wrong) + max(len(found) - LISTED, 0)
        if more:
            yield finding(
                self.environment, "impossible-flags", found=f"{more:,} more entries like these"
            )
        if db_tree_flags is None or not self._is_replicated:
            return
        if not db_tree_flags & DbTreeFlag.REPLICATED:
            yield finding(
                self.environment,
                "impossible-flags",
                Severity.WARNING,
                expected="no replicated entries: the environment is not replicated",
                found="entries with the flag replicated",
            )

    def _finding(self, lsn: int, type_no: int, flags: int) -> Finding:
        is_invisible = flags & _INVISIBLE
        why = "of a type that never has them"
        if is_invisible:
            why = "outside of any rollback" if flags & _REPLICATED else "that is not replicated"
        return finding(
            self.environment,
            "impossible-flags",
            Severity.ERROR if is_invisible else Severity.WARNING,
            file_no=lsn >> 32 & 0xFFFFFFFF,
            offset=lsn & 0xFFFFFFFF,
            found=f"flags {flags:#04x} ({_words(flags)}) of {type_name(type_no)}, an entry {why}",
        )

    def _outside_of_rollbacks(self, lost_to: int) -> Iterator[tuple[int, int, int]]:
        """Yield the invisible entries of file `lost_to` and later ones that no rollback covers."""
        if not self._invisible or not self.environment.is_directory:
            return
        entries = np.concatenate(self._invisible)
        covered = entries[:, 0] >> 32 & 0xFFFFFFFF < lost_to
        for matchpoint, start in self._periods:
            covered |= (entries[:, 0] > matchpoint) & (entries[:, 0] < start)
        yield from map(tuple, entries[~covered].tolist())


def _may_be_rolled_back(types: Ints, flags: Ints) -> Mask:
    """Return a mask of the entries whose only odd flag is the invisible one of a rollback."""
    both = _REPLICATED | _INVISIBLE
    is_of_stream = allowed_flags(LOG_VERSION_MAX)[types] & _REPLICATED != 0
    mask: Mask = is_of_stream & (flags & both == both)
    return mask


def _words(flags: int) -> str:
    texts = [text for bit, text in HeaderFlag.texts().items() if flags & bit]
    unknown = flags & 0x07
    return ", ".join([*texts, f"unknown {unknown:#04x}"] if unknown else texts)
