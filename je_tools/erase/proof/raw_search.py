"""Search of the bytes of files, whatever they contain, in overlapping ranges."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, field

from je_tools.core.ordered import map_in_order
from je_tools.formats.files.open_source import open_source
from je_tools.formats.files.source import SourceChangedError, SourceError
from je_tools.formats.needles import CONTEXT, Hits

if TYPE_CHECKING:
    from je_tools.core.pace import Pace
    from je_tools.erase.proof.file_tree import FoundFile
    from je_tools.erase.proof.needles import NeedleSearch
    from je_tools.formats.arrays import Ints
    from je_tools.formats.files.source import Source

PIECE_SIZE = 1 << 20
"""Bytes that are read and searched at once: they stay in the core's cache."""

TASK_SIZE = 64 << 20
"""Bytes that one thread searches in turn."""

HITS_MAX = 100_000
"""Largest number of hits whose places are kept; all are counted."""

_LEAST_KEPT = 16


class RawHits(Struct):
    """Hits in the bytes of one file.

    Attributes:
        start, size, needle: int64; as in `Hits`, `start` as offset in the file, ascending.
        counts: int64 (needles,); number of all hits.
        problems: reasons why the file was not read whole.
        read_size: bytes that were read.
    """

    start: Ints
    size: Ints
    needle: Ints
    counts: Ints
    problems: list[str] = field(default_factory=list)
    read_size: int = 0

    @property
    def not_kept(self) -> int:
        """Number of hits whose places were not kept."""
        return int(self.counts.sum()) - len(self.start)


class RawSearch(Struct, frozen=True):
    """Search of files.

    Attributes:
        search: the needles.
        threads: number of threads.
        pace: limit of bytes per second; None for none.
        progress: called with the number of bytes searched since its last call; None for nothing.
    """

    search: NeedleSearch
    threads: int
    pace: Pace | None = None
    progress: Callable[[int], None] | None = None

    def hits_in(self, files: Sequence[FoundFile]) -> Iterator[RawHits]:
        """Yield the hits in each file, in order; errors of reading become problems of the file."""
        tasks = (
            (file, start, min(start + TASK_SIZE, file.size))
            for file in files
            for start in range(0, max(file.size, 1), TASK_SIZE)
        )
        room = HITS_MAX
        parts: list[RawHits] = []
        waiting = iter(files)
        file = next(waiting, None)
        for part in map_in_order(lambda task: self._search_range(*task), tasks, self.threads):
            assert file is not None
            parts.append(part)
            if self.progress is not None:
                self.progress(part.read_size)
            if len(parts) * TASK_SIZE >= file.size:
                joined = _joined(parts, max(room, _LEAST_KEPT))
                room -= len(joined.start)
                yield joined
                parts = []
                file = next(waiting, None)

    def _search_range(self, file: FoundFile, start: int, stop: int) -> RawHits:
        """Search for hits that begin in [start, stop) of a file."""
        found: list[Hits] = []
        problems: list[str] = []
        done = start
        try:
            with open_source(file.path) as source:
                if source.size < file.size:
                    problems.append(f"it shrank from {file.size:,} to {source.size:,} bytes")
                stop = min(stop, source.size)
                for hits, end in self._pieces(source, start, stop):
                    found.append(hits)
                    done = end
                problems += [
                    f"bytes {first:,} to {last:,} could not be read from the device"
                    for first, last in sorted(source.unreadable)
                ]
        except SourceChangedError as error:
            problems.append(error.reason)
        except SourceError as error:
            problems.append(f"it cannot be read: {error.reason}")
        none = np.empty(0, np.int64)
        empty = Hits(none, none, none, np.zeros(len(self.search), np.int64))
        joined = joined_hits([empty, *found])
        return RawHits(
            joined.start, joined.size, joined.needle, joined.counts, problems, done - start
        )

    def _pieces(self, source: Source, start: int, stop: int) -> Iterator[tuple[Hits, int]]:
        """Yield the hits of each piece, with offsets in the file, and the end of the piece."""
        over = self.search.reach - 1
        piece_size = max(PIECE_SIZE, 4 * over)
        room = HITS_MAX
        for at in range(start, stop, piece_size):
            end = min(at + piece_size, stop)
            if self.pace is not None:
                self.pace.wait(end - at)
            base = max(at - CONTEXT, 0)
            data = source.read(base, min(end + over, source.size))
            hits = self.search.search(data, at - base, end - base, max(room, _LEAST_KEPT))
            room -= len(hits)
            order = np.argsort(hits.start, kind="stable")
            yield (
                Hits(hits.start[order] + base, hits.size[order], hits.needle[order], hits.counts),
                end,
            )


def joined_hits(parts: Sequence[Hits]) -> Hits:
    """Concatenate hits of one search, of which there is at least one part."""
    return Hits(
        np.concatenate([part.start for part in parts]),
        np.concatenate([part.size for part in parts]),
        np.concatenate([part.needle for part in parts]),
        np.sum([part.counts for part in parts], axis=0),
    )


def _joined(parts: Sequence[RawHits], most: int) -> RawHits:
    """Concatenate the hits of the ranges of a file; keep the first `most` places."""
    return RawHits(
        np.concatenate([part.start for part in parts])[:most],
        np.concatenate([part.size for part in parts])[:most],
        np.concatenate([part.needle for part in parts])[:most],
        np.sum([part.counts for part in parts], axis=0),
        list(dict.fromkeys(problem for part in parts for problem in part.problems)),
        sum(part.read_size for part in parts),
    )
