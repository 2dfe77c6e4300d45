"""Erased entries whose bytes are not zero: an eraser was stopped before it overwrote them.

Source: je-log.md "Data eraser"; ErasedLogEntry, JE 18.3.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from je_tools.formats.je.log.walk import erased_no

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints
    from je_tools.formats.je.log.entry_rows import Rows


def unfinished_rows(rows: Rows) -> Ints:
    """Return the rows, int64, of erased entries with a byte after the header that is not zero."""
    index = np.flatnonzero((rows.type == erased_no(rows.version)) & (rows.item_size > 0))
    if not len(index):
        return index
    starts = rows.offset[index].astype(np.int64) - rows.base + rows.header_size[index]
    borders = np.stack((starts, starts + rows.item_size[index]), axis=1).ravel()
    # `reduceat` refuses a segment that begins at the end of the data.
    borders = borders[:-1] if borders[-1] == len(rows.data) else borders
    found: Ints = index[np.maximum.reduceat(rows.data, borders)[::2] != 0]
    return found
