"""Choice of the records that come back, and the confidence in each."""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from je_tools.formats.je.entry.identity import newest_of
from je_tools.salvage.record_versions import DELETED, INVISIBLE, NO_TXN

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.salvage.content import Content


class Mode(StrEnum):
    """Extent of a salvage."""

    COMMITTED = "committed"
    """The newest version of each record that is committed or was written outside transactions."""
    EVERYTHING = "everything"
    """Every such version of every record and, separately, those of unfinished transactions."""


class Confidence(IntEnum):
    """Evidence for a record that comes back, the strongest first."""

    COMMITTED = 0
    """The commit of its transaction is in the log."""
    NON_TRANSACTIONAL = 1
    """It was written outside transactions, or moved by the cleaner."""
    SLOT_ONLY = 2
    """Only a B-tree slot, or an uncommitted successor, holds it; its own entry is lost."""
    OLDER = 3
    """A newer version, or a deletion, was at a place that is lost."""
    END_NOT_FOUND = 4
    """Neither commit nor abort of its transaction is in the log, and either may have been lost."""
    UNCOMMITTED = 5
    """Its transaction was aborted, rolled back, or had not ended at the end of the log."""

    @property
    def label(self) -> str:
        """Return its name in every output."""
        return self.name.lower().replace("_", "-")


Grades = npt.NDArray[np.uint8]


_DENSE = 16
"""Largest ratio of the range of values to their number for which a lookup table is built."""


class RecordChoice(Struct, frozen=True):
    """Selection from `Content.lns`; element i of each array is of the i-th LN.

    Attributes:
        confidence: uint8, a `Confidence`.
        newest: bool; it is the newest version of its record that counts, even if a deletion.
        taken: bool; it comes back as a record.
        apart: bool; it comes back with the records of unfinished transactions.
    """

    confidence: Grades
    newest: Mask
    taken: Mask
    apart: Mask


def grade(content: Content, lost_from: Ints) -> Grades:
    """Grade each LN as COMMITTED, NON_TRANSACTIONAL, END_NOT_FOUND or UNCOMMITTED.

    Args:
        content: the log.
        lost_from: int64, sorted; LSNs at which unreadable places begin, where the end of a
            transaction may have been.
    """
    lns = content.lns
    grades = np.full(len(lns), Confidence.UNCOMMITTED, np.uint8)
    has_txn = lns.txn != NO_TXN
    grades[~has_txn] = Confidence.NON_TRANSACTIONAL
    committed = _is_in(lns.txn, content.committed) & has_txn
    grades[committed] = Confidence.COMMITTED
    open_ = np.flatnonzero(grades == Confidence.UNCOMMITTED)
    if len(lost_from) and len(open_):
        unended = open_[~_is_in(lns.txn[open_], content.aborted)]
        grades[unended[lns.lsn[unended] < lost_from[-1]]] = Confidence.END_NOT_FOUND
    grades[(lns.marks & INVISIBLE) != 0] = Confidence.UNCOMMITTED
    return grades


def choose(content: Content, grades: Grades, mode: Mode, threads: int) -> RecordChoice:
    """Choose the LNs that come back in a mode, without regard to lost entries."""
    lns = content.lns
    counts = grades <= Confidence.NON_TRANSACTIONAL
    newest = newest_of(lns.first, lns.second, counts, threads)
    is_record = (lns.marks & DELETED) == 0
    nothing = np.zeros(len(lns), np.bool_)
    if mode is Mode.EVERYTHING:
        return RecordChoice(grades, newest, counts & is_record, ~counts & is_record)
    return RecordChoice(grades, newest, newest & is_record, nothing)


def _is_in(values: Ints, known: Ints) -> Mask:
    """Return a mask of the values that are in a sorted array; values mostly ascend."""
    if not len(known):
        return np.zeros(len(values), np.bool_)
    least, most = int(known[0]), int(known[-1])
    if most - least < _DENSE * len(known):
        # Transaction ids are nearly consecutive, so the table is small.
        table = np.zeros(most - least + 3, np.bool_)
        table[known - least + 1] = True
        # Values outside the range land on one of the two ends, even if the difference overflows.
        places = values - known[0]
        places += 1
        found: Mask = table[np.clip(places, 0, len(table) - 1, out=places)]
        return found
    found = np.minimum(np.searchsorted(known, values), len(known) - 1)
    is_known: Mask = known[found] == values
    return is_known
