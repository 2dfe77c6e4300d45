"""Index of the lost keys of a database whose keys are ordered by their bytes."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from je_tools.missing.losses import DatabaseLoss, LostRange


class LossIndex(Struct, frozen=True):
    """Lost keys of a database whose keys are ordered by their bytes.

    Attributes:
        alone: LSNs of lost records whose slots exist, by key.
        ranges: lost ranges, by their lower bounds.
        lows: these bounds, empty for an open one.
    """

    alone: dict[bytes, int]
    ranges: list[LostRange]
    lows: list[bytes]

    @classmethod
    def of(cls, loss: DatabaseLoss) -> LossIndex:
        """Return the index of a loss."""
        keys = (loss.keys[row] or b"" for row in range(len(loss.keys)))
        alone = dict(zip(keys, loss.key_lsns.tolist(), strict=True))
        ranges = sorted(loss.ranges, key=lambda one: one.low or b"")
        return cls(alone, ranges, [one.low or b"" for one in ranges])

    def lsn_of(self, key: bytes) -> int | None:
        """Return the LSN with which a key is lost; None if it is not lost."""
        at = bisect_right(self.lows, key) - 1
        if key in self.alone or at < 0 or not self.ranges[at].contains(key):
            return self.alone.get(key)
        return self.ranges[at].lsn
