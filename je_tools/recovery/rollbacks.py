"""Which places of a log lie in periods of it, by a sort and a search, however many these are."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from msgspec import Struct

from je_tools.formats.arrays import Ints, Mask


class Periods(Struct, frozen=True):
    """Periods of a log, each of an owner; sorted by owner and where they begin.

    Attributes:
        owners: int64, ascending, each once.
        starts: int64, ascending, each once: where any of them begins.
        place: int64 (periods,), ascending: of the owner and of the start among these two.
        until: int64 (periods,): where this or an earlier one of the owner ends, the last of all.
    """

    owners: Ints
    starts: Ints
    place: Ints
    until: Ints

    @classmethod
    def of(cls, periods: Iterable[tuple[int, int, int]]) -> Periods:
        """Those that are given as owner, and the LSNs around, both exclusive."""
        rows = np.array([*periods], np.int64).reshape(-1, 3)
        owners, owner = np.unique(rows[:, 0], return_inverse=True)
        starts, start = np.unique(rows[:, 1], return_inverse=True)
        ends, end = np.unique(rows[:, 2], return_inverse=True)
        place = owner * (len(starts) + 1) + start
        order = np.argsort(place, kind="stable")
        # Of a later owner all ends count as later, so that none is taken for another's.
        latest = np.maximum.accumulate((owner * len(ends) + end)[order])
        return cls(owners, starts, place[order], ends[latest % max(len(ends), 1)])

    def hold(self, owners: Ints, lsns: Ints) -> Mask:
        """Which LSNs, each of an owner, lie in a period of it."""
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
