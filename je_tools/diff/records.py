"""Comparison of the records of two databases, in key order.

Both are read once, side by side; equal records are not stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import asdict, replace

from je_tools.formats.je.btree.keysort import equal_keys, order_keys, search_sorted
from je_tools.formats.packed import encode_packed
from je_tools.formats.rows import Cell, Form, lines_of, text_of_ours
from je_tools.formats.spans import Spans, joined_spans
from je_tools.log.records import Records, no_records

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints, Mask

COPIED_BYTES = 8 << 20
"""Approximate number of bytes of keys and data of duplicates that are copied at once."""

_NO_DATA = -1
_PACKED_LIMITS = np.array([119, 119 + 0xFF, 119 + 0xFFFF, 119 + 0xFFFFFF], np.int64)
"""Largest numbers whose packed form takes 1, 2, 3 and 4 bytes."""


class RecordChange(IntEnum):
    """Change to a record from the first environment to the second."""

    ONLY_A = 0
    ONLY_B = 1
    CHANGED_A = 2
    """The key is in both, with different data; this is the record of the first."""
    CHANGED_B = 3

    @property
    def label(self) -> str:
        """Its name in every output."""
        return self.name.lower().replace("_", "-")


class ChangedRecords(Records, frozen=True):
    """Records that differ, in key order.

    Attributes:
        change: uint8, a `RecordChange`.
        position: int64; number of records of either side before it; those in both count once.
    """

    change: npt.NDArray[np.uint8]
    position: Ints

    def select(self, keep: npt.NDArray[Any] | slice) -> ChangedRecords:
        """Return the records of a mask or of an index array, in its order."""
        return _changes(Records.select(self, keep), self.change[keep], self.position[keep])


def _changes(records: Records, change: npt.NDArray[np.uint8], position: Ints) -> ChangedRecords:
    columns = asdict(records)
    return ChangedRecords(**columns, change=change, position=position)


class Comparison(Struct, frozen=True):
    """Rules of a comparison.

    Attributes:
        by_data: True if key and data together identify a record, because a side has duplicates.
        ordered: True if both sides come in byte order of their keys.
    """

    by_data: bool
    ordered: bool

    def differences(self, a: Iterator[Records], b: Iterator[Records]) -> Iterator[ChangedRecords]:
        """Yield the differences in key order; a batch without any is empty."""
        sides = (self._prepared(a), self._prepared(b))
        yield from _Merge(self, *sides).run()

    def keys(self, records: Records) -> Spans:
        """Return the bytes that identify prepared records."""
        key = records.key
        if not self.by_data:
            return key
        sizes = key.sizes + np.maximum(records.data.sizes, 0) + _length_sizes(records)
        return Spans(key.data, key.starts, sizes)

    def _prepared(self, batches: Iterator[Records]) -> Iterator[Records]:
        """Yield the records in byte order of their keys, and duplicates of a key by their data."""
        if not self.ordered:
            whole = joined_records(list(batches))
            yield self._in_order(self._whole(whole) if self.by_data else whole)
        elif self.by_data:
            for batch in batches:
                for piece in _pieces(batch):
                    yield self._in_order(self._whole(piece))
        else:
            yield from batches

    def _in_order(self, records: Records) -> Records:
        # Even if keys are in order, the order of duplicates depends on data that may be lost.
        order = order_keys(self.keys(records), two_part=self.by_data)
        return records.select(order)

    def _whole(self, records: Records) -> Records:
        """Copy the records to one array that holds key, data and key length of each.

        Later engines store duplicates this way. The original storage does not matter: key and data
        of a record may come from a slot and an entry, or from the older form of duplicates.
        """
        key, data = records.key, records.data
        numbers, place = np.unique(_lengths(records), return_inverse=True)
        texts = [encode_packed(number)[::-1] for number in numbers.tolist()]
        ends = np.cumsum([0, *map(len, texts)])
        table = np.frombuffer(b"".join(texts), np.uint8)
        length = Spans(table, ends[:-1][place], np.diff(ends)[place])
        whole = lines_of([Cell(Form.TEXT, text_of_ours(column)) for column in (key, data, length)])
        sizes = key.sizes + np.maximum(data.sizes, 0) + length.sizes
        starts = np.cumsum(sizes) - sizes
        return replace(
            records,
            key=Spans(whole, starts, key.sizes),
            data=Spans(whole, starts + key.sizes, data.sizes),
        )


def _lengths(records: Records) -> Ints:
    """Return the number that follows each record: its key's length, or _NO_DATA."""
    return np.where(records.data.sizes < 0, _NO_DATA, records.key.sizes)


def _length_sizes(records: Records) -> Ints:
    """Return the sizes of the numbers of `_lengths` as packed integers, in bytes."""
    lengths = _lengths(records)
    return np.searchsorted(_PACKED_LIMITS, lengths).astype(np.int64) + 1


def _pieces(records: Records) -> Iterator[Records]:
    """Yield records in pieces small enough to copy."""
    sizes = records.key.sizes + np.maximum(records.data.sizes, 0)
    cuts = np.flatnonzero(np.diff(np.cumsum(sizes) // COPIED_BYTES)) + 1
    for rows in np.split(np.arange(len(records)), cuts):
        yield records.select(rows)


def joined_records(batches: list[Records]) -> Records:
    """Concatenate batches."""
    if not batches:
        return no_records()
    columns: dict[str, Any] = {}
    for name in Records.__struct_fields__:
        parts = [getattr(batch, name) for batch in batches]
        together: Callable[[Any], Any] = np.concatenate
        if isinstance(parts[0], Spans):
            together = joined_spans
        columns[name] = together(parts)
    return Records(**columns)


class _Merge:
    """Merge of two streams of records, with the unread rest of a batch of each."""

    def __init__(self, how: Comparison, a: Iterator[Records], b: Iterator[Records]) -> None:
        self.how = how
        self.sides = (a, b)
        self.left = [no_records(), no_records()]
        self.position = 0

    def run(self) -> Iterator[ChangedRecords]:
        while True:
            has_more = [self._fill(side) for side in (0, 1)]
            if not any(has_more):
                return
            counts = self._counts(has_more)
            pieces = [self._cut(side, counts[side]) for side in (0, 1)]
            yield self._compare(*pieces)

    def _fill(self, side: int) -> bool:
        while not len(self.left[side]):
            more = next(self.sides[side], None)
            if more is None:
                return False
            self.left[side] = more
        return True

    def _counts(self, has_more: list[bool]) -> list[int]:
        """Return the number of records of each side up to the smaller of the two last keys."""
        sizes = [len(records) for records in self.left]
        if not all(has_more):
            return sizes
        lasts = [self._last(side) for side in (0, 1)]
        below = [self._up_to(side, lasts[1 - side]) for side in (0, 1)]
        # The side whose batch ends first bounds the other side.
        return [sizes[0], below[1]] if below[0] == sizes[0] else [below[0], sizes[1]]

    def _last(self, side: int) -> Spans:
        return self.how.keys(self.left[side]).select(np.array([-1]))

    def _up_to(self, side: int, key: Spans) -> int:
        """Return the number of records of a side whose key is at most `key`."""
        own = self.how.keys(self.left[side])
        at = int(search_sorted(own, key, two_part=self.how.by_data)[0])
        if at < len(own):
            same = equal_keys(own.select(np.array([at])), key)
            at += int(same[0])
        return at

    def _cut(self, side: int, count: int) -> Records:
        records = self.left[side]
        rows = np.arange(len(records))
        self.left[side] = records.select(rows[count:])
        return records.select(rows[:count])

    def _compare(self, a: Records, b: Records) -> ChangedRecords:
        how = self.how
        keys_a, keys_b = how.keys(a), how.keys(b)
        at, same = _found(how, keys_a, keys_b)
        in_a = np.zeros(len(b), np.bool_)
        in_a[at[same]] = True
        changed = np.flatnonzero(same)
        if not how.by_data:
            equal = equal_keys(a.data.select(changed), b.data.select(at[changed]))
            changed = changed[~equal]
        else:
            changed = changed[:0]
        rows_a = np.sort(np.concatenate((np.flatnonzero(~same), changed)))
        rows_b = np.sort(np.concatenate((np.flatnonzero(~in_a), at[changed])))
        position_a, position_b = self._positions(at, same, in_a, rows_a, rows_b)
        self.position += len(a) + int(np.count_nonzero(~in_a))
        found = joined_records([a.select(rows_a), b.select(rows_b)])
        change = np.concatenate(
            (
                np.where(same[rows_a], RecordChange.CHANGED_A, RecordChange.ONLY_A),
                np.where(in_a[rows_b], RecordChange.CHANGED_B, RecordChange.ONLY_B),
            )
        ).astype(np.uint8)
        position = np.concatenate((position_a, position_b))
        order = np.lexsort((change, position))
        return _changes(found, change, position).select(order)

    def _positions(
        self, at: Ints, same: Mask, in_a: Mask, rows_a: Ints, rows_b: Ints
    ) -> tuple[Ints, Ints]:
        """Return positions of records in the merged order, in which equal keys share one."""
        alone: Ints = np.concatenate((np.zeros(1, np.int64), np.cumsum(~in_a, dtype=np.int64)))
        of_a: Ints = np.arange(len(at), dtype=np.int64) + alone[np.minimum(at, len(in_a))]
        of_b = np.zeros(len(in_a), np.int64)
        lone = np.flatnonzero(~in_a)
        before: Ints = np.searchsorted(at, lone, side="right").astype(np.int64)
        of_b[lone] = alone[lone] + before
        of_b[at[same]] = of_a[same]
        return self.position + of_a[rows_a], self.position + of_b[rows_b]


def _found(how: Comparison, keys_a: Spans, keys_b: Spans) -> tuple[Ints, Mask]:
    """Return the insertion points of a's keys in b, and a mask of those that are in b."""
    at = search_sorted(keys_b, keys_a, two_part=how.by_data)
    same = np.zeros(len(at), np.bool_)
    inside = np.flatnonzero(at < len(keys_b))
    same[inside] = equal_keys(keys_a.select(inside), keys_b.select(at[inside]))
    return at, same


class DifferingRange(Struct):
    """A range of records that differ, with few equal ones among them.

    Attributes:
        first_key, last_key: keys of the first and the last record that differs.
        only_a_count, only_b_count, changed_count: numbers of records that differ.
        last_position: position of the last record that differs.
    """

    first_key: bytes
    last_key: bytes
    only_a_count: int
    only_b_count: int
    changed_count: int
    last_position: int


def blocks(changes: Iterator[ChangedRecords], most_equal: int) -> Iterator[DifferingRange]:
    """Yield differences as key ranges with fewer than `most_equal` equal records in a row."""
    current: DifferingRange | None = None
    for batch in changes:
        if not len(batch):
            continue
        cuts = np.flatnonzero(np.diff(batch.position) > most_equal) + 1
        for rows in np.split(np.arange(len(batch)), cuts):
            counts = np.bincount(batch.change[rows], minlength=4)
            found = DifferingRange(
                batch.key[int(rows[0])] or b"",
                batch.key[int(rows[-1])] or b"",
                int(counts[RecordChange.ONLY_A]),
                int(counts[RecordChange.ONLY_B]),
                int(counts[RecordChange.CHANGED_A]),
                int(batch.position[rows[-1]]),
            )
            first = int(batch.position[rows[0]])
            if current is not None and first - current.last_position <= most_equal:
                current.last_key, current.last_position = found.last_key, found.last_position
                current.only_a_count += found.only_a_count
                current.only_b_count += found.only_b_count
                current.changed_count += found.changed_count
            else:
                if current is not None:
                    yield current
                current = found
    if current is not None:
        yield current
