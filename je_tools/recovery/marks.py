"""Marks: the entries by which recovery finds its checkpoint and its roots.

Source: je-log.md "Where a log ends, and what damage costs".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from je_tools.formats.je.types import (
    BY_NAME,
    CKPT_END_NO,
    CKPT_START_NO,
    COMMIT_NO,
    ENTRY_TYPES,
    RESTORE_REQUIRED_NO,
    mask_of,
)

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints
    from je_tools.formats.je.log.entry_rows import Rows

DB_TREE_NO, IMMUTABLE_NO = BY_NAME["DbTree"].no, BY_NAME["ImmutableFile"].no

MARK_TYPES = mask_of((DB_TREE_NO, CKPT_START_NO, CKPT_END_NO, IMMUTABLE_NO, RESTORE_REQUIRED_NO))
"""Types of the entries that are marks."""

_KNOWN = mask_of(ENTRY_TYPES)

NO_END = 1 << 62
"""Offset after any other: the log does not end here."""


class RecoveryMark(Struct, frozen=True):
    """A CkptStart, CkptEnd, DbTree, ImmutableFile or RestoreRequired, with its decoded fields."""

    lsn: int
    type_no: int
    fields: Mapping[str, Any]

    def numbers(self) -> RecoveryMark:
        """Return the mark with only the fields that are numbers, so without keys of records."""
        kept = {name: value for name, value in self.fields.items() if isinstance(value, int)}
        return RecoveryMark(self.lsn, self.type_no, kept)


class MarkedRows(Struct, frozen=True):
    """Entries that matter for the end of the log, from some rows of a file.

    Attributes:
        marks: marks in log order.
        commits: int64 LSNs of good Commits.
        stop: offset of the first entry that ends the log; NO_END for none.
        last: offsets of the last entry before `stop` and of the byte after it; empty for none.
    """

    marks: list[RecoveryMark]
    commits: Ints
    stop: int
    last: tuple[int, ...]


def collect_marks(rows: Rows, limit: int = NO_END, *, past_damage: bool = False) -> MarkedRows:
    """Collect from some rows the entries that matter for the end of the log.

    Safe in any thread; the result holds no view of the bytes.

    Args:
        rows: rows of one file, in log order.
        limit: largest offset at which an entry of the log may begin.
        past_damage: also collect marks after damage, as the engine does in files before the last.
    """
    offsets = rows.offset.astype(np.int64)
    ends = ~rows.good | ~_KNOWN[rows.type] | (offsets > limit)
    at = int(np.argmax(ends)) if ends.any() else len(rows)
    stop = int(offsets[at]) if at < len(rows) else NO_END
    counting = rows.good if past_damage else np.arange(len(rows)) < at
    marked = np.flatnonzero(MARK_TYPES[rows.type] & counting).tolist()
    marks = [RecoveryMark(int(rows.lsn[i]), int(rows.type[i]), rows.fields(i)) for i in marked]
    commits = rows.lsn[(rows.type == COMMIT_NO) & rows.good]
    last = (int(offsets[at - 1]), int(offsets[at - 1]) + rows.size_of(at - 1)) if at else ()
    return MarkedRows(marks, commits, stop, last)


class MarkCollector(Struct, frozen=True):
    """Function that the scan applies to each range: `collect_marks` with its options."""

    limit: int
    past_damage: bool

    def __call__(self, rows: Rows) -> MarkedRows:
        """Return the marks of some rows."""
        return collect_marks(rows, self.limit, past_damage=self.past_damage)
