"""Records of a database in columns: keys, data, LSNs, VLSNs and times."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from je_tools.formats.spans import Spans

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints, Mask

NO_VLSN = -1
"""VLSN of a record that has none, or whose VLSN is not known."""

NO_TIME = 0
"""An unknown time, or the expiration of a record that does not expire."""


def unexpired(expires_ms: Ints, now_ms: int | None) -> Mask:
    """Return a mask of the records that have not expired at a time; all of them for None."""
    if now_ms is None:
        return np.ones(len(expires_ms), np.bool_)
    lives: Mask = (expires_ms == NO_TIME) | (expires_ms >= now_ms)
    return lives


PIECE_ROWS = 1 << 13
PIECE_BYTES = 2 << 20
"""Largest number of records that are read or encoded at once, and of bytes of their keys and data.
They fit the cache of a processor.
"""


class Records(Struct, frozen=True):
    """Some records of one database, in the order of its keys.

    Attributes:
        key: never null; without the data, in a database with duplicates.
        data: null if the record's data could not be read; a finding beside the records says why.
        lsn: int64; LSN of the LN that wrote the record, NULL_LSN if a slot no longer names one.
        vlsn: int64; NO_VLSN if it has none.
        modified_ms, created_ms: int64; NO_TIME if the log does not have them.
        expires_ms: int64; NO_TIME if the record does not expire.
        tombstone: bool; True if the application has marked it as one.
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

    def select(self, keep: npt.NDArray[Any] | slice) -> Records:
        """Return the records of a mask, of an index array in its order, or of a slice."""
        return Records(
            self.key.select(keep),
            self.data.select(keep),
            self.lsn[keep],
            self.vlsn[keep],
            self.modified_ms[keep],
            self.created_ms[keep],
            self.expires_ms[keep],
            self.tombstone[keep],
        )


R = TypeVar("R", bound=Records, covariant=True)


Note = Callable[[Any], None]
"""Callback for the notes made while records are read; a note must pickle."""


def no_note(_: Any) -> None:
    """Ignore a note."""


class UnreadRecords(Struct, Generic[R], frozen=True):
    """Records that are not read yet.

    Attributes:
        read_by: reads them, in any thread, and passes its notes to the callback it is given.
        rows, size: approximate number of records, and bytes of their keys and data; None if not
            known yet.
    """

    read_by: Callable[[Note], R]
    rows: int | None = None
    size: int | None = None

    def read(self, note: Note = no_note) -> R:
        """Read them."""
        return self.read_by(note)


Batch = Records | UnreadRecords[Records]
"""Records, or records that their encoder reads."""


def bounded_slices(
    sizes: npt.NDArray[Any], rows_max: int = PIECE_ROWS, bytes_max: int = PIECE_BYTES
) -> Iterator[slice]:
    """Yield slices of rows of bounded size; a larger row is a slice by itself.

    Args:
        sizes: int64 or int32 (n,); bytes of each row.
        rows_max, bytes_max: limits of a slice.
    """
    ends = np.cumsum(sizes, dtype=np.int64)
    first, count = 0, len(sizes)
    while first < count:
        before = int(ends[first - 1]) if first else 0
        last = int(np.searchsorted(ends, before + bytes_max, side="right"))
        last = min(max(last, first + 1), first + rows_max, count)
        yield slice(first, last)
        first = last


def no_records() -> Records:
    """Return an empty batch."""
    nothing = Spans(np.empty(0, np.uint8), np.empty(0, np.int64), np.empty(0, np.int64))
    none = np.empty(0, np.int64)
    return Records(nothing, nothing, none, none, none, none, none, np.empty(0, np.bool_))
