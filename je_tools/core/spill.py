"""Rows that may outgrow memory: kept in it while there are few, else in temporary files.

`RowTable` splits rows into partitions, which are processed one after the other. `GroupedRuns` keeps
the results of the partitions by group, and merges them into one order when a group is read.
`RowLog` keeps rows in the order in which they come, and `ByteHeap` byte strings of rows. All share
one `Spill`, which says when to begin with files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from je_tools.core.held_rows import HeldRows
from je_tools.core.temporary import Array, NamelessFile
from je_tools.formats.spans import Spans

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints

MEMORY_MAX = 256 << 20
"""Bytes of rows in memory above which all tables of a `Spill` continue in files."""

PARTITION_SIZE = 512 << 20
"""Bytes of the log for each partition; its rows take about a quarter of that, at most as much."""

PARTITIONS_MIN, PARTITIONS_MAX = 1 << 4, 1 << 12
_DIGEST_BITS = 63
_MERGED_ROWS, _RUN_ROWS_MIN = 1 << 20, 1 << 10
"""Number of rows that a merge reads at once: of all runs, and at least of each run."""

_CHUNK_ROWS = 1 << 16
"""Rows of a `RowLog` that are read at once."""

_NEAR = 64 << 10
"""Byte strings at most this far apart in a heap are read at once."""


class Spill:
    """Memory budget of some tables, and the directory of their temporary files.

    Attributes:
        is_spilled: True if the tables continue in files.
    """

    def __init__(self, log_size: int, directory: Callable[[], Path]) -> None:
        """Create a budget.

        Args:
            log_size: size of the log that is read, in bytes; it decides how many partitions the
                rows would have.
            directory: returns the directory for temporary files, when the first one is needed.
        """
        self.is_spilled = False
        self._directory = directory
        wanted = max(log_size // PARTITION_SIZE, PARTITIONS_MIN - 1)
        self._bits = min(wanted, PARTITIONS_MAX - 1).bit_length()
        self._held = 0
        self._tables: list[_SpilledRows | ByteHeap] = []

    @property
    def partition_count(self) -> int:
        """Number of partitions: 1 while everything is in memory."""
        return 1 << self._bits if self.is_spilled else 1

    def join(self, table: _SpilledRows | ByteHeap) -> None:
        """Add a table."""
        self._tables.append(table)

    def hold(self, size: int) -> None:
        """Count bytes that a table keeps in memory; if all have too many, they write theirs."""
        self._held += size
        if self._held > MEMORY_MAX:
            self.is_spilled = True
            self._held = 0
            for table in self._tables:
                table.flush()

    def open(self) -> NamelessFile:
        """Open a temporary file.

        Raises:
            RefusedError: it cannot be made.
        """
        return NamelessFile(self._directory())

    def partition_of(self, digests: Ints) -> npt.NDArray[np.uint16]:
        """Return the partition of each row from a digest of 63 bits.

        The highest bits decide, since hash tables of a partition use the lowest.
        """
        return (digests >> (_DIGEST_BITS - self._bits)).astype(np.uint16)


class _Block(Struct, frozen=True):
    """Rows that were written at once: offset of each column, and first row of each partition."""

    offsets: tuple[int, ...]
    starts: Ints


class _SpilledRows:
    """Rows of numbers that are appended in memory, and move to a file when the spill says so."""

    def __init__(self, spill: Spill, kinds: Sequence[npt.DTypeLike]) -> None:
        self._spill = spill
        self._rows = HeldRows(kinds, spill.hold)
        self._file: NamelessFile | None = None
        spill.join(self)

    def __len__(self) -> int:
        return self._rows.count

    def append(self, columns: Sequence[Array]) -> None:
        """Append rows: an array of each column.

        Raises:
            RefusedError: they cannot be written to a file.
        """
        self._rows.append(columns)

    def flush(self) -> None:
        """Write the rows in memory to the file.

        Raises:
            RefusedError: they cannot be written.
        """
        if self._rows.pieces:
            self._file = self._file or self._spill.open()
            self._write(self._file)

    def _write(self, file: NamelessFile) -> None:
        raise NotImplementedError


class RowTable(_SpilledRows):
    """Rows of numbers, in partitions by a digest: rows with the same digest are in the same one.

    In each partition rows are in the order in which they were appended. Each partition can be read
    once; there is one, of all rows, if nothing was written to files.
    """

    def __init__(self, spill: Spill, kinds: Sequence[npt.DTypeLike], digest: int) -> None:
        """Create an empty table.

        Args:
            spill: the budget.
            kinds: types of the columns.
            digest: index of the column with the digest, int64 of 63 bits.
        """
        super().__init__(spill, kinds)
        self._digest = digest
        self._blocks: list[_Block] = []

    def _write(self, file: NamelessFile) -> None:
        parts = self._spill.partition_of(self._rows.column(self._digest))
        order = np.argsort(parts, kind="stable")
        counts = np.bincount(parts, minlength=self._spill.partition_count)
        offsets = self._rows.write(file, order)
        self._blocks.append(_Block(offsets, np.concatenate(([0], np.cumsum(counts)))))

    def read(self, partition: int) -> list[Array]:
        """Return the columns of a partition, and forget it if it is in memory.

        Raises:
            RefusedError: it cannot be read.
        """
        if self._spill.is_spilled:
            self.flush()
        found = []
        for i, kind in enumerate(self._rows.kinds):
            pieces = [np.empty(0, kind), *self._written(partition, i)]
            # One column at a time, so that at most one is in memory twice.
            found.append(np.concatenate([*pieces, *(piece[i] for piece in self._rows.pieces)]))
            self._rows.pieces = [_with_emptied(piece, i) for piece in self._rows.pieces]
        self._rows.pieces.clear()
        return found

    def partitions(self) -> Iterator[list[Array]]:
        """Yield the columns of each partition; see `read`."""
        for partition in range(self._spill.partition_count):
            yield self.read(partition)

    def _written(self, partition: int, column: int) -> Iterator[Array]:
        kind = self._rows.kinds[column]
        for block in self._blocks:
            assert self._file is not None
            start, stop = block.starts[partition : partition + 2].tolist()
            offset = block.offsets[column] + start * kind.itemsize
            yield self._file.read(offset, kind, stop - start)


def _with_emptied(columns: Sequence[Array], index: int) -> Sequence[Array]:
    return [column[:0] if i == index else column for i, column in enumerate(columns)]


class RowLog(_SpilledRows):
    """Rows of numbers in the order in which they were appended."""

    def __init__(self, spill: Spill, kinds: Sequence[npt.DTypeLike]) -> None:
        """Create an empty log of rows with columns of these types."""
        super().__init__(spill, kinds)
        self._blocks: list[tuple[int, tuple[int, ...]]] = []

    def _write(self, file: NamelessFile) -> None:
        count = sum(len(piece[0]) for piece in self._rows.pieces)
        self._blocks.append((count, self._rows.write(file)))

    def chunks(self) -> Iterator[list[Array]]:
        """Yield the columns of all rows, in chunks of bounded size.

        Raises:
            RefusedError: they cannot be read.
        """
        for count, offsets in self._blocks:
            assert self._file is not None
            for at in range(0, count, _CHUNK_ROWS):
                some = min(_CHUNK_ROWS, count - at)
                yield [
                    self._file.read(offset + at * kind.itemsize, kind, some)
                    for offset, kind in zip(offsets, self._rows.kinds, strict=True)
                ]
        for piece in self._rows.pieces:
            yield list(piece)


class ByteHeap:
    """Byte strings that are appended, and read by the offset that each was given."""

    def __init__(self, spill: Spill) -> None:
        self._spill = spill
        self._pieces: list[Array] = []
        self._size = 0
        self._file: NamelessFile | None = None
        spill.join(self)

    def append(self, values: Spans) -> Ints:
        """Append byte strings, and return the offset of each.

        Raises:
            RefusedError: they cannot be written to a file.
        """
        packed = values.packed()
        starts = packed.starts + self._size
        self._size += len(packed.data)
        if len(packed.data):
            self._pieces.append(packed.data)
            self._spill.hold(len(packed.data))
        return starts

    def flush(self) -> None:
        """Write the bytes in memory to the file.

        Raises:
            RefusedError: they cannot be written.
        """
        for piece in self._pieces:
            self._file = self._file or self._spill.open()
            self._file.append(piece)
        self._pieces.clear()

    def read(self, starts: Ints, sizes: Ints) -> Spans:
        """Return byte strings at ascending offsets; a negative size is null.

        Raises:
            RefusedError: they cannot be read.
        """
        if self._file is None:
            if len(self._pieces) > 1:
                self._pieces = [np.concatenate(self._pieces)]
                self._pieces[0].flags.writeable = False
            data = self._pieces[0] if self._pieces else np.empty(0, np.uint8)
            return Spans(data, starts, sizes)
        self.flush()
        if not len(starts):
            return Spans(np.empty(0, np.uint8), starts, sizes)
        stops = starts + np.maximum(sizes, 0)
        begins = np.append(True, starts[1:] - stops[:-1] > _NEAR)
        first = np.flatnonzero(begins)
        last = np.append(first[1:], len(starts)) - 1
        lengths = stops[last] - starts[first]
        runs = zip(starts[first].tolist(), lengths.tolist(), strict=True)
        data = np.concatenate([self._file.read(at, np.uint8, size) for at, size in runs])
        data.flags.writeable = False
        moved = np.cumsum(lengths) - lengths - starts[first]
        return Spans(data, starts + moved[np.cumsum(begins) - 1], sizes)


class _SortedRun(Struct, frozen=True):
    """Sorted rows: the groups, the first row of each, and offsets or arrays of the columns."""

    groups: Array
    starts: Ints
    offsets: tuple[int, ...]
    columns: Sequence[Array]

    def rows_of(self, group: int) -> tuple[int, int]:
        """Return the first row of a group, and the row after its last."""
        at = int(np.searchsorted(self.groups, group))
        if at == len(self.groups) or self.groups[at] != group:
            return 0, 0
        return int(self.starts[at]), int(self.starts[at + 1])


class GroupedRuns:
    """Rows by group, in the order of their first column.

    Runs of rows are appended, and merged when a group is read.
    """

    def __init__(self, spill: Spill, kinds: Sequence[npt.DTypeLike]) -> None:
        """Create an empty collection.

        Args:
            spill: says whether runs are kept in memory or in a file.
            kinds: types of the columns; the first one is the order.
        """
        self._spill = spill
        self._kinds = [np.dtype(kind) for kind in kinds]
        self._runs: list[_SortedRun] = []
        self._file: NamelessFile | None = None

    def append(self, groups: Array, columns: Sequence[Array]) -> None:
        """Append a run.

        Args:
            groups: the group of each row.
            columns: the columns of the run. Rows of a group ascend by the first column, unless
                everything is in memory: then there is only one run, and its rows keep their order.

        Raises:
            RefusedError: it cannot be written to a file.
        """
        if len(groups) and (groups[0] != groups).any():
            order = np.argsort(groups, kind="stable")
            groups, columns = groups[order], [column[order] for column in columns]
        first = np.flatnonzero(np.append(True, groups[1:] != groups[:-1])[: len(groups)])
        starts = np.append(first, len(groups))
        if not self._spill.is_spilled:
            self._runs.append(_SortedRun(groups[first], starts, (), columns))
            return
        file = self._file = self._file or self._spill.open()
        pairs = zip(columns, self._kinds, strict=True)
        offsets = tuple(file.append(column.astype(kind, copy=False)) for column, kind in pairs)
        self._runs.append(_SortedRun(groups[first], starts, offsets, ()))

    def groups(self) -> set[int]:
        """Return the groups that have rows."""
        return {group for run in self._runs for group in run.groups.tolist()}

    def rows(self, group: int) -> Iterator[list[Array]]:
        """Yield the columns of the rows of a group, in order, in chunks.

        Raises:
            RefusedError: they cannot be read.
        """
        spans = [(run, *run.rows_of(group)) for run in self._runs]
        spans = [span for span in spans if span[1] < span[2]]
        most = max(_MERGED_ROWS // max(len(spans), 1), _RUN_ROWS_MIN)
        cursors = [_Cursor(self._chunks(*span, most)) for span in spans]
        if len(cursors) == 1:
            yield from cursors[0].chunks
            return
        while cursors:
            for cursor in cursors:
                cursor.fill()
            # Rows up to this one come before all that are not read yet.
            lasts = [cursor.columns[0][-1] for cursor in cursors if cursor.has_more]
            pieces = [cursor.cut(min(lasts, default=None)) for cursor in cursors]
            columns = [np.concatenate(column) for column in zip(*pieces, strict=True)]
            order = np.argsort(columns[0], kind="stable")
            yield [column[order] for column in columns]
            cursors = [each for each in cursors if each.has_more or len(each.columns[0])]

    def _chunks(self, run: _SortedRun, start: int, stop: int, most: int) -> Iterator[list[Array]]:
        if not run.offsets:
            yield [column[start:stop] for column in run.columns]
            return
        assert self._file is not None
        for at in range(start, stop, most):
            count = min(most, stop - at)
            yield [
                self._file.read(offset + at * kind.itemsize, kind, count)
                for offset, kind in zip(run.offsets, self._kinds, strict=True)
            ]


class _Cursor:
    """Place in the chunks of a run."""

    def __init__(self, chunks: Iterator[list[Array]]) -> None:
        self.chunks = chunks
        self.columns: list[Array] = []
        self.has_more = True

    def fill(self) -> None:
        """Read the next chunk if no row is left."""
        if self.has_more and not (self.columns and len(self.columns[0])):
            found = next(self.chunks, None)
            self.has_more = found is not None
            self.columns = found or [column[:0] for column in self.columns]

    def cut(self, bound: Any) -> list[Array]:
        """Return the rows up to a number, or all if it is None, and keep the others."""
        count = len(self.columns[0])
        if bound is not None:
            count = int(np.searchsorted(self.columns[0], bound, side="right"))
        columns = self.columns
        self.columns = [column[count:] for column in columns]
        return [column[:count] for column in columns]
