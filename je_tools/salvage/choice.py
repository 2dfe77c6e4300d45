"""Choice of the records that come back, and the confidence in each."""

from __future__ import annotations

from enum import IntEnum, IntFlag, StrEnum
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from je_tools.formats.je.entry.identity import newest_of
from je_tools.salvage.extents import Ordered, ordered
from je_tools.salvage.record_versions import DELETED, INVISIBLE, NO_TXN

if TYPE_CHECKING:
    from je_tools.formats.arrays import Mask
    from je_tools.salvage.content import Content
    from je_tools.salvage.record_versions import RecordVersions


class Mode(StrEnum):
    """Extents of a salvage."""

    COMMITTED = "committed"
    """The newest version of each record that is committed or was written outside transactions."""
    EVERYTHING = "everything"
    """Every such version of every record and, separately, those of unfinished transactions."""


class Confidence(IntEnum):
    """Grades of the evidence for a record that comes back, the strongest first."""

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
        """Name of the grade in every output."""
        return self.name.lower().replace("_", "-")


Grades = npt.NDArray[np.uint8]
"""A `Confidence` for each record."""

GRADES = 8
"""Number of values that the bits of an outcome have for the `Confidence`."""


class LnOutcome(IntFlag):
    """Bits of an outcome: what a salvage decides on an LN."""

    CONFIDENCE = GRADES - 1
    """Mask of its `Confidence`."""
    TAKEN = 8
    """It comes back as a record."""
    APART = 16
    """It is written with the records of unfinished transactions."""
    UNDECIDED = 32
    """It is left out only because the end of its transaction was not found."""


class RecordChoice(Struct, frozen=True):
    """Choice from some LNs; element i of each array is of LN i.

    Attributes:
        confidence: uint8; a `Confidence`.
        newest: bool; the LN is the newest committed version of its record, or deletes it.
        taken: bool; it comes back as a record.
        apart: bool; it is written with the records of unfinished transactions.
    """

    confidence: Grades
    newest: Mask
    taken: Mask
    apart: Mask


def grade(lns: RecordVersions, content: Content, lost_from: Ordered) -> Grades:
    """Grade each LN as COMMITTED, NON_TRANSACTIONAL, END_NOT_FOUND or UNCOMMITTED.

    Args:
        lns: LNs of the log.
        content: contents of the log.
        lost_from: uint64, sorted; LSNs at which unreadable places begin that may have held ends of
            transactions.
    """
    grades = np.full(len(lns), Confidence.UNCOMMITTED, np.uint8)
    has_txn = lns.txn != NO_TXN
    grades[~has_txn] = Confidence.NON_TRANSACTIONAL
    committed = content.committed.contains(lns.txn) & has_txn
    grades[committed] = Confidence.COMMITTED
    open_ = np.flatnonzero(grades == Confidence.UNCOMMITTED)
    if len(lost_from) and len(open_):
        unended = open_[~content.aborted.contains(lns.txn[open_])]
        grades[unended[ordered(lns.lsn[unended]) < lost_from[-1]]] = Confidence.END_NOT_FOUND
    grades[(lns.marks & INVISIBLE) != 0] = Confidence.UNCOMMITTED
    return grades


def choose(lns: RecordVersions, grades: Grades, mode: Mode, threads: int) -> RecordChoice:
    """Choose the LNs that come back if no entry is lost; `resolve` then considers lost ones.

    Args:
        lns: all LNs of some records, in log order.
        grades: their grades.
        mode: extent of the salvage.
        threads: number of threads.
    """
    counts = grades <= Confidence.NON_TRANSACTIONAL
    newest = newest_of(lns.first, lns.second, counts, threads)
    is_record = (lns.marks & DELETED) == 0
    nothing = np.zeros(len(lns), np.bool_)
    if mode is Mode.EVERYTHING:
        return RecordChoice(grades, newest, counts & is_record, ~counts & is_record)
    return RecordChoice(grades, newest, newest & is_record, nothing)
