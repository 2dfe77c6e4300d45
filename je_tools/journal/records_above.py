"""Records of a journal above an id: their number and op codes, and comparisons of the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.btree.key_ranges import KeyRange
from je_tools.core.escaping import counted
from je_tools.formats.je.tuples import long_key
from je_tools.journal.columns import OP_CODES, count_by_op, ids_of, ops_of
from je_tools.journal.op_codes import op_name

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints
    from je_tools.journal.series import JournalDatabase
    from je_tools.recovery.snapshot import Snapshot

_OPS_NAMED = 3
"""Number of op codes that a text names, the most frequent ones."""


def range_above(above_id: int) -> KeyRange:
    """Return the range of all keys above an id, including keys that are not ids."""
    return KeyRange(long_key(above_id + 1))


class RecordsAbove(Struct, frozen=True):
    """Records of a journal above an id.

    Attributes:
        journal: the journal.
        record_count: number of records.
        first_id, last_id: first and last id; None without records.
        data_size: bytes of their values.
        op_counts: number of records of each op code.
    """

    journal: JournalDatabase
    record_count: int
    first_id: int | None
    last_id: int | None
    data_size: int
    op_counts: dict[int, int]

    @classmethod
    def read(cls, snapshot: Snapshot, journal: JournalDatabase, above_id: int) -> RecordsAbove:
        """Read the records above an id; keys that are not ids count as above it."""
        inside = range_above(above_id)
        counts = np.zeros(OP_CODES, np.int64)
        ids: list[Ints] = []
        record_count = size = 0
        batches = snapshot.records(journal.database, show_expired=True, inside=inside)
        for records in batches:
            found, good = ids_of(records.key)
            ids.append(found[good])
            record_count += len(records)
            ops, has_op = ops_of(records.data)
            counts += np.bincount(ops[has_op].view(np.uint16), minlength=len(counts))
            size += int(np.maximum(records.data.sizes, 0).sum())
        known = np.concatenate(ids) if ids else np.empty(0, np.int64)
        return cls(
            journal=journal,
            record_count=record_count,
            first_id=int(known[0]) if len(known) else None,
            last_id=int(known[-1]) if len(known) else None,
            data_size=size,
            op_counts=count_by_op(counts),
        )

    @property
    def text(self) -> str:
        """The records in words."""
        if not self.record_count:
            return "no records"
        ids = f"ids {self.first_id} to {self.last_id}"
        counts = f"{counted(self.record_count, 'record')}, {counted(self.data_size, 'byte')}"
        ordered = sorted(self.op_counts.items(), key=lambda item: -item[1])
        named = [f"{count:,} {op_name(op, None) or op}" for op, count in ordered[:_OPS_NAMED]]
        rest = sum(count for _, count in ordered[_OPS_NAMED:])
        named += [f"{rest:,} others"] if rest else []
        return f"{ids}: {counts} ({', '.join(named)})"


def torn_journal(snapshot: Snapshot, journals: list[JournalDatabase]) -> JournalDatabase | None:
    """Return a journal of which damage hides records, as far as it was read; None for none.

    Records whose values are lost do not count.
    """
    for fault in snapshot.faults.damage:
        is_record = fault.low is not None and fault.low == fault.high
        for each in journals:
            if each.database.db_id == fault.db_id and not is_record:
                return each
    return None


def is_same_up_to(
    before: Snapshot,
    old: JournalDatabase,
    after: Snapshot,
    new: JournalDatabase,
    above_id: int,
) -> bool:
    """Return whether a journal has the same records up to an id, and none above it."""
    inside = KeyRange(high=long_key(above_id + 1))
    sides = []
    for snapshot, journal, part in ((before, old, inside), (after, new, None)):
        batches = snapshot.records(
            journal.database, with_data=False, show_expired=True, inside=part
        )
        columns = [(ids_of(records.key)[0], records.lsn) for records in batches]
        sides.append([np.concatenate(list(each)) for each in zip(*columns, strict=True)])
    return all(np.array_equal(*pair) for pair in zip(*sides, strict=True))
