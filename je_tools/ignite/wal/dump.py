"""Records of write-ahead logs in the order of their pointers, selected and encoded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from je_tools.core.ordered import map_in_order
from je_tools.findings import Severity
from je_tools.formats.ignite.record_table import RecordTable, record_tables
from je_tools.ignite.caches import CacheNames, cache_names
from je_tools.ignite.values.types import node_types
from je_tools.ignite.wal.segment_judge import FileJudge, judge_of, unread_errors
from je_tools.ignite.wal.segment_reading import copies_of, read_segment

if TYPE_CHECKING:
    from je_tools.formats.ignite.values import ValueTypes
    from je_tools.formats.ignite.walk import RecordColumns, RecordRows
    from je_tools.ignite.segment_files import SegmentFile
    from je_tools.ignite.store import Node, Store
    from je_tools.ignite.wal.record_filters import RecordSelection
    from je_tools.log.scan_options import Progress

Piece = TypeVar("Piece")


class RecordPlace(Struct, frozen=True):
    """Place of records: what all rows of a table have in common.

    Attributes:
        node: name of the node.
        file: path of the file below the store.
        names: names of the caches of the node.
        types: types of the objects in its caches.
    """

    node: str
    file: str
    names: CacheNames
    types: ValueTypes


class RecordDump(Struct, Generic[Piece]):
    """A dump of the records of a store.

    Attributes:
        selection: filters.
        encode: encoder of rows; several threads call it at once.
        threads: number of threads that decode and encode.
        limit: largest number of rows; None for all.
        progress: called with the bytes that were read.
        count: number of rows so far.
        damaged: number of errors so far that `verify` reports of what was read, and of records
            that do not decode.
        encrypted: number of encrypted entries so far whose keys could not be compared.
    """

    selection: RecordSelection
    encode: Callable[[RecordTable, RecordPlace], Piece]
    threads: int
    limit: int | None = None
    progress: Progress | None = None
    count: int = 0
    damaged: int = 0
    encrypted: int = 0

    def run(self, store: Store) -> Iterator[Piece]:
        """Yield encoded rows.

        Raises:
            InputError: a file cannot be read.
            StoppedError: a file shrank, vanished or was replaced while it was read.
        """
        for node in store.nodes:
            for piece in self._node(node, judge_of(store, node)):
                yield piece
                if self.count == self.limit:
                    return

    def _node(self, node: Node, judge: FileJudge) -> Iterator[Piece]:
        self.damaged += unread_errors(node, judge)
        windows = self._windows(node, judge)
        # With a limit, nothing is decoded in advance.
        threads = self.threads if self.limit is None else 1
        for pieces in map_in_order(self._encoded, windows, threads):
            for count, bad, encrypted, piece in pieces:
                self.damaged += bad
                self.encrypted += encrypted
                self.count += count
                if piece is not None:
                    yield piece

    def _windows(self, node: Node, judge: FileJudge) -> Iterator[tuple[RecordRows, RecordPlace]]:
        names, types = cache_names(node), node_types(node)
        for copies in copies_of(node):
            segment = copies.chosen
            if self.selection.wants_segment(copies.index):
                place = RecordPlace(node.name, judge.path(segment), names, types)
                yield from ((rows, place) for rows in self._segment(segment, judge))
            if self.progress is not None:
                self.progress(segment.size)

    def _segment(self, segment: SegmentFile, judge: FileJudge) -> Iterator[RecordRows]:
        self.damaged += len(list(judge.of_header(segment)))
        with read_segment(segment) as (windows, end):
            for rows in windows:
                chosen = self.selection.of_records(rows)
                if len(chosen):
                    # Threads work on it while the next window is read.
                    yield replace(chosen, columns=_copied(chosen.columns), data=rows.data.copy())
        findings = judge.of_bytes(segment, end)
        self.damaged += sum(each.severity is Severity.ERROR for each in findings)

    def _encoded(
        self, window: tuple[RecordRows, RecordPlace]
    ) -> Iterator[tuple[int, int, int, Piece | None]]:
        """Return an iterator of encoded rows; the first ones, usually all, are already encoded."""
        pieces = self._pieces(*window)
        return chain([next(pieces)], pieces)

    def _pieces(
        self, rows: RecordRows, place: RecordPlace
    ) -> Iterator[tuple[int, int, int, Piece | None]]:
        last = -1
        for table in record_tables(rows):
            damaged = np.unique(table.index[table.bad])
            # A record with many entries is in several tables.
            bad = int(np.count_nonzero(damaged != last))
            last = int(table.index[-1])
            encrypted = int(np.count_nonzero(table.is_encrypted)) if self.selection.keys else 0
            chosen = self.selection.of_rows(table)
            if self.limit is not None:
                chosen = chosen.select(np.arange(min(len(chosen), self.limit - self.count)))
            piece = self.encode(chosen, place) if len(chosen) else None
            yield len(chosen), bad, encrypted, piece


def _copied(columns: RecordColumns) -> RecordColumns:
    return columns.select(np.arange(len(columns)))
