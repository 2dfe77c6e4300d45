"""Payloads of records in columns: the fields of each type, and the entries of data records."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING
from uuid import UUID

import numpy as np
from msgspec import Struct

from je_tools.formats import _native
from je_tools.formats.ignite.types import COLUMN_COUNTS, RECORD_TYPES, FieldCoding
from je_tools.formats.ignite.walk import HEADER_SIZE, MIN_SIZE, RecordRows

if TYPE_CHECKING:
    import numpy.typing as npt

    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.files.source import Bytes
    from je_tools.formats.ignite.types import RecordField

ENTRY_COLUMNS = 24
"""Number of columns of `DataEntries` that the extension returns."""

ENTRIES_MAX = 1 << 16
"""Largest number of entries that are decoded at once."""


class Payloads(Struct, frozen=True):
    """Payloads as spans of a buffer; int64 starts and ends."""

    data: Bytes
    starts: Ints
    ends: Ints
    is_big: bool

    @staticmethod
    def of(rows: RecordRows) -> Payloads:
        """Return the payloads of records."""
        starts = rows.columns.at.astype(np.int64) - rows.base + HEADER_SIZE
        ends = starts + rows.columns.length - MIN_SIZE
        return Payloads(rows.data, starts, ends, rows.header.is_big)


class DecodedRecords(Struct, frozen=True):
    """Fields of records of one type.

    Attributes:
        columns: int64 (n,) by name. A field of bytes has `NAME_start` and `NAME_size`, spans of the
            rows' data; a version has `NAME_parts`, `NAME_topology`, `NAME_node` and `NAME_order`.
        bad: bool (n,); payloads that do not decode to their end.
    """

    columns: dict[str, Ints]
    bad: Mask


_PARTS = ("parts", "topology", "node", "order")


def field_columns(fields: Iterable[RecordField]) -> list[str]:
    """Return the names of the columns that fields have in `DecodedRecords`, in their order."""
    names: list[str] = []
    for field in fields:
        if field.coding is FieldCoding.VERSION:
            names += [f"{field.name}_{part}" for part in _PARTS]
        elif field.coding in COLUMN_COUNTS:
            names += [f"{field.name}_start", f"{field.name}_size"]
        else:
            names.append(field.name)
    return names


def decode_type(rows: RecordRows, type_no: int) -> DecodedRecords:
    """Decode records that are all of one type."""
    fields = RECORD_TYPES[type_no].fields
    codings = bytes(field.coding for field in fields)
    columns, bad = _native.decode_fields(Payloads.of(rows), codings)
    return DecodedRecords(dict(zip(field_columns(fields), columns, strict=True)), bad)


class DataEntries(Struct, frozen=True):
    """Entries of data records; int64 (n,) each.

    Attributes:
        record: row of the record.
        start, size: span of the entry in the rows' data.
        is_encrypted: 1 if the entry is only cipher text, which is then its value.
        group_id: cache group of an encrypted entry; -1 for others.
        cache_id: cache.
        key_type, value_type: kind of the cache object; -1 for none.
        key_start, key_size, value_start, value_size: spans in the rows' data; size -1 for null.
        op: operation, an `EntryOperation`.
        near_parts, near_topology, near_node, near_order: version of the transaction; 0 parts for
            an update outside of transactions.
        topology, node, order: version of the entry.
        partition, counter: partition, and its update counter.
        expire_ms: time of expiry; 0 for none.
        flags: bits 1 primary, 2 rebalanced, 4 from a store; -1 for none.
    """

    record: Ints
    start: Ints
    size: Ints
    is_encrypted: Ints
    group_id: Ints
    cache_id: Ints
    key_type: Ints
    key_start: Ints
    key_size: Ints
    value_type: Ints
    value_start: Ints
    value_size: Ints
    op: Ints
    near_parts: Ints
    near_topology: Ints
    near_node: Ints
    near_order: Ints
    topology: Ints
    node: Ints
    order: Ints
    partition: Ints
    counter: Ints
    expire_ms: Ints
    flags: Ints

    def __len__(self) -> int:
        return len(self.record)

    def select(self, keep: npt.NDArray[np.generic]) -> DataEntries:
        """Select entries by a mask or by an index array."""
        return DataEntries(*(getattr(self, name)[keep] for name in self.__struct_fields__))


class EntryBatch(Struct, frozen=True):
    """Entries of data records in their order.

    Attributes:
        entries: at most ENTRIES_MAX entries.
        bad: bool (n,); records that do not decode.
        next_record: record of the next entry, which may be that of the last one; None at the end.
    """

    entries: DataEntries
    bad: Mask
    next_record: int | None


def decode_entries(rows: RecordRows) -> Iterator[EntryBatch]:
    """Yield the entries of records of DATA_NOS; at least one batch.

    A record may have millions of entries, and each takes more memory than its bytes.
    """
    payloads, types = Payloads.of(rows), rows.columns.type_no
    columns, bad, start = _native.decode_entries(payloads, types, None)
    yield EntryBatch(DataEntries(*columns), bad, None if start is None else start[0])
    while start is not None:
        columns, _, start = _native.decode_entries(payloads, types, start)
        yield EntryBatch(DataEntries(*columns), bad, None if start is None else start[0])


class PartitionAt(Struct, frozen=True):
    """A partition at a checkpoint: its number, size, update counter and state."""

    partition: int
    size: int
    counter: int
    state: int


class CheckpointFacts(Struct, frozen=True):
    """Content of a CHECKPOINT_RECORD.

    Attributes:
        checkpoint: id.
        mark: segment, offset and length of the record from which pages are replayed; None if it is
            the end of the previous checkpoint.
        groups: partitions of each cache group, by the id of the group.
    """

    checkpoint: UUID
    mark: tuple[int, int, int] | None
    groups: dict[int, list[PartitionAt]]


def decode_checkpoint(payload: bytes, *, is_big: bool) -> CheckpointFacts | None:
    """Return the content of a CHECKPOINT_RECORD; None if it does not decode to its end.

    Source: RecordDataV2Serializer.readPlainRecord, CacheState, Ignite 2.18.0.
    """
    order = ">" if is_big else "<"
    partition = struct.Struct(f"{order}HqqB")
    try:
        high, low, has_mark = struct.unpack_from(f"{order}QQB", payload)
        at, mark = 17, None
        if has_mark:
            mark = struct.unpack_from(f"{order}qii", payload, at)
            at += 16
        (group_count,) = struct.unpack_from(f"{order}H", payload, at)
        at += 2
        groups: dict[int, list[PartitionAt]] = {}
        for _ in range(group_count):
            group, count = struct.unpack_from(f"{order}iH", payload, at)
            at += 6
            stop = at + count * partition.size
            if stop > len(payload):
                return None
            groups[group] = [PartitionAt(*row) for row in partition.iter_unpack(payload[at:stop])]
            at = stop
    except struct.error:
        return None
    if at + 1 != len(payload):
        return None
    return CheckpointFacts(UUID(int=high << 64 | low), mark, groups)
