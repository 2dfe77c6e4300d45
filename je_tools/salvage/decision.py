"""Decisions of a salvage: which LNs and which lost records come back, and their numbers.

Records are decided partition by partition, all versions of a record at once. The results are kept
by database: 13 bytes for each LN that comes back, or that is reported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from je_tools.core.spill import GroupedRuns
from je_tools.formats.arrays import rows_by
from je_tools.salvage.choice import GRADES, Confidence, LnOutcome, choose, grade
from je_tools.salvage.dangling_rows import DANGLING_KINDS
from je_tools.salvage.extents import ordered
from je_tools.salvage.gaps import GapCounter
from je_tools.salvage.record_versions import DELETED, RecordVersions
from je_tools.salvage.resolving import resolve

if TYPE_CHECKING:
    from je_tools.core.spill import Spill
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.salvage.choice import Grades, Mode, RecordChoice
    from je_tools.salvage.content import Content
    from je_tools.salvage.extents import Ordered
    from je_tools.salvage.gaps import LogGap
    from je_tools.salvage.lost import Dangling
    from je_tools.salvage.resolving import DanglingRecords


SAMPLE_SIZE = 1000
"""Largest number of records examined to infer the kind of a database whose descriptor is lost."""

_COUNTED_ROWS = 1 << 18
"""Rows that are counted at once: the intermediate arrays are many times as large."""

CHOSEN_KINDS = (np.uint64, np.int32, np.uint8)
"""Types of the columns of chosen LNs: LSN, size of the entry, outcome."""

LOST_KINDS = (*DANGLING_KINDS, np.bool_, np.bool_)
"""Types of the columns of lost records: those of `DanglingRows`, `comes_back`, `has_older`."""


class LnCounts(Struct, frozen=True):
    """Numbers of LNs; element i of each array is of the database with number i.

    Attributes:
        versions: all LNs.
        records: (n, GRADES); LNs that come back as records, by confidence.
        apart, undecided: LNs with these outcomes.
    """

    versions: Ints
    records: Ints
    apart: Ints
    undecided: Ints


class LostCounts(Struct, frozen=True):
    """Numbers of lost records by database id.

    Attributes:
        held: records that come back nevertheless.
        lost: the others.
        missed: the part of `lost` that is not in an erased place; an eraser overwrites only
            obsolete entries.
    """

    held: Counter[int] = field(default_factory=Counter)
    lost: Counter[int] = field(default_factory=Counter)
    missed: Counter[int] = field(default_factory=Counter)


class Decision(Struct, frozen=True):
    """Everything that a salvage has decided.

    Attributes:
        chosen: LNs with an outcome, by the number of their database, in log order.
        lost: lost records by database id, in the order in which they were found.
        ln_counts, lost_counts: their numbers.
        samples: uint64; LSNs of the first records of each database without a descriptor, by number.
        gaps: gaps with the numbers of what is in them.
    """

    chosen: GroupedRuns
    lost: GroupedRuns
    ln_counts: LnCounts
    lost_counts: LostCounts
    samples: dict[int, Ordered]
    gaps: list[LogGap]


def decide(
    content: Content,
    dangling: Dangling | None,
    gaps: Sequence[LogGap],
    spill: Spill,
    mode: Mode,
    *,
    ends_until: Ordered,
    threads: int,
) -> Decision:
    """Decide which records come back.

    Args:
        content: the log; its LNs are used up.
        dangling: what the log names and does not hold; None if that was not searched.
        gaps: gaps of the log.
        spill: memory budget.
        mode: extent of the salvage.
        ends_until: LSNs of unreadable places that may hold ends of transactions, sorted.
        threads: number of threads.

    Raises:
        RefusedError: a temporary file cannot be written or read.
    """
    deciding = _Deciding(content, spill)
    counter = GapCounter(gaps)
    for partition in range(spill.partition_count):
        lns = RecordVersions(*content.lns.read(partition))
        choice = choose(lns, grade(lns, content, ends_until), mode, threads)
        if dangling is not None:
            counter.add_named(dangling.lsns.read(partition)[0])
            named = dangling.records.read(partition)
            lost, choice = resolve(content, lns, choice, named, mode)
            counter.add_records(lost.rows.lsn, lost.comes_back)
            deciding.add_lost(lost)
        deciding.add_lns(lns, choice)
    return Decision(
        deciding.chosen,
        deciding.lost,
        deciding.ln_counts,
        deciding.lost_counts,
        deciding.samples,
        counter.gaps(),
    )


class _Deciding:
    """Results of the partitions so far."""

    def __init__(self, content: Content, spill: Spill) -> None:
        self.content = content
        self.chosen = GroupedRuns(spill, CHOSEN_KINDS)
        self.lost = GroupedRuns(spill, LOST_KINDS)
        count = len(content.db_ids)
        versions, apart, undecided = np.zeros((3, count), np.int64)
        records = np.zeros((count, GRADES), np.int64)
        self.ln_counts = LnCounts(versions, records, apart, undecided)
        self.lost_counts = LostCounts()
        self.samples: dict[int, Ordered] = {}
        self._is_unknown = np.array([i not in content.kinds for i in content.db_ids], np.bool_)

    def add_lns(self, lns: RecordVersions, choice: RecordChoice) -> None:
        """Keep the chosen LNs of a partition."""
        is_record = (lns.marks & DELETED) == 0
        outcome: Grades = choice.taken * np.uint8(LnOutcome.TAKEN)
        outcome |= choice.apart * np.uint8(LnOutcome.APART)
        undecided = (choice.confidence == Confidence.END_NOT_FOUND) & is_record & (outcome == 0)
        outcome |= undecided * np.uint8(LnOutcome.UNDECIDED)
        outcome |= choice.confidence
        for first in range(0, len(lns), _COUNTED_ROWS):
            some = slice(first, first + _COUNTED_ROWS)
            self._count(lns.db[some], outcome[some])
        self._sample(lns, is_record)
        keep = outcome > LnOutcome.CONFIDENCE
        # Only 16 bits are sorted fast.
        groups = lns.db[keep].astype(np.uint16 if len(self.content.db_ids) <= 1 << 16 else np.int32)
        self.chosen.append(groups, (ordered(lns.lsn)[keep], lns.size[keep], outcome[keep]))

    def _count(self, db: npt.NDArray[np.int32], outcome: Grades) -> None:
        counts, count = self.ln_counts, len(self.content.db_ids)
        counts.versions[:] += np.bincount(db, minlength=count)
        taken = (outcome & LnOutcome.TAKEN) != 0
        graded = db[taken].astype(np.int64) * GRADES + (outcome[taken] & LnOutcome.CONFIDENCE)
        found = np.bincount(graded, minlength=count * GRADES)
        counts.records[:] += found.reshape(counts.records.shape)
        for counted, bit in (
            (counts.apart, LnOutcome.APART),
            (counts.undecided, LnOutcome.UNDECIDED),
        ):
            counted[:] += np.bincount(db[(outcome & bit) != 0], minlength=count)

    def _sample(self, lns: RecordVersions, is_record: Mask) -> None:
        if not self._is_unknown.any():
            return
        rows = np.flatnonzero(self._is_unknown[lns.db] & is_record)
        for number, of_database in rows_by(lns.db[rows]).items():
            known = self.samples.get(number, np.empty(0, np.uint64))
            more = ordered(lns.lsn)[rows[of_database[:SAMPLE_SIZE]]]
            self.samples[number] = np.sort(np.concatenate((known, more)))[:SAMPLE_SIZE]

    def add_lost(self, lost: DanglingRecords) -> None:
        """Keep the lost records of a partition."""
        rows, counts = lost.rows, self.lost_counts
        is_missed = self.content.readable.is_lost(rows.lsn) & ~lost.comes_back
        masks = (lost.comes_back, ~lost.comes_back, is_missed)
        for counted, mask in zip((counts.held, counts.lost, counts.missed), masks, strict=True):
            for db_id, found in rows_by(rows.db_id[mask]).items():
                counted[db_id] += len(found)
        columns = [*rows.columns(), lost.comes_back, lost.has_older]
        self.lost.append(rows.db_id, columns)
