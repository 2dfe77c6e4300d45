"""Records of the log that a repair gives up: where they are, and what their bytes still show."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.errors import InputError
from je_tools.formats.ignite.records import decode_entries
from je_tools.formats.ignite.types import DATA_NOS, EntryOperation, type_name
from je_tools.formats.ignite.walk import MIN_SIZE, NO_TYPE, RecordColumns, RecordRows
from je_tools.formats.spans import Spans
from je_tools.ignite.segment_files import open_segment_bytes

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints
    from je_tools.formats.files.source import Bytes
    from je_tools.formats.ignite.records import DataEntries
    from je_tools.formats.ignite.segments import SegmentHeader
    from je_tools.ignite.repairs.log_state import SegmentDamage
    from je_tools.ignite.segment_files import SegmentFile

ENTRIES_MAX = 1000
"""Largest number of entries that are shown of one record."""

_SIZE_MAX = 1 << 24
"""Bytes of damage up to which its record is decoded."""


class LostEntry(Struct, frozen=True):
    """An entry of a cache, as damaged bytes show it.

    Attributes:
        cache_id: cache.
        op: operation, as in the log.
        key_type, key: kind and bytes of the key.
    """

    cache_id: int
    op: str
    key_type: int
    key: bytes


class LostLogRecords(Struct, frozen=True):
    """Records that a repaired log does not have.

    Attributes:
        segment, offset: place of the first.
        size: bytes that they take; None for the rest of the log.
        type_no: type of the first, which damage may have changed; None if unknown.
        is_one: True if the bytes are those of a single record.
        entries: entries of the first, up to ENTRIES_MAX, if it is a data record that decodes.
        more_entries: number of its other entries.
    """

    segment: int
    offset: int
    size: int | None
    type_no: int | None = None
    is_one: bool = False
    entries: tuple[LostEntry, ...] = ()
    more_entries: int = 0

    @property
    def text(self) -> str:
        """Text on what is lost at the place."""
        if self.size is None:
            return "all records from here on"
        name = "" if self.type_no is None else type_name(self.type_no)
        if self.is_one:
            return f"one record, probably {name}"
        return "unreadable records" + f", the first of them probably {name}" * bool(name)


def lost_records(file: SegmentFile, damage: SegmentDamage) -> LostLogRecords:
    """Return what damaged bytes show of the records that were there.

    Their checksums are wrong, so nothing of it is certain.
    """
    size, stop = damage.end - damage.start, damage.stop
    found = LostLogRecords(damage.index, damage.start, size)
    if stop is None or stop.type_no == NO_TYPE:
        return found
    data = None
    if file.header is not None and stop.type_no in DATA_NOS and size <= _SIZE_MAX:
        data = _bytes_of(file, damage)
    type_no, is_one = stop.type_no, stop.length == size
    for length in dict.fromkeys((size, stop.length)):
        if data is None or file.header is None or not MIN_SIZE <= length <= size:
            continue
        entries, more = _entries(file.header, type_no, data[:length])
        if entries:
            is_one = length == size
            return LostLogRecords(damage.index, damage.start, size, type_no, is_one, entries, more)
    return LostLogRecords(damage.index, damage.start, size, type_no, is_one)


def _bytes_of(file: SegmentFile, damage: SegmentDamage) -> Bytes | None:
    try:
        with open_segment_bytes(file.path, is_packed=file.is_packed) as source:
            return source.read(damage.start, damage.end).copy()
    except InputError:
        return None


def _entries(header: SegmentHeader, type_no: int, data: Bytes) -> tuple[tuple[LostEntry, ...], int]:
    """Return the first entries of a data record, and the number of those after ENTRIES_MAX.

    There are none if it does not decode to its end.
    """
    at = np.zeros(1, np.uint32)
    length, types = np.array([len(data)], np.uint32), np.array([type_no], np.uint8)
    columns = RecordColumns(at, at, length, types)
    found: list[LostEntry] = []
    count = 0
    for batch in decode_entries(RecordRows(header, columns, data, 0)):
        if batch.bad.any():
            return (), 0
        rows = np.flatnonzero(batch.entries.is_encrypted == 0)
        count += len(rows)
        found += _plain(batch.entries, data, rows[: ENTRIES_MAX - len(found)])
    return tuple(found), count - len(found)


def _plain(entries: DataEntries, data: Bytes, rows: Ints) -> list[LostEntry]:
    """Return some entries, which are not encrypted."""
    keys = Spans(data, entries.key_start, entries.key_size)
    names = {int(each): each.name for each in EntryOperation}
    return [
        LostEntry(
            int(entries.cache_id[row]),
            names.get(int(entries.op[row]), str(int(entries.op[row]))),
            int(entries.key_type[row]),
            keys[row] or b"",
        )
        for row in rows.tolist()
    ]
