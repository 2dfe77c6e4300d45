"""Records of a database as columns: what an application put there, and what the log knows of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from je_tools.formats.arrays import Ints, Mask
from je_tools.formats.spans import Spans

NO_VLSN = -1
"""A record that carries no VLSN, or of which none is known."""

NO_TIME = 0
"""A time that is not known, or an expiration that does not come."""


PIECE_ROWS = 1 << 13
PIECE_BYTES = 2 << 20
"""Most records that are read or encoded at once, and about how many bytes of keys and data they
have: as much as a processor has at hand."""


class Records(Struct, frozen=True):
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


R = TypeVar("R", bound=Records, covariant=True)


Note = Callable[[Any], None]
"""Takes what was noted while records were read, whatever it is; it must pickle."""


def no_note(_: Any) -> None:
    """Of what nobody wants to know."""


class Coming(Struct, Generic[R], frozen=True):
    """Records that are not read yet.

    Attributes:
        read_by: reads them, in any thread, and calls what it is given with what it notes.
        rows, size: about how many they are, and how many bytes of keys and data they have; None
            where that is not known yet.
    """

    read_by: Callable[[Note], R]
    rows: int | None = None
    size: int | None = None

    def read(self, note: Note = no_note) -> R:
        """Read them."""
        return self.read_by(note)


Batch = Records | Coming[Records]
"""Records, or such as whoever encodes them reads."""


def cuts(
    sizes: npt.NDArray[Any], rows_max: int = PIECE_ROWS, bytes_max: int = PIECE_BYTES
) -> Iterator[slice]:
    """Rows in runs of bounded size; a row that is larger than that is one by itself.

    Args:
        sizes: int64 or int32 (n,); bytes of each row.
        rows_max, bytes_max: of a run.
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
    """A batch of none."""
    nothing = Spans(np.empty(0, np.uint8), np.empty(0, np.int64), np.empty(0, np.int64))
    none = np.empty(0, np.int64)
    return Records(nothing, nothing, none, none, none, none, none, np.empty(0, np.bool_))
