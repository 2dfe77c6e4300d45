"""Rollback periods, sorted so that one search finds the LSNs that lie in any of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints, Mask


class Periods(Struct, frozen=True):
    """Periods of a log, each with an owner, sorted by owner and start.

    Attributes:
        owners: int64, distinct owners, ascending.
        starts: int64, distinct starts of all periods, ascending.
        place: int64 (periods,), ascending; `owner index * (len(starts) + 1) + start index`.
        until: int64 (periods,); latest end of this and all earlier periods of the owner.
    """

    owners: Ints
    starts: Ints
    place: Ints
    until: Ints

    @classmethod
    def of(cls, periods: Iterable[tuple[int, int, int]]) -> Periods:
        """Build periods from tuples of owner, start and end, both exclusive LSNs."""
        rows = np.array([*periods], np.int64).reshape(-1, 3)
        owners, owner = np.unique(rows[:, 0], return_inverse=True)
        starts, start = np.unique(rows[:, 1], return_inverse=True)
        ends, end = np.unique(rows[:, 2], return_inverse=True)
        place = owner * (len(starts) + 1) + start
        order = np.argsort(place, kind="stable")
        # Ends rank by owner first, so that the running maximum never carries over to the next one.
        latest = np.maximum.accumulate((owner * len(ends) + end)[order])
        return cls(owners, starts, place[order], ends[latest % max(len(ends), 1)])

    def contain(self, owners: Ints, lsns: Ints) -> Mask:
        """Return a mask of the LSNs that lie in a period of their owner."""
        held = np.zeros(len(lsns), np.bool_)
        if not len(self.place):
            return held
        near = (lsns > self.starts[0]) & (lsns < self.until.max())
        rows = np.flatnonzero(near)
        rows = rows[np.isin(owners[rows], self.owners)]
        width = len(self.starts) + 1
        owner = np.searchsorted(self.owners, owners[rows])
        place = owner * width + np.searchsorted(self.starts, lsns[rows])
        before = np.searchsorted(self.place, place) - 1
        own = (before >= 0) & (self.place[before] // width == owner)
        held[rows] = own & (self.until[before] > lsns[rows])
        return held
