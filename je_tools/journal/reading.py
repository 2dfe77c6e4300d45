"""Reading of journals from a snapshot: ids, op codes and missing ids, in columns.

Memory does not grow with the number of records: of each journal, the counts of its op codes and the
first GAPS_MAX gaps are kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, field

from je_tools.formats.je.header import NULL_LSN
from je_tools.formats.je.log.fetch import fetch
from je_tools.journal.columns import OP_CODES, count_by_op, fits_of, ids_of, ops_of
from je_tools.journal.series import JournalDatabase, epochs_among, journals_among
from je_tools.log.records import NO_VLSN

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.log.records import Records
    from je_tools.recovery.snapshot import Snapshot

GAPS_MAX = 1000
"""Largest number of gaps of one journal that are kept one by one; the others are counted."""

PLACES_MAX = 100
"""Largest number of kept records that do not decode, and of kept ones that are out of order."""

EPOCHS_MAX = 1000
"""Largest number of epochs that are kept, the newest ones."""


class OddRecord(Struct, frozen=True):
    """A record of a journal that is not as a front end writes it.

    Attributes:
        journal_id: its id; None if its key is not one.
        lsn: LSN of its entry; NULL_LSN if unknown.
        what: reason, in words.
        is_disorder: True if only its place is odd.
    """

    journal_id: int | None
    lsn: int
    what: str
    is_disorder: bool = False


class JournalSummary(Struct):
    """A journal as it was read.

    Attributes:
        journal: its database.
        first_id, last_id: its first and last id; None without records.
        record_count: number of records, including those that do not decode.
        data_size: bytes of their values.
        unreadable_count: records whose value could not be read; findings of the snapshot name them.
        undecodable_count: records whose key or value is not that of a journal record.
        below_count: records with ids below the number in the journal's name.
        disordered_count: records with a lower VLSN than the one before.
        gaps: ranges (first, last) of missing ids between those that exist, the first GAPS_MAX, and
            that before the first id; ascending.
        gap_count, missing_count: number of all such ranges, and of the ids in them.
        op_counts: number of records of each op code.
        odd: the first records that do not decode or are out of order.
    """

    journal: JournalDatabase
    first_id: int | None = None
    last_id: int | None = None
    record_count: int = 0
    data_size: int = 0
    unreadable_count: int = 0
    undecodable_count: int = 0
    below_count: int = 0
    disordered_count: int = 0
    gaps: list[tuple[int, int]] = field(default_factory=list)
    gap_count: int = 0
    missing_count: int = 0
    op_counts: dict[int, int] = field(default_factory=dict)
    odd: list[OddRecord] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Name of the database."""
        return self.journal.name

    def odd_count(self, is_disorder: bool) -> int:
        """Return the number of records in `odd` of which only the place is odd, or the others."""
        return sum(each.is_disorder == is_disorder for each in self.odd)

    @property
    def end_id(self) -> int:
        """Last id; without an id from the number in the name on, the id before that number."""
        before = self.journal.named_id - 1
        return before if self.last_id is None else max(self.last_id, before)


class Epoch(Struct, frozen=True):
    """A record of the database of epochs: a node became the leader.

    Attributes:
        epoch: its number; None if the key is not one.
        lsn, vlsn: of its entry; None if unknown.
    """

    epoch: int | None
    lsn: int | None
    vlsn: int | None


class Journals(Struct, frozen=True):
    """The journals of a front end.

    Attributes:
        journals: by series and first id.
        epochs: the newest EPOCHS_MAX, by number.
        epoch_count: number of all epochs.
    """

    journals: list[JournalSummary]
    epochs: list[Epoch]
    epoch_count: int

    @property
    def record_count(self) -> int:
        """Number of records of all journals."""
        return sum(each.record_count for each in self.journals)


def read_journals(snapshot: Snapshot, *, with_values: bool = True) -> Journals:
    """Read all journals and epochs of a snapshot; faults are added to `snapshot.faults`.

    Args:
        snapshot: the log.
        with_values: read values too. Without them, only ids are judged, and there are no op codes.

    Raises:
        StoppedError: a file became shorter, or its device failed.
    """
    databases = list(snapshot.databases.values())
    journals = [_read(snapshot, each, with_values) for each in journals_among(databases)]
    database = epochs_among(databases)
    epochs: list[Epoch] = []
    epoch_count = 0
    if database is not None:
        for records in snapshot.records(database, show_expired=True):
            epoch_count += len(records)
            newest = _epochs(snapshot, records.select(slice(-EPOCHS_MAX, None)))
            epochs = [*epochs, *newest][-EPOCHS_MAX:]
    return Journals(journals, epochs, epoch_count)


def _read(snapshot: Snapshot, journal: JournalDatabase, with_values: bool) -> JournalSummary:
    reader = _JournalReader(JournalSummary(journal))
    batches = snapshot.records(journal.database, with_data=with_values, show_expired=True)
    for records in batches:
        reader.add(records, with_values=with_values)
    return reader.finished()


class _JournalReader:
    """A summary while the batches of its records come in, in key order."""

    def __init__(self, summary: JournalSummary) -> None:
        self.summary = summary
        self._counts = np.zeros(OP_CODES, np.int64)
        self._last_id = summary.journal.named_id - 1
        self._last_vlsn = NO_VLSN

    def add(self, records: Records, *, with_values: bool = True) -> None:
        """Add the next batch."""
        ids, is_id = ids_of(records.key)
        self.summary.record_count += len(records)
        wrong = self._add_values(records) if with_values else np.zeros(len(records), np.bool_)
        self._note_undecodable(records, ids, is_id, wrong)
        if is_id.any():
            self._add_ids(ids[is_id])
            self._note_disorder(records, ids, is_id)

    def finished(self) -> JournalSummary:
        """Return the summary."""
        self.summary.op_counts = dict(sorted(count_by_op(self._counts).items()))
        return self.summary

    def _add_values(self, records: Records) -> Mask:
        """Count values and op codes; return a mask of the values that do not fit their op code."""
        summary = self.summary
        ops, has_op = ops_of(records.data)
        is_read = records.data.sizes >= 0
        summary.data_size += int(records.data.sizes[is_read].sum())
        summary.unreadable_count += int(np.count_nonzero(~is_read))
        self._counts += np.bincount(ops[has_op].view(np.uint16), minlength=OP_CODES)
        return is_read & ~fits_of(records.data, ops, has_op)

    def _add_ids(self, ids: Ints) -> None:
        summary = self.summary
        if summary.first_id is None:
            summary.first_id = int(ids[0])
        summary.last_id = int(ids[-1])
        above = ids[ids >= summary.journal.named_id]
        summary.below_count += len(ids) - len(above)
        if not len(above):
            return
        before = np.concatenate(([self._last_id], above[:-1]))
        # The difference of two ids may need 64 bits.
        steps = above.view(np.uint64) - before.view(np.uint64)
        rows = np.flatnonzero((above > before) & (steps > 1))
        self._last_id = int(above[-1])
        first, last = before[rows] + 1, above[rows] - 1
        summary.gap_count += len(rows)
        summary.missing_count += int((last - first + 1).sum())
        room = max(GAPS_MAX - len(summary.gaps), 0)
        summary.gaps += zip(first[:room].tolist(), last[:room].tolist(), strict=True)

    def _note_undecodable(self, records: Records, ids: Ints, is_id: Mask, wrong: Mask) -> None:
        rows = np.flatnonzero(~is_id | wrong)
        self.summary.undecodable_count += len(rows)
        for row in self._rows_to_note(rows, is_disorder=False):
            size = int(records.data.sizes[row])
            what = f"a value of {size:,} bytes that is not an op code and its payload"
            if not is_id[row]:
                what = f"a key of {int(records.key.sizes[row]):,} bytes"
            known = int(ids[row]) if is_id[row] else None
            self.summary.odd.append(OddRecord(known, int(records.lsn[row]), what))

    def _note_disorder(self, records: Records, ids: Ints, is_id: Mask) -> None:
        """Note records with a lower VLSN than the one before; unknown VLSNs are skipped."""
        known = np.flatnonzero(is_id & (records.vlsn > 0))
        if not len(known):
            return
        vlsns = records.vlsn[known]
        before = np.concatenate(([self._last_vlsn], vlsns[:-1]))
        self._last_vlsn = int(vlsns[-1])
        rows = np.flatnonzero(vlsns < before)
        self.summary.disordered_count += len(rows)
        for row in self._rows_to_note(rows, is_disorder=True):
            what = f"VLSN {int(vlsns[row])}, after a record with VLSN {int(before[row])}"
            at = known[row]
            odd = OddRecord(int(ids[at]), int(records.lsn[at]), what, is_disorder=True)
            self.summary.odd.append(odd)

    def _rows_to_note(self, rows: Ints, is_disorder: bool) -> Iterator[int]:
        kept_count = self.summary.odd_count(is_disorder)
        yield from rows[: max(PLACES_MAX - kept_count, 0)].tolist()


def _epochs(snapshot: Snapshot, records: Records) -> Iterator[Epoch]:
    ids, is_id = ids_of(records.key)
    # Slots that hold a record have no VLSN of it.
    entries = fetch(snapshot.image, records.lsn)
    for row in range(len(records)):
        lsn, vlsn = int(records.lsn[row]), int(entries.vlsn[row])
        yield Epoch(
            epoch=int(ids[row]) if is_id[row] else None,
            lsn=None if lsn == NULL_LSN else lsn,
            vlsn=vlsn if entries.good[row] and vlsn > 0 else None,
        )
