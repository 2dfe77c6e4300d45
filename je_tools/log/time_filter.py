"""Time filter: entries that were written in a span of time, though most entries hold no time.

An entry's time is its own, else that of its transaction's end, which comes later, else the last
time before it in the log. A first pass over the log notes whether times lie inside the bounds, and
keeps only the places where that changes. These are few, however long the log is, since times and
transaction ids ascend together.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field
from msgspec.structs import replace

from je_tools.errors import UsageError
from je_tools.formats.je.types import ENTRY_TYPES, Family, mask_of
from je_tools.log.entry_table import NO_TIME, EntryTable, build_table

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.je.log.entry_rows import Rows

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)
_SINCE_1970 = re.compile(r"([0-9]{1,20})(s|ms)|([0-9]{9,20})")
"""A number with its unit, or one without that is longer than a date such as 20261120."""

_EARLIEST, _LATEST = ((datetime(year, 1, 1, tzinfo=UTC) - _EPOCH) // _MS for year in (2000, 2500))
"""Range in which a number without a unit is taken as ms; no other number is meant as ms."""

_LAST = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MS

Sides = npt.NDArray[np.int8]

UNKNOWN, OUTSIDE, INSIDE = 0, 1, 2
"""Side of the bounds on which a time lies."""

TIME_COLUMNS = frozenset({"db_id", "txn_id", "time_ms", "modified_ms", "created_ms"})
"""Fields that must be decoded for the time filter."""

_IS_END = mask_of(each.no for each in ENTRY_TYPES.values() if each.family is Family.TXN_END)
_NONE = np.empty(0, np.int64)


def parse_time(text: str) -> int:
    """Parse a time as ms since 1970 (UTC): ISO 8601, or a number as `1795168800s` or `…ms`.

    A number without a unit is in ms.

    Raises:
        UsageError: neither of these, or a number without a unit that is implausible in ms.
    """
    number = _SINCE_1970.fullmatch(text)
    if number is not None:
        return _since_1970(text, number)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"{text}: a time is written 2026-11-20 or 2026-11-20T10:00:00.000, in UTC, or as "
            "seconds or ms since 1970: 1795168800s, 1795168800000ms"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // _MS


def _since_1970(text: str, found: re.Match[str]) -> int:
    unit = found[2]
    time_ms = int(found[1] or text) * (1000 if unit == "s" else 1)
    if time_ms > _LAST:
        raise UsageError(f"{text}: after the year 9999; a number is s or ms since 1970")
    if not (unit or _EARLIEST <= time_ms < _LATEST):
        raise UsageError(
            f"{text}: as ms since 1970 this is {_EPOCH + time_ms * _MS:%Y-%m-%d}; "
            f"write {text}s for seconds, or {text}ms if it is meant"
        )
    return time_ms


class Window(Struct, frozen=True):
    """A span of time: inclusive bounds in ms since 1970, None for no bound."""

    since_ms: int | None
    until_ms: int | None

    def sides(self, times: Ints) -> Sides:
        """Return INSIDE or OUTSIDE, or UNKNOWN for no time."""
        inside = times != NO_TIME
        if self.since_ms is not None:
            inside &= times >= self.since_ms
        if self.until_ms is not None:
            inside &= times <= self.until_ms
        return np.where(times == NO_TIME, UNKNOWN, np.where(inside, INSIDE, OUTSIDE)).astype(
            np.int8
        )


class Steps(Struct, frozen=True):
    """A step function: a number has the side of the last of `starts` (int64, ascending) up to it.

    `last` is the largest number that was added.
    """

    starts: Ints = field(default_factory=_NONE.copy)
    sides: Sides = field(default_factory=lambda: np.empty(0, np.int8))
    last: int = -1

    def of(self, numbers: Ints) -> Sides:
        """Return the sides of some numbers; UNKNOWN before the first start."""
        at = np.searchsorted(self.starts, numbers, side="right") - 1
        return np.append(self.sides, np.int8(UNKNOWN))[at]

    def with_points(self, numbers: Ints, sides: Sides) -> Steps:
        """Return a copy with the given sides for some numbers: unique, ascending, not negative.

        Numbers in between that were never added get any side, which is never read.
        """
        if not len(numbers):
            return self
        is_new = numbers > self.last
        differs = ~is_new & (self.of(numbers) != sides)
        late = numbers[differs]
        following = np.setdiff1d(late + 1, late)
        new, new_sides = numbers[is_new], sides[is_new]
        first = np.append(True, new_sides[1:] != new_sides[:-1])[: len(new)]
        starts = np.concatenate((late, new[first], following, self.starts))
        every = np.concatenate((sides[differs], new_sides[first], self.of(following), self.sides))
        # Of equal starts the first counts.
        unique, where = np.unique(starts, return_index=True)
        return Steps(unique, every[where], max(self.last, int(numbers[-1])))


class TimeMarks(Struct, frozen=True):
    """Times in the entries of one range; see `collect_times`.

    Attributes:
        ended, ended_sides: transactions that ended, int64 ascending, and the side of their end.
        open: int64, ascending; transactions with entries without a time after their last end.
        lsns, sides: int64, in log order; LSNs at which the side of the last time changes.
    """

    ended: Ints
    ended_sides: Sides
    open: Ints
    lsns: Ints
    sides: Sides


def collect_times(rows: Rows, window: Window) -> TimeMarks:
    """Return the times of a range, for `time_index`; keeps no view of the bytes."""
    table = build_table(rows, wanted=TIME_COLUMNS)
    lacks = table.time_ms == NO_TIME
    # The time of a damaged entry would move all entries after it.
    timed = np.flatnonzero(~lacks & rows.good)
    sides = window.sides(table.time_ms[timed])
    is_end = _IS_END[rows.type[timed]]
    ended, last_end = _last_of_each(table.txn_id, timed[is_end])
    waiting, last_waiting = _last_of_each(table.txn_id, np.flatnonzero(lacks & table.has_txn))
    at = np.searchsorted(ended, waiting)
    ends_later = np.append(ended, 0)[at] == waiting
    ends_later &= np.append(last_end, -1)[at] > last_waiting
    changes = np.append(True, sides[1:] != sides[:-1])[: len(timed)]
    return TimeMarks(
        ended,
        window.sides(table.time_ms[last_end]),
        waiting[~ends_later],
        rows.lsn[timed[changes]],
        sides[changes],
    )


def _last_of_each(ids: Ints, rows: Ints) -> tuple[Ints, Ints]:
    """Return the ids at some ascending rows, sorted, and the last row of each."""
    unique, first = np.unique(ids[rows][::-1], return_index=True)
    return unique, rows[::-1][first]


class TimeIndex(Struct, frozen=True):
    """Sides of the bounds for entries without a time of their own.

    Attributes:
        window: the bounds.
        local, replicated: by transaction id; ids of replicated ones, which count down, are negated.
        open: int64, ascending; transactions whose end is not in the log.
        marks: by LSN; the side of the last time.
    """

    window: Window
    local: Steps
    replicated: Steps
    open: Ints
    marks: Steps

    def is_inside(self, table: EntryTable) -> Mask:
        """Return a mask of the entries written in the window; none before the first time."""
        sides = self.window.sides(table.time_ms)
        ids = table.txn_id
        ended = np.where(ids < 0, self.replicated.of(-ids), self.local.of(ids))
        use = (sides == UNKNOWN) & table.has_txn & ~np.isin(ids, self.open)
        sides[use] = ended[use]
        use = sides == UNKNOWN
        sides[use] = self.marks.of(table.rows.lsn)[use]
        inside: Mask = sides == INSIDE
        return inside

    def after(self, before: TimeIndex) -> TimeIndex:
        """Return the index, continued from the last time in an earlier one."""
        starts = np.concatenate((before.marks.starts[-1:], self.marks.starts))
        sides = np.concatenate((before.marks.sides[-1:], self.marks.sides))
        return replace(self, marks=Steps(starts, sides))


def time_index(marks: Iterable[TimeMarks], window: Window) -> TimeIndex:
    """Combine the times of all ranges, in log order; a transaction's last end counts."""
    local, replicated, still_open = Steps(), Steps(), _NONE
    lsns, sides = [_NONE], [np.empty(0, np.int8)]
    for one in marks:
        is_local = one.ended >= 0
        local = local.with_points(one.ended[is_local], one.ended_sides[is_local])
        down = -one.ended[~is_local][::-1]
        replicated = replicated.with_points(down, one.ended_sides[~is_local][::-1])
        still_open = np.union1d(np.setdiff1d(still_open, one.ended), one.open)
        lsns.append(one.lsns)
        sides.append(one.sides)
    starts = np.concatenate(lsns)
    by_lsn = np.argsort(starts, kind="stable")
    places = Steps(starts[by_lsn], np.concatenate(sides)[by_lsn])
    return TimeIndex(window, local, replicated, still_open, places)
