"""Places of a log that cannot be searched for unfinished erasures.

Headers there cannot be trusted, so an entry may be marked as erased and still have its bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.log.sources import reopened

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints
    from je_tools.formats.je.log.entry_rows import Rows
    from je_tools.log.file_scan import FileState


class UnreadPlaces(Struct, frozen=True):
    """Places of one file that cannot be searched.

    Attributes:
        path: the file.
        count: number of places.
        size: bytes in them; None if the file cannot be read at all.
    """

    path: Path
    count: int
    size: int | None


def bad_spans(rows: Rows) -> Ints:
    """Return the entries with wrong checksums, int64 (n, 2): offset and end."""
    bad = np.flatnonzero(~rows.good)
    start = rows.offset[bad].astype(np.int64)
    size = rows.header_size[bad].astype(np.int64) + rows.item_size[bad]
    return np.stack((start, start + size), axis=1)


def unread_places(state: FileState, spans: Iterable[tuple[int, int]]) -> UnreadPlaces | None:
    """Return the places of a file that cannot be searched; None if it was read whole.

    Args:
        state: the file after it was read.
        spans: half-open ranges of its gaps, and of its entries with wrong checksums.

    Raises:
        StoppedError: the file shrank or vanished meanwhile.
        InputError: it cannot be read any more.
    """
    found = [*spans, *state.unreadable]
    if state.tail < state.size and not _is_blank_after(state):
        found.append((state.tail, state.size))
    count = size = end = 0
    for start, stop in sorted(found):
        if not count or start > end:
            count += 1
        size += max(stop - max(start, end), 0)
        end = max(end, stop)
    return UnreadPlaces(state.file.path, count, size) if count else None


def _is_blank_after(state: FileState) -> bool:
    """Return True if only zeros follow the last entry, as in space that was never written."""
    with reopened(state.file.path, state.size) as source:
        return source.is_blank(state.tail, state.size)
