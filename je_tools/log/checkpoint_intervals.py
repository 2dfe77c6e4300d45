"""Checkpoint intervals: the log between two checkpoints, and how much recovery would replay.

`collect_checkpoints` is work for a scan, `intervals` combines its parts. The numbers are those
that the engine's own tool prints.

Source: StatsFileReader.summarizeCheckpointInfo and CheckpointCounter,
DbLsn.getWithCleaningDistance, JE 18.3.12 and 25.3.17.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from je_tools.core.properties import FILE_MAX, Settings, read_settings
from je_tools.formats.je.log.walk import NO_OFFSET
from je_tools.formats.je.types import BY_NAME, CKPT_END_NO, CKPT_START_NO, ENTRY_TYPES, mask_of

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints
    from je_tools.formats.je.log.entry_rows import Rows
    from je_tools.log.environment import Environment

LN_TXN, LN, MAP_LN_TXN, MAP_LN = range(4)
"""Indexes in `Counts`: user records in and outside transactions, MapLNs likewise."""

Counts = tuple[int, int, int, int]

_LARGEST_FILE_SINCE = 18
"""First log version whose engines use the size of the largest file, not the configured one."""

_NONE: Counts = (0, 0, 0, 0)
_OTHERS = 4
_COUNTED = np.full(256, _OTHERS, np.uint8)
for _entry_type in ENTRY_TYPES.values():
    if _entry_type.user_ln:
        _COUNTED[_entry_type.no] = LN_TXN if _entry_type.transactional else LN
_COUNTED[BY_NAME["MapLN_TX"].no], _COUNTED[BY_NAME["MapLN"].no] = MAP_LN_TXN, MAP_LN
MARK_TYPES = mask_of((CKPT_START_NO, CKPT_END_NO))
"""Types of the entries that `collect_checkpoints` needs as rows."""


class Mark(Struct, frozen=True):
    """A CkptStart or CkptEnd.

    Attributes:
        lsn: LSN of the entry.
        is_end: True for a CkptEnd.
        before: entries counted since the previous mark, or since the range began.
        time_ms, invoker: as logged; None if the entry does not decode.
    """

    lsn: int
    is_end: bool
    before: Counts
    time_ms: int | None
    invoker: str | None


class CheckpointPart(Struct, frozen=True):
    """Checkpoint marks of some rows.

    Attributes:
        marks: in log order.
        after: entries counted after the last mark.
        last_lsn: LSN of the last undamaged row; None if all are damaged.
    """

    marks: tuple[Mark, ...]
    after: Counts
    last_lsn: int | None


class Interval(Struct):
    """The log from the end of one checkpoint (or its own start) to the end of the next.

    Attributes:
        ln_txn, ln, map_ln_txn, map_ln: number of entries in it.
        size: bytes of the files from the previous CkptEnd, or the start of the log, to `end_lsn`.
        end_to_end, end_to_start, start_to_end: distances in bytes as the engine estimates them:
            each file in between counts with the largest size of a file, and the first interval
            starts at LSN 0x0/0x0.
        max_ln_replay: number of user records that recovery would replay if the log ended with it.
        end_lsn: LSN of CkptEnd, or of the last entry if the log ends before one.
        complete: True if it ends with a CkptEnd.
        start_lsn, start_ms: of the last CkptStart in it; None without one.
        end_ms: time of CkptEnd; None without one.
        invoker: cause of the checkpoint, as logged.
    """

    ln_txn: int
    ln: int
    map_ln_txn: int
    map_ln: int
    size: int
    end_to_end: int
    end_to_start: int
    start_to_end: int
    max_ln_replay: int
    end_lsn: int
    complete: bool
    start_lsn: int | None
    start_ms: int | None
    end_ms: int | None
    invoker: str | None

    @property
    def duration_ms(self) -> int | None:
        """Milliseconds from CkptStart to CkptEnd; None if either time is unknown."""
        if self.start_ms is None or self.end_ms is None:
            return None
        return self.end_ms - self.start_ms


def collect_checkpoints(rows: Rows) -> CheckpointPart:
    """Return the checkpoint marks of these rows; damaged entries do not count.

    Runs in any thread and keeps no view of the bytes.
    """
    survey = rows.survey
    last_lsn = None if survey.last == NO_OFFSET else rows.lsn_at(survey.last)
    if not len(rows):
        # Entries that are only surveyed are good, and no marks.
        return CheckpointPart((), _count(_COUNTED, survey.counts), last_lsn)
    good = rows.good
    kinds = np.where(good, _COUNTED[rows.type], np.uint8(_OTHERS))
    marks = []
    start = 0
    for row in np.flatnonzero(MARK_TYPES[rows.type] & good).tolist():
        fields = rows.fields(row)
        is_end = bool(rows.type[row] == CKPT_END_NO)
        before = _count(kinds[start:row])
        lsn = int(rows.lsn[row])
        marks.append(Mark(lsn, is_end, before, fields.get("time_ms"), fields.get("invoker")))
        start = row
    return CheckpointPart(tuple(marks), _count(kinds[start:]), last_lsn)


def _count(kinds: npt.NDArray[np.uint8], weights: Ints | None = None) -> Counts:
    # Sums of a range are far below 2 ** 53, so float64 is exact.
    counts = np.bincount(kinds, weights, minlength=5).astype(np.int64)
    ln_txn, ln, map_ln_txn, map_ln = counts[:_OTHERS].tolist()
    return ln_txn, ln, map_ln_txn, map_ln


class _Counter(Struct):
    """State of the interval being read."""

    before_start: Counts = _NONE
    after_start: Counts = _NONE
    start: Mark | None = None
    end: Mark | None = None

    def add(self, counts: Counts) -> None:
        if self.start is None:
            self.before_start = _sum(self.before_start, counts)
        else:
            self.after_start = _sum(self.after_start, counts)


def _sum(a: Counts, b: Counts) -> Counts:
    return a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3]


class _Distances(Struct, frozen=True):
    """Distances between LSNs as the engine estimates them, and real positions.

    Attributes:
        file_nos: numbers of the files, ascending.
        file_size: size that the engine assumes for each file in between.
        starts: total bytes of the files before each file.
    """

    file_nos: Sequence[int] = field(default_factory=list)
    file_size: int = 0
    starts: Mapping[int, int] = field(default_factory=dict)

    def position(self, lsn: int) -> int:
        """Return the bytes of the log before an LSN; 0 if its file is absent."""
        start = self.starts.get(lsn >> 32)
        return 0 if start is None else start + (lsn & 0xFFFFFFFF)

    def between(self, later: int, earlier: int) -> int:
        """Return the distance between two LSNs as the engine estimates it."""
        file, other = later >> 32, earlier >> 32
        offset, other_offset = later & 0xFFFFFFFF, earlier & 0xFFFFFFFF
        if file == other:
            return abs(offset - other_offset)
        i, j = self._index(file), self._index(other)
        if i > j:
            return (i - j) * self.file_size + offset - other_offset
        return (j - i) * self.file_size + other_offset - offset

    def _index(self, file_no: int) -> int:
        """Return the index of a file; for an absent one, -1 minus its insertion point."""
        at = bisect_left(self.file_nos, file_no)
        is_present = at < len(self.file_nos) and self.file_nos[at] == file_no
        return at if is_present else -1 - at


def intervals(parts: Iterable[CheckpointPart], environment: Environment) -> list[Interval]:
    """Return the intervals of a log, the last one up to its end; none if it has no entries.

    Args:
        parts: results of `collect_checkpoints` for each range, in log order.
        environment: the log, for the number and size of its files.
    """
    counters, last_lsn = _counters(parts)
    if last_lsn is None:
        return []
    sizes = [file.size for file in environment.files]
    numbers = [file.file_no for file in environment.files]
    distances = _Distances(
        sorted(set(numbers)),
        _file_size(environment),
        dict(zip(numbers, accumulate(sizes, initial=0), strict=False)),
    )
    found = []
    replayed = _NONE
    previous_end = 0
    for counter in counters:
        found.append(_interval(counter, replayed, previous_end, last_lsn, distances))
        replayed, previous_end = counter.after_start, found[-1].end_lsn
    return found


def _file_size(environment: Environment) -> int:
    """Return the size that the log's engine assumes for a file between two LSNs."""
    if environment.files[-1].version >= _LARGEST_FILE_SINCE:
        return max(file.size for file in environment.files)
    settings = read_settings(environment.home) if environment.is_directory else Settings()
    return settings.number(FILE_MAX)


def _counters(parts: Iterable[CheckpointPart]) -> tuple[list[_Counter], int | None]:
    counters = [_Counter()]
    last_lsn = None
    for part in parts:
        for mark in part.marks:
            current = counters[-1]
            current.add(mark.before)
            if mark.is_end:
                current.end = mark
                counters.append(_Counter())
            else:
                current.start = mark
        counters[-1].add(part.after)
        last_lsn = last_lsn if part.last_lsn is None else part.last_lsn
    return counters, last_lsn


def _interval(
    counter: _Counter, replayed: Counts, previous_end: int, last_lsn: int, distances: _Distances
) -> Interval:
    """Return one interval; `replayed` counts the entries after CkptStart in the one before."""
    total = _sum(counter.before_start, counter.after_start)
    start, end = counter.start, counter.end
    end_lsn = end.lsn if end else last_lsn
    both = start is not None and end is not None
    mark = end or start
    return Interval(
        *total,
        size=distances.position(end_lsn) - distances.position(previous_end),
        end_to_end=distances.between(end_lsn, previous_end),
        end_to_start=distances.between(start.lsn if start else last_lsn, previous_end),
        start_to_end=distances.between(end_lsn, start.lsn) if start and both else 0,
        max_ln_replay=total[LN_TXN] + total[LN] + replayed[LN_TXN] + replayed[LN],
        end_lsn=end_lsn,
        complete=end is not None,
        start_lsn=start.lsn if start else None,
        start_ms=start.time_ms if start else None,
        end_ms=end.time_ms if end else None,
        invoker=mark.invoker if mark else None,
    )
