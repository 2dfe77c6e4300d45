"""The entries of one file that are to be overwritten, as columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from je_tools.erase.options import BATCH_MAX

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints
    from je_tools.formats.je.log.entry_rows import Rows


class EntriesToErase(Struct, frozen=True):
    """Entries of one file to overwrite, in the order of their offsets.

    Attributes:
        offset: int64; offsets of the entries.
        header_size: int64; bytes of their headers, which stay except for the type.
        item_size: int64; bytes after the headers.
        type: uint8; types as stored, ERASED_NO if only the bytes are left to overwrite.
    """

    offset: Ints
    header_size: Ints
    item_size: Ints
    type: npt.NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.offset)

    @property
    def item_offset(self) -> Ints:
        """Offsets of the bytes after the headers, int64."""
        return self.offset + self.header_size

    @property
    def size(self) -> Ints:
        """Bytes of the entries with their headers, int64."""
        return self.header_size + self.item_size

    @classmethod
    def of(cls, rows: Rows) -> EntriesToErase:
        """Return the entries of some rows."""
        return cls(
            rows.offset.astype(np.int64),
            rows.header_size.astype(np.int64),
            rows.item_size.astype(np.int64),
            rows.type.copy(),
        )

    @classmethod
    def joined(cls, parts: Sequence[EntriesToErase]) -> EntriesToErase:
        """Concatenate entries."""
        none = np.empty(0, np.int64)
        return cls(
            np.concatenate([none, *(each.offset for each in parts)]),
            np.concatenate([none, *(each.header_size for each in parts)]),
            np.concatenate([none, *(each.item_size for each in parts)]),
            np.concatenate([none.astype(np.uint8), *(each.type for each in parts)]),
        )

    def batches(self) -> Iterator[EntriesToErase]:
        """Yield at most BATCH_MAX entries at a time."""
        for start in range(0, len(self), BATCH_MAX):
            yield self.part(slice(start, start + BATCH_MAX))

    def part(self, rows: slice) -> EntriesToErase:
        """Return some of the entries."""
        return EntriesToErase(
            self.offset[rows], self.header_size[rows], self.item_size[rows], self.type[rows]
        )
