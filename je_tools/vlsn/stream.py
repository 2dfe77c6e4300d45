"""The replication stream: the visible entries of a log that have a VLSN."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints
    from je_tools.formats.je.log.entry_rows import Rows


class ReplicationStream(Struct, frozen=True):
    """Entries of the replication stream that are not marked invisible, in log order.

    Attributes:
        lsn, vlsn: int64.
        type: uint8.
    """

    lsn: Ints
    vlsn: Ints
    type: npt.NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.lsn)

    @classmethod
    def of(cls, entries: Iterable[tuple[int, int, int]]) -> ReplicationStream:
        """Build a stream from the LSN, VLSN and type of each entry."""
        columns = np.array(list(entries), np.int64).reshape(-1, 3).T
        return cls(columns[0], columns[1], columns[2].astype(np.uint8))

    @classmethod
    def of_rows(cls, rows: Rows, first_lsn: int, next_lsn: int) -> ReplicationStream:
        """Select the good and visible entries in [first_lsn, next_lsn) that have a VLSN."""
        lsn = rows.lsn
        shown = rows.replicated & ~rows.invisible & rows.good
        shown &= (lsn >= first_lsn) & (lsn < next_lsn)
        return cls(lsn[shown], rows.vlsn[shown], rows.type[shown])

    @classmethod
    def joined(cls, parts: Sequence[ReplicationStream]) -> ReplicationStream:
        """Concatenate parts of a stream."""
        parts = [cls.of(()), *parts]
        names = ("lsn", "vlsn", "type")
        return cls(*(np.concatenate([getattr(each, name) for each in parts]) for name in names))

    def select(self, keep: npt.NDArray[Any]) -> ReplicationStream:
        """Return the rows of a mask or of an index array, in its order."""
        return ReplicationStream(self.lsn[keep], self.vlsn[keep], self.type[keep])
