"""Which records come back, and how sure it is that they should."""

from __future__ import annotations

from enum import IntEnum, StrEnum

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from je_tools.formats.arrays import Ints, Mask
from je_tools.formats.je.identity import newest_of
from je_tools.salvage.content import DELETED, INVISIBLE, NO_TXN, Content


class Mode(StrEnum):
    """What is salvaged."""

    COMMITTED = "committed"
    """Of each record the newest version that is committed, or was written outside transactions."""
    EVERYTHING = "everything"
    """Every version of every record, and apart from them those of unfinished transactions."""


class Confidence(IntEnum):
    """What a record's coming back rests on, the surest first."""

    COMMITTED = 0
    """Its transaction's commit is in the log."""
    NON_TRANSACTIONAL = 1
    """It was written outside of transactions, or moved by the cleaner."""
    SLOT_ONLY = 2
    """A slot of a B-tree node holds it; the entry that wrote it is lost."""
    OLDER = 3
    """A newer version, or a deletion, stood in a place that is lost."""
    END_NOT_FOUND = 4
    """Neither commit nor abort of its transaction is in the log, and either may have been lost."""
    UNCOMMITTED = 5
    """Its transaction was aborted, rolled back, or had not ended when the log did."""

    @property
    def label(self) -> str:
        """Its spelling in every output."""
        return self.name.lower().replace("_", "-")


Grades = npt.NDArray[np.uint8]


_DENSE = 16
"""How many times as wide as many numbers may be, so that a table of them is made."""


class Choice(Struct, frozen=True):
    """What is taken of `Content.lns`; element i of each array is of the i-th.

    Attributes:
        confidence: uint8, a `Confidence`.
        newest: bool; the newest version of its record that counts, be it a deletion.
        taken: bool; comes back as a record.
        apart: bool; comes back with those of unfinished transactions.
    """

    confidence: Grades
    newest: Mask
    taken: Mask
    apart: Mask


def grade(content: Content, lost_from: Ints) -> Grades:
    """How sure each LN is: COMMITTED, NON_TRANSACTIONAL, END_NOT_FOUND or UNCOMMITTED.

    Args:
        content: the log.
        lost_from: int64, sorted; LSNs at which places begin that could not be read, behind which
            an end of a transaction may have stood.
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


def choose(content: Content, grades: Grades, mode: Mode, threads: int) -> Choice:
    """What comes back of the LNs alone, in this mode."""
    lns = content.lns
    counts = grades <= Confidence.NON_TRANSACTIONAL
    newest = newest_of(lns.first, lns.second, counts, threads)
    is_record = (lns.marks & DELETED) == 0
    nothing = np.zeros(len(lns), np.bool_)
    if mode is Mode.EVERYTHING:
        return Choice(grades, newest, counts & is_record, ~counts & is_record)
    return Choice(grades, newest, newest & is_record, nothing)


def _is_in(values: Ints, known: Ints) -> Mask:
    """Which values are in a sorted array; they mostly ascend themselves."""
    if not len(known):
        return np.zeros(len(values), np.bool_)
    least, most = int(known[0]), int(known[-1])
    if most - least < _DENSE * len(known):
        # As ids of transactions are, which follow each other.
        table = np.zeros(most - least + 3, np.bool_)
        table[known - least + 1] = True
        # What is outside comes to one of the two ends, also where the difference wraps around.
        places = values - known[0]
        places += 1
        found: Mask = table[np.clip(places, 0, len(table) - 1, out=places)]
        return found
    found = np.minimum(np.searchsorted(known, values), len(known) - 1)
    is_known: Mask = known[found] == values
    return is_known
