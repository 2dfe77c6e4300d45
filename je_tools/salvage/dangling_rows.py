"""Dangling references of a whole log: numbers in a table, keys and data in a heap."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from je_tools.core.spill import ByteHeap, RowTable
from je_tools.formats.rows import read_only
from je_tools.formats.spans import Spans
from je_tools.log.records import Records
from je_tools.salvage.dangling import DanglingReferences

if TYPE_CHECKING:
    from je_tools.core.spill import Spill
    from je_tools.formats.arrays import Ints, Mask


IN_KEY = -1
"""Place of data that the stored key holds after the key."""


class DanglingRows(Struct, frozen=True):
    """Dangling references without the bytes of their keys and data.

    Attributes:
        order: int64; ascends in the order in which they were found.
        stored_start, stored_size: int64; place of the stored key in the heap.
        key_size: int64; bytes of the stored key that are the key.
        data_start: int64; place of the data in the heap, or IN_KEY.
        data_size: int64; negative for null, as all sizes.
        db_id, first, second, by, gone, by_slot: as in `DanglingReferences`.
        lsn, vlsn, modified_ms, created_ms, expires_ms, tombstone: as in `Records`.
    """

    order: Ints
    first: Ints
    second: Ints
    db_id: Ints
    lsn: Ints
    by: Ints
    vlsn: Ints
    modified_ms: Ints
    created_ms: Ints
    expires_ms: Ints
    stored_start: Ints
    stored_size: Ints
    key_size: Ints
    data_start: Ints
    data_size: Ints
    tombstone: Mask
    gone: Mask
    by_slot: Mask

    def __len__(self) -> int:
        return len(self.order)

    def columns(self) -> list[npt.NDArray[Any]]:
        """Return the arrays, in the order of DANGLING_KINDS."""
        return [getattr(self, name) for name in self.__struct_fields__]

    def select(self, keep: npt.NDArray[Any] | slice) -> DanglingRows:
        """Return the rows of a mask, of an index array, or of a slice."""
        return DanglingRows(*(column[keep] for column in self.columns()))


_MASKS = ("tombstone", "gone", "by_slot")
DANGLING_KINDS = tuple(
    np.bool_ if name in _MASKS else np.int64 for name in DanglingRows.__struct_fields__
)
"""Types of the columns of `DanglingRows`."""


class DanglingTable:
    """Dangling references of a log, in partitions by the identities of their records."""

    def __init__(self, spill: Spill) -> None:
        digest = DanglingRows.__struct_fields__.index("second")
        self._rows = RowTable(spill, DANGLING_KINDS, digest)
        self._heap = ByteHeap(spill)

    def append(self, found: DanglingReferences) -> None:
        """Append references.

        Raises:
            RefusedError: a temporary file cannot be written.
        """
        records, stored = found.records, found.stored
        is_apart = stored.sizes == records.key.sizes
        data = records.data.select(is_apart)
        data_start = np.full(len(found), IN_KEY, np.int64)
        stored_start = self._heap.append(stored)
        data_start[is_apart] = self._heap.append(data)
        rows = DanglingRows(
            order=len(self._rows) + np.arange(len(found), dtype=np.int64),
            first=found.first,
            second=found.second,
            db_id=found.db_id,
            lsn=records.lsn,
            by=found.by,
            vlsn=records.vlsn,
            modified_ms=records.modified_ms,
            created_ms=records.created_ms,
            expires_ms=records.expires_ms,
            stored_start=stored_start,
            stored_size=stored.sizes,
            key_size=records.key.sizes,
            data_start=data_start,
            data_size=records.data.sizes,
            tombstone=records.tombstone,
            gone=found.gone,
            by_slot=found.by_slot,
        )
        self._rows.append(rows.columns())

    def read(self, partition: int) -> DanglingRows:
        """Return the rows of a partition, once.

        Raises:
            RefusedError: a temporary file cannot be read.
        """
        return DanglingRows(*self._rows.read(partition))

    def references(self, rows: DanglingRows) -> DanglingReferences:
        """Return rows, in the order in which they were found, with their keys and data.

        Raises:
            RefusedError: a temporary file cannot be read.
        """
        stored = self._heap.read(rows.stored_start, rows.stored_size)
        is_apart = rows.data_start != IN_KEY
        apart = self._heap.read(rows.data_start[is_apart], rows.data_size[is_apart])
        buffer, moved = stored.data, 0
        if len(apart) and apart.data is not buffer:
            buffer, moved = read_only(np.concatenate((buffer, apart.data))), len(buffer)
        data_start = stored.starts + rows.key_size
        data_start[is_apart] = apart.starts + moved
        records = Records(
            Spans(buffer, stored.starts, rows.key_size),
            Spans(buffer, data_start, rows.data_size),
            rows.lsn,
            rows.vlsn,
            rows.modified_ms,
            rows.created_ms,
            rows.expires_ms,
            rows.tombstone,
        )
        stored = Spans(buffer, stored.starts, stored.sizes)
        return DanglingReferences(
            records, stored, rows.db_id, rows.first, rows.second, rows.gone, rows.by, rows.by_slot
        )
