"""Columns encoded as payloads, by the same programs that `columns` reads with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from je_tools.formats import _native
from je_tools.formats.spans import Spans

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints
    from je_tools.formats.files.source import Bytes
    from je_tools.formats.je.entry.programs import Program


class EntryPart(Struct, frozen=True):
    """Fields of entries: those before the slots, those of the slots, or those after them.

    Attributes:
        program: names and encodings of the columns.
        data: the bytes of byte columns.
        values: int64 (columns, rows); numbers, and offsets in `data` of byte strings.
        sizes: int64 (byte columns, rows); lengths, -1 for null.
        counts, firsts: int64 (n,); number of items of each entry, and row of its first item.
    """

    program: Program
    data: Bytes
    values: Ints
    sizes: Ints
    counts: Ints
    firsts: Ints

    @classmethod
    def of(
        cls, program: Program, columns: Mapping[str, Ints | Spans], counts: Ints, firsts: Ints
    ) -> EntryPart:
        """Build a part from columns by name; all byte columns must share one array."""
        values = np.zeros((len(program.names), int(counts.sum())), np.int64)
        sizes = np.full((max(program.sized, default=-1) + 1, values.shape[1]), -1, np.int64)
        data: Bytes = np.frombuffer(b"", np.uint8)
        for place, name in enumerate(program.names):
            column = columns.get(name)
            if isinstance(column, Spans):
                data = column.data
                values[place], sizes[program.sized[place]] = column.starts, column.sizes
            elif column is not None:
                values[place] = column
        return cls(program, data, values, sizes, counts, firsts)


def encode_parts(
    types: npt.NDArray[np.uint8], head: EntryPart, slots: EntryPart, tail: EntryPart
) -> Spans:
    """Return the payloads of entries, one after the other in a new array.

    Args:
        types: uint8 (n,); types of the entries.
        head: one item per entry.
        slots: items after the head.
        tail: one item per entry after the slots; it may have no bytes.
    """
    return Spans(*_native.encode_parts(types, head, slots, tail))
