"""Records of two databases held against each other, in the order of their keys.

Both are read once and side by side; nothing is kept of what is equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import asdict, replace

from je_tools.formats.arrays import Ints, Mask
from je_tools.formats.je.keysort import equal_keys, order_keys, search_sorted
from je_tools.formats.je.nodes import joined_spans
from je_tools.formats.packed import encode_packed
from je_tools.formats.rows import Cell, Form, lines_of
from je_tools.formats.spans import Spans
from je_tools.records import Records, no_records

COPIED_BYTES = 8 << 20
"""About how many bytes of keys and data of duplicates are copied at once."""

_NO_DATA = -1
_PACKED_LIMITS = np.array([119, 119 + 0xFF, 119 + 0xFFFF, 119 + 0xFFFFFF], np.int64)
"""Up to which numbers packed ones take one byte, two, and so on."""


class Change(IntEnum):
    """What becomes of a record on the way from the first environment to the second."""

    ONLY_A = 0
    ONLY_B = 1
    CHANGED_A = 2
    """The key is in both, with other data; this is the first one's."""
    CHANGED_B = 3

    @property
    def label(self) -> str:
        """Its spelling in every output."""
        return self.name.lower().replace("_", "-")


class Changes(Records, frozen=True):
    """Records that differ, in the order of their keys.

    Attributes:
        change: uint8, a `Change`.
        position: int64; how many records of either side come before it, those in both once.
    """

    change: npt.NDArray[np.uint8]
    position: Ints

    def take(self, keep: npt.NDArray[Any] | slice) -> Changes:
        """The records of a mask or of an index array, in its order."""
        return _changes(Records.take(self, keep), self.change[keep], self.position[keep])


def _changes(records: Records, change: npt.NDArray[np.uint8], position: Ints) -> Changes:
    columns = asdict(records)
    return Changes(**columns, change=change, position=position)


class Comparison(Struct, frozen=True):
    """How records are compared.

    Attributes:
        by_data: key and data together tell records apart: a side has duplicates, in either form.
        ordered: both sides come in the order of the bytes of their keys.
    """

    by_data: bool
    ordered: bool

    def differences(self, a: Iterator[Records], b: Iterator[Records]) -> Iterator[Changes]:
        """What differs, and empty batches where nothing does, for whoever counts."""
        sides = (self._prepared(a), self._prepared(b))
        yield from _Merge(self, *sides).run()

    def keys(self, records: Records) -> Spans:
        """By what prepared records are told apart."""
        key = records.key
        if not self.by_data:
            return key
        sizes = key.sizes + np.maximum(records.data.sizes, 0) + _length_sizes(records)
        return Spans(key.data, key.starts, sizes)

    def _prepared(self, batches: Iterator[Records]) -> Iterator[Records]:
        """The same records, in the order of the bytes of what they are told apart by."""
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
        # Even where the order is known, that of duplicates hangs on data that may be lost.
        order = order_keys(self.keys(records), two_part=self.by_data)
        return records.take(order)

    def _whole(self, records: Records) -> Records:
        """The same records over an array that holds of each key, data, and the key's length.

        That is how later engines store duplicates, but whose bytes these are does not matter: the
        two may come from a slot and a record, or be stored in another spelling.
        """
        key, data = records.key, records.data
        numbers, place = np.unique(_lengths(records), return_inverse=True)
        texts = [encode_packed(number)[::-1] for number in numbers.tolist()]
        ends = np.cumsum([0, *map(len, texts)])
        table = np.frombuffer(b"".join(texts), np.uint8)
        length = Spans(table, ends[:-1][place], np.diff(ends)[place])
        whole = lines_of([Cell(Form.TEXT, column) for column in (key, data, length)])
        sizes = key.sizes + np.maximum(data.sizes, 0) + length.sizes
        starts = np.cumsum(sizes) - sizes
        return replace(
            records,
            key=Spans(whole, starts, key.sizes),
            data=Spans(whole, starts + key.sizes, data.sizes),
        )


def _lengths(records: Records) -> Ints:
    """What stands behind each record: the length of its key, or that it has no data."""
    return np.where(records.data.sizes < 0, _NO_DATA, records.key.sizes)


def _length_sizes(records: Records) -> Ints:
    """Bytes that these take as packed numbers."""
    lengths = _lengths(records)
    return np.searchsorted(_PACKED_LIMITS, lengths).astype(np.int64) + 1


def _pieces(records: Records) -> Iterator[Records]:
    """Records in pieces that may be copied."""
    sizes = records.key.sizes + np.maximum(records.data.sizes, 0)
    cuts = np.flatnonzero(np.diff(np.cumsum(sizes) // COPIED_BYTES)) + 1
    for rows in np.split(np.arange(len(records)), cuts):
        yield records.take(rows)


def joined_records(batches: list[Records]) -> Records:
    """Batches as one."""
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
    """Two streams of records, and how far each has been read."""

    def __init__(self, how: Comparison, a: Iterator[Records], b: Iterator[Records]) -> None:
        self.how = how
        self.sides = (a, b)
        self.left = [no_records(), no_records()]
        self.position = 0

    def run(self) -> Iterator[Changes]:
        while True:
            there = [self._fill(side) for side in (0, 1)]
            if not any(there):
                return
            counts = self._counts(there)
            pieces = [self._cut(side, counts[side]) for side in (0, 1)]
            yield self._compare(*pieces)

    def _fill(self, side: int) -> bool:
        while not len(self.left[side]):
            more = next(self.sides[side], None)
            if more is None:
                return False
            self.left[side] = more
        return True

    def _counts(self, there: list[bool]) -> list[int]:
        """How many records of each side are up to the nearer end of the two."""
        sizes = [len(records) for records in self.left]
        if not all(there):
            return sizes
        lasts = [self._last(side) for side in (0, 1)]
        below = [self._up_to(side, lasts[1 - side]) for side in (0, 1)]
        # The side that is read to its end first gives the other its bound.
        return [sizes[0], below[1]] if below[0] == sizes[0] else [below[0], sizes[1]]

    def _last(self, side: int) -> Spans:
        return self.how.keys(self.left[side]).take(np.array([-1]))

    def _up_to(self, side: int, key: Spans) -> int:
        """How many records of a side have a key up to this."""
        own = self.how.keys(self.left[side])
        at = int(search_sorted(own, key, two_part=self.how.by_data)[0])
        if at < len(own):
            same = equal_keys(own.take(np.array([at])), key)
            at += int(same[0])
        return at

    def _cut(self, side: int, count: int) -> Records:
        records = self.left[side]
        rows = np.arange(len(records))
        self.left[side] = records.take(rows[count:])
        return records.take(rows[:count])

    def _compare(self, a: Records, b: Records) -> Changes:
        how = self.how
        keys_a, keys_b = how.keys(a), how.keys(b)
        at, same = _found(how, keys_a, keys_b)
        in_a = np.zeros(len(b), np.bool_)
        in_a[at[same]] = True
        changed = np.flatnonzero(same)
        if not how.by_data:
            equal = equal_keys(a.data.take(changed), b.data.take(at[changed]))
            changed = changed[~equal]
        else:
            changed = changed[:0]
        rows_a = np.sort(np.concatenate((np.flatnonzero(~same), changed)))
        rows_b = np.sort(np.concatenate((np.flatnonzero(~in_a), at[changed])))
        position_a, position_b = self._positions(at, same, in_a, rows_a, rows_b)
        self.position += len(a) + int(np.count_nonzero(~in_a))
        found = joined_records([a.take(rows_a), b.take(rows_b)])
        change = np.concatenate(
            (
                np.where(same[rows_a], Change.CHANGED_A, Change.ONLY_A),
                np.where(in_a[rows_b], Change.CHANGED_B, Change.ONLY_B),
            )
        ).astype(np.uint8)
        position = np.concatenate((position_a, position_b))
        order = np.lexsort((change, position))
        return _changes(found, change, position).take(order)

    def _positions(
        self, at: Ints, same: Mask, in_a: Mask, rows_a: Ints, rows_b: Ints
    ) -> tuple[Ints, Ints]:
        """Places of records among those of both sides, of which equal keys share one."""
        alone: Ints = np.concatenate((np.zeros(1, np.int64), np.cumsum(~in_a, dtype=np.int64)))
        of_a: Ints = np.arange(len(at), dtype=np.int64) + alone[np.minimum(at, len(in_a))]
        of_b = np.zeros(len(in_a), np.int64)
        lone = np.flatnonzero(~in_a)
        before: Ints = np.searchsorted(at, lone, side="right").astype(np.int64)
        of_b[lone] = alone[lone] + before
        of_b[at[same]] = of_a[same]
        return self.position + of_a[rows_a], self.position + of_b[rows_b]


def _found(how: Comparison, keys_a: Spans, keys_b: Spans) -> tuple[Ints, Mask]:
    """Where in b the keys of a are or would be, and which are there."""
    at = search_sorted(keys_b, keys_a, two_part=how.by_data)
    same = np.zeros(len(at), np.bool_)
    inside = np.flatnonzero(at < len(keys_b))
    same[inside] = equal_keys(keys_a.take(inside), keys_b.take(at[inside]))
    return at, same


class Block(Struct):
    """Records that differ, with few equal ones between them.

    Attributes:
        first_key, last_key: of those that differ.
        only_a_count, only_b_count, changed_count: how many they are.
        last_position: of the last of them.
    """

    first_key: bytes
    last_key: bytes
    only_a_count: int
    only_b_count: int
    changed_count: int
    last_position: int


def blocks(changes: Iterator[Changes], most_equal: int) -> Iterator[Block]:
    """Differences as ranges of keys, with fewer than `most_equal` equal records in between."""
    current: Block | None = None
    for batch in changes:
        if not len(batch):
            continue
        cuts = np.flatnonzero(np.diff(batch.position) > most_equal) + 1
        for rows in np.split(np.arange(len(batch)), cuts):
            counts = np.bincount(batch.change[rows], minlength=4)
            found = Block(
                batch.key[int(rows[0])] or b"",
                batch.key[int(rows[-1])] or b"",
                int(counts[Change.ONLY_A]),
                int(counts[Change.ONLY_B]),
                int(counts[Change.CHANGED_A]),
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
