"""Rows of numbers in memory, before a table of `je_tools.core.spill` moves them to a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from je_tools.core.temporary import Array, NamelessFile
    from je_tools.formats.arrays import Ints


class HeldRows:
    """Rows of a table that are in memory.

    Attributes:
        kinds: types of the columns.
        pieces: the columns of rows that were appended at once.
        count: number of all rows that were appended, in memory or not.
    """

    def __init__(self, kinds: Sequence[npt.DTypeLike], hold: Callable[[int], None]) -> None:
        """Create an empty table that passes the size in bytes of appended rows to `hold`."""
        self.kinds = [np.dtype(kind) for kind in kinds]
        self.pieces: list[Sequence[Array]] = []
        self.count = 0
        self._hold = hold

    def append(self, columns: Sequence[Array]) -> None:
        """Append rows, which may cause the tables of the spill to be written.

        Raises:
            RefusedError: they cannot be written to a file.
        """
        if len(columns[0]):
            self.count += len(columns[0])
            self.pieces.append(columns)
            self._hold(sum(column.nbytes for column in columns))

    def column(self, index: int) -> Array:
        """Return a column of all rows in memory, of which there is one at least."""
        return np.concatenate([piece[index] for piece in self.pieces])

    def write(self, file: NamelessFile, order: Ints | None = None) -> tuple[int, ...]:
        """Move the rows to a file, in another order if one is given; return each column's offset.

        Raises:
            RefusedError: they cannot be written.
        """
        offsets = []
        for index, kind in enumerate(self.kinds):
            column = self.column(index)
            ordered = column if order is None else column[order]
            offsets.append(file.append(ordered.astype(kind, copy=False)))
        self.pieces.clear()
        return tuple(offsets)
