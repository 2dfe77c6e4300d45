"""Records of a database as columns: what an application put there, and what the log knows of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from je_tools.formats.arrays import Ints, Mask
from je_tools.formats.spans import Spans

NO_VLSN = -1
"""A record that carries no VLSN, or of which none is known."""

NO_TIME = 0
"""A time that is not known, or an expiration that does not come."""


@dataclass(frozen=True, slots=True)
class Records:
    """Some records of one database, in the order of its keys.

    Attributes:
        key: never null; of a database with duplicates the key alone, without the data.
        data: null where the record's data could not be had; the finding that says why is given
            beside the records.
        lsn: int64; of the LN that wrote the record, NULL_LSN where a slot no longer names one.
        vlsn: int64; NO_VLSN where it has none.
        modified_ms, created_ms: int64; NO_TIME where the log does not have them.
        expires_ms: int64; NO_TIME where the record does not expire.
        tombstone: bool; the application has marked it as one.
    """

    key: Spans
    data: Spans
    lsn: Ints
    vlsn: Ints
    modified_ms: Ints
    created_ms: Ints
    expires_ms: Ints
    tombstone: Mask

    def __len__(self) -> int:
        return len(self.lsn)

    def take(self, keep: npt.NDArray[Any] | slice) -> Records:
        """The records of a mask, of an index array in its order, or of a slice."""
        return Records(
            self.key.take(keep),
            self.data.take(keep),
            self.lsn[keep],
            self.vlsn[keep],
            self.modified_ms[keep],
            self.created_ms[keep],
            self.expires_ms[keep],
            self.tombstone[keep],
        )


def no_records() -> Records:
    """A batch of none."""
    nothing = Spans(np.empty(0, np.uint8), np.empty(0, np.int64), np.empty(0, np.int64))
    none = np.empty(0, np.int64)
    return Records(nothing, nothing, none, none, none, none, none, np.empty(0, np.bool_))
