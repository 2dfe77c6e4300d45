"""Concatenation of Parquet files of one schema, without decoding their values.

A row group is self-contained except for the offsets of its parts, which count from the start of
the file. They are in the footer and in the offset indexes: the numbers are taken out of them after
a file is written, and new ones are filled in when it is joined.
Source: parquet.thrift of Parquet 2.11, FileMetaData and OffsetIndex.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
from msgspec import Struct, field

from je_tools.formats.thrift import (
    FIELDS,
    LEFT_OUT,
    LIST,
    NOTHING,
    STRUCT,
    Extracted,
    fill,
    open_values,
)

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints

MAGIC = b"PAR1"

_TAIL = 4 + len(MAGIC)
"""Bytes after the footer: its length, and the magic."""

_ORDINALS = 1 << 15
"""Largest number of row groups with ordinals, which have 16 bits; only encryption needs them."""


class _NumberRole(IntEnum):
    """Meaning of a number that changes in the joined file."""

    ROWS = 1
    DATA = 2
    OFFSET_INDEX = 3
    OFFSET_INDEX_SIZE = 4
    COLUMN_INDEX = 5
    COLUMN_INDEX_SIZE = 6
    ORDINAL = 7
    END = 8


class _StructKind(IntEnum):
    """Structs that contain such numbers."""

    OTHER = 0
    FILE = 1
    ROW_GROUP = 2
    COLUMN_CHUNK = 3
    COLUMN_META = 4
    OFFSET_INDEX = 5
    PAGE_LOCATION = 6


_RULES: dict[_StructKind, dict[int, int]] = {
    _StructKind.FILE: {3: _NumberRole.ROWS, 4: -_StructKind.ROW_GROUP},
    _StructKind.ROW_GROUP: {
        0: _NumberRole.END,
        1: -_StructKind.COLUMN_CHUNK,
        5: _NumberRole.DATA,
        7: _NumberRole.ORDINAL,
    },
    _StructKind.COLUMN_CHUNK: {
        2: _NumberRole.DATA,
        3: -_StructKind.COLUMN_META,
        4: _NumberRole.OFFSET_INDEX,
        5: _NumberRole.OFFSET_INDEX_SIZE,
        6: _NumberRole.COLUMN_INDEX,
        7: _NumberRole.COLUMN_INDEX_SIZE,
    },
    # Offsets of data, index and dictionary pages, and of a Bloom filter.
    _StructKind.COLUMN_META: dict.fromkeys((9, 10, 11, 14), _NumberRole.DATA),
    _StructKind.OFFSET_INDEX: {0: _NumberRole.END, 1: -_StructKind.PAGE_LOCATION},
    _StructKind.PAGE_LOCATION: {1: _NumberRole.DATA},
}
"""Fields of each struct by id: the role of a number, or minus the kind of the structs in it."""


def _table() -> Ints:
    table = np.zeros((len(_StructKind), FIELDS), np.int64)
    for state, rules in _RULES.items():
        table[state, list(rules)] = list(rules.values())
    return table.ravel()


_TABLE = _table()


class ParquetPart(Struct, frozen=True):
    """Metadata of a file that becomes a part of another; pickles.

    Attributes:
        frame: its footer before the number of rows and after the row groups, the same in all parts.
        rows: number of its rows.
        groups: number of its row groups.
        stop: end of the data of its row groups, which begins after the magic.
        row_groups: metadata of the row groups.
        column_indexes: column indexes of the column chunks that have one, in order.
        offset_indexes: offset indexes, likewise.
    """

    frame: tuple[bytes, bytes]
    rows: int
    groups: int
    stop: int
    row_groups: Extracted
    column_indexes: bytes
    offset_indexes: Extracted


def take_apart(file: memoryview) -> ParquetPart:
    """Return the metadata needed to join a whole Parquet file to others.

    Args:
        file: its bytes.

    Raises:
        ValueError: it has no footer, or one that our writers do not make.
        ThriftError: the footer is damaged.
    """
    data = np.frombuffer(file, np.uint8)
    start = len(data) - _TAIL - int.from_bytes(file[-_TAIL : -len(MAGIC)], "little")
    if start < len(MAGIC) or bytes(file[-len(MAGIC) :]) != MAGIC:
        raise ValueError("not a Parquet file")
    footer, _ = open_values(data[start:-_TAIL], 0, STRUCT, _TABLE, _StructKind.FILE)
    groups = int(np.count_nonzero(footer.roles == _NumberRole.END))
    text, first = footer.text, int(footer.places[0])
    head = first + len(_list_field(groups))
    stop = int(footer.places[-1]) if groups else head
    if text[first:head].tobytes() != _list_field(groups) or footer.roles[0] != _NumberRole.ROWS:
        raise ValueError("row groups are not where they are looked for")
    row_groups = Extracted(
        text[head:stop], footer.places[1:] - head, footer.numbers[1:], footer.roles[1:]
    )
    if row_groups.text[row_groups.places[row_groups.roles == _NumberRole.ORDINAL]].any():
        raise ValueError("an ordinal is not the last of a row group")
    column_spans = _spans(row_groups, _NumberRole.COLUMN_INDEX)
    offset_spans = _spans(row_groups, _NumberRole.OFFSET_INDEX)
    offset_data = np.frombuffer(_joined(file, offset_spans), np.uint8)
    offset_indexes, _ = open_values(
        offset_data, 0, STRUCT, _TABLE, _StructKind.OFFSET_INDEX, len(offset_spans)
    )
    return ParquetPart(
        (text[:first].tobytes(), text[stop:].tobytes()),
        int(footer.numbers[0]),
        groups,
        min([start, *(at for at, _ in (*column_spans, *offset_spans))]),
        row_groups,
        _joined(file, column_spans),
        offset_indexes,
    )


def _spans(opened: Extracted, role: _NumberRole) -> Sequence[tuple[int, int]]:
    """Return starts and stops of indexes; `role` marks their starts, and `role + 1` their sizes."""
    starts = opened.numbers[opened.roles == role]
    sizes = opened.numbers[opened.roles == role + 1]
    return list(zip(starts.tolist(), (starts + sizes).tolist(), strict=True))


def _joined(file: memoryview, spans: Sequence[tuple[int, int]]) -> bytes:
    return b"".join(file[start:stop] for start, stop in spans)


class Joiner(Struct):
    """Writer of a file from parts, of which there must be at least one.

    It keeps the metadata of each part, compressed, since metadata comes last in the file.

    Attributes:
        out: stream to write to.
    """

    out: BinaryIO
    _at: int = 0
    _rows: int = 0
    _groups: int = 0
    _frame: tuple[bytes, bytes] | None = None
    _kept: list[bytes] = field(default_factory=list)

    @property
    def begun(self) -> bool:
        """True if a part has been appended."""
        return self._frame is not None

    def append(self, part: ParquetPart, file: memoryview) -> None:
        """Append the row groups of a file, given its `take_apart` result.

        Raises:
            ValueError: its schema differs from that of the parts before it.
        """
        if self._frame is None:
            self._frame = part.frame
            self._write(MAGIC)
        if part.frame != self._frame:
            raise ValueError("Parquet files of different schemas")
        shift = self._at - len(MAGIC)
        self._write(file[len(MAGIC) : part.stop])
        row_groups, indexes = part.row_groups, part.offset_indexes
        is_end = indexes.roles == _NumberRole.END
        values = np.where(is_end, NOTHING, _shifted(indexes.numbers, shift))
        offset_indexes, ends = fill(indexes, values)
        values = row_groups.numbers.copy()
        is_data = row_groups.roles == _NumberRole.DATA
        values[is_data] = _shifted(values[is_data], shift)
        values[row_groups.roles == _NumberRole.OFFSET_INDEX_SIZE] = np.diff(ends[is_end], prepend=0)
        moved = Extracted(row_groups.text, row_groups.places, values, row_groups.roles)
        kept = (moved, part.column_indexes, offset_indexes.tobytes())
        self._kept.append(zlib.compress(pickle.dumps(kept), zlib.Z_BEST_SPEED))
        self._rows += part.rows
        self._groups += part.groups

    def finish(self) -> None:
        """Write the indexes and the footer after the last row group."""
        if self._frame is None:
            raise ValueError("no Parquet file to join")
        column_index = self._at
        for kept in self._kept:
            self._write(_unpacked(kept)[1])
        offset_index = self._at
        for kept in self._kept:
            self._write(_unpacked(kept)[2])
        start = self._at
        self._write(self._frame[0] + _varint(self._rows * 2) + _list_field(self._groups))
        ordinal = 0
        for kept in self._kept:
            opened, column_indexes, offset_indexes = _unpacked(kept)
            values = self._values(opened, column_index, offset_index, ordinal)
            self._write(fill(opened, values)[0].tobytes())
            column_index += len(column_indexes)
            offset_index += len(offset_indexes)
            ordinal += int(np.count_nonzero(opened.roles == _NumberRole.END))
        self._write(self._frame[1])
        self._write((self._at - start).to_bytes(4, "little") + MAGIC)

    def _values(
        self, opened: Extracted, column_index: int, offset_index: int, ordinal: int
    ) -> Ints:
        """Return the numbers of row groups whose indexes begin at the given offsets."""
        values, roles = opened.numbers, opened.roles
        for role, first in (
            (_NumberRole.COLUMN_INDEX, column_index),
            (_NumberRole.OFFSET_INDEX, offset_index),
        ):
            sizes = values[roles == role + 1]
            values[roles == role] = first + np.cumsum(sizes) - sizes
        is_ordinal = roles == _NumberRole.ORDINAL
        ordinals = ordinal + np.arange(np.count_nonzero(is_ordinal))
        values[is_ordinal] = ordinals if self._groups <= _ORDINALS else LEFT_OUT
        values[roles == _NumberRole.END] = NOTHING
        return values

    def _write(self, data: bytes | memoryview) -> None:
        self.out.write(data)
        self._at += len(data)


def _unpacked(kept: bytes) -> tuple[Extracted, bytes, bytes]:
    opened, column_indexes, offset_indexes = pickle.loads(zlib.decompress(kept))
    return opened, column_indexes, offset_indexes


def _shifted(places: Ints, shift: int) -> Ints:
    """Return offsets moved by `shift`; 0, where the magic is, means none and stays."""
    return np.where(places > 0, places + shift, 0)


def _list_field(groups: int) -> bytes:
    """Return the header of the next field, a list of structs, and the header of that list."""
    head = bytes([1 << 4 | LIST])
    if groups < 15:
        return head + bytes([groups << 4 | STRUCT])
    return head + bytes([15 << 4 | STRUCT]) + _varint(groups)


def _varint(value: int) -> bytes:
    coded = bytearray()
    while value > 127:
        coded.append(value & 127 | 128)
        value >>= 7
    return bytes([*coded, value])
