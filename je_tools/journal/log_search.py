"""Entries of a log that wrote certain journal ids: missing ones, and those that recovery cuts off.

A deleted record stays in the log until its file is cleaned and removed. If the log ends at damage,
recovery cuts off what follows, and undoes transactions whose Commit is there: so higher ids than
those of the journals may be in the log. One scan of the log finds both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.formats.je.entry.columns import MAX_ROWS
from je_tools.formats.je.types import ENTRY_TYPES, Family, mask_of
from je_tools.formats.spans import Spans
from je_tools.journal.columns import ids_of, ops_of
from je_tools.journal.series import ID_MAX
from je_tools.log import entry_table as entries
from je_tools.recovery.end import EndReason

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.je.log.entry_rows import Rows
    from je_tools.journal.continuity import Hole
    from je_tools.journal.reading import JournalSummary
    from je_tools.recovery.snapshot import Snapshot

_IS_RECORD = mask_of(each.no for each in ENTRY_TYPES.values() if each.family is Family.LN)
_LSN_MAX = (1 << 63) - 1
_KEYS = frozenset({"db_id", "txn_id", "key"})


class LoggedIds(Struct, frozen=True):
    """Entries that wrote records of journals, in log order; element i of each array is the i-th.

    Attributes:
        db_id, journal_id, lsn, op_code: int64; the op code is 0 for a deletion.
        is_deletion: bool.
    """

    db_id: Ints
    journal_id: Ints
    lsn: Ints
    op_code: Ints
    is_deletion: Mask

    def __len__(self) -> int:
        return len(self.lsn)

    def select(self, keep: Ints | Mask) -> LoggedIds:
        """Return the rows of a mask or an index array."""
        return LoggedIds(*(getattr(self, name)[keep] for name in self.__struct_fields__))


class IdSearch(Struct, frozen=True):
    """Function that the scan applies to each range.

    Attributes:
        wanted: ranges of ids, int64 (n, 2), ascending and disjoint, by id of the database.
        next_lsn: LSN after the last entry that counts.
    """

    wanted: Mapping[int, Ints]
    next_lsn: int

    def __call__(self, rows: Rows) -> LoggedIds:
        """Return the entries of a range; runs in any thread."""
        counts = rows.good & ~rows.invisible & (rows.lsn < self.next_lsn)
        chosen = np.flatnonzero(counts & _IS_RECORD[rows.type])
        parts = [
            self._found(rows.select(chosen[first : first + MAX_ROWS]))
            for first in range(0, len(chosen), MAX_ROWS)
        ]
        return joined(parts)

    def _found(self, rows: Rows) -> LoggedIds:
        table = entries.build_table(rows, wanted=_KEYS)
        ids, is_id = ids_of(Spans(rows.data, table.key_start, table.key_size))
        hits = np.zeros(len(rows), np.bool_)
        for db_id, ranges in self.wanted.items():
            own = np.flatnonzero(table.has_db & (table.db_id == db_id) & is_id)
            hits[own] = _inside(ids[own], ranges)
        some = np.flatnonzero(hits)
        rows = rows.select(some)
        table = entries.build_table(rows)
        ops, _ = ops_of(Spans(rows.data, table.data_start, table.data_size))
        return LoggedIds(
            table.db_id, ids[some], rows.lsn, ops.astype(np.int64), table.data_size < 0
        )


def search_log(
    snapshot: Snapshot, journals: Iterable[JournalSummary], holes: Iterable[Hole]
) -> LoggedIds | None:
    """Find entries that wrote missing ids; if the end is damaged, also ids above the last ones.

    The log is only read if there are holes, or its end is damaged.

    Args:
        snapshot: the log.
        journals: all journals.
        holes: missing ids.

    Returns:
        The entries; None if the log was not read.

    Raises:
        StoppedError: a file shrank, vanished or was replaced while it was read.
    """
    is_cut = snapshot.end.reason is EndReason.DAMAGED
    ranges: dict[int, list[tuple[int, int]]] = {}
    for hole in holes:
        db_id = hole.journal.journal.database.db_id
        ranges.setdefault(db_id, []).append((hole.first_id, hole.last_id))
    for journal in journals if is_cut else ():
        last_id = journal.end_id
        if last_id < ID_MAX:
            ranges.setdefault(journal.journal.database.db_id, []).append((last_id + 1, ID_MAX))
    if not ranges:
        return None
    wanted = {db_id: _disjoint(some) for db_id, some in ranges.items()}
    work = IdSearch(wanted, _LSN_MAX if is_cut else snapshot.end.next_lsn)
    found = snapshot.scanner.scan(snapshot.environment, work)
    return joined([each for part in found for each in part.results])


def joined(parts: list[LoggedIds]) -> LoggedIds:
    """Concatenate entries."""
    if not parts:
        none = np.empty(0, np.int64)
        return LoggedIds(none, none, none, none, np.empty(0, np.bool_))
    columns = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in LoggedIds.__struct_fields__
    )
    return LoggedIds(*columns)


def _disjoint(ranges: list[tuple[int, int]]) -> Ints:
    """Return ranges as an array, (n, 2), ascending; a range that begins in another one is cut."""
    found = np.array(sorted(ranges), np.int64).reshape(-1, 2)
    found[:-1, 1] = np.minimum(found[:-1, 1], found[1:, 0] - 1)
    return found


def _inside(ids: Ints, ranges: Ints) -> Mask:
    """Return a mask of the ids that lie in a range."""
    if not len(ranges):
        return np.zeros(len(ids), np.bool_)
    rows = np.searchsorted(ranges[:, 0], ids, side="right") - 1
    inside: Mask = (rows >= 0) & (ids <= ranges[np.maximum(rows, 0), 1])
    return inside
