"""The VLSN index as its database has it, record by record, with unreadable records.

Source: VLSNIndex.dumpDb, VLSNBucket, GhostBucket, VLSNRange, JE 18.3.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.formats.je.internal.names import VLSN_MAP_DB
from je_tools.formats.je.internal.records import Unreadable, read_record
from je_tools.formats.je.internal.replication import GhostBucket, VlsnBucket, VlsnRange
from je_tools.formats.je.tuples import TupleError, TupleReader, decode_whole
from je_tools.recovery.internal_databases import internal_database
from je_tools.vlsn.index import EMPTY_RANGE, Bucket, VlsnIndex, is_plausible

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from je_tools.formats.arrays import Ints
    from je_tools.recovery.snapshot import Snapshot

_UNREADABLE = Unreadable("its entry is damaged or missing")


class IndexRecord(Struct, frozen=True):
    """A record of the VLSN index.

    Attributes:
        key: the VLSN in its key; RANGE_KEY for the range, None if the key is not a number.
        lsn: LSN of its entry; NULL_LSN if unknown.
        record: the range, a bucket, or the reason why it cannot be read.
    """

    key: int | None
    lsn: int
    record: VlsnRange | VlsnBucket | GhostBucket | Unreadable


class Mappings(Struct, frozen=True):
    """Mappings of an index, in the order of its buckets. The last entry of a bucket is one too.

    Attributes:
        vlsn, lsn: int64.
        bucket: int64; index of the bucket.
    """

    vlsn: Ints
    lsn: Ints
    bucket: Ints

    def __len__(self) -> int:
        return len(self.vlsn)

    def in_vlsn_order(self) -> Mappings:
        """Return them in the order of their VLSNs, which is the order of intact buckets."""
        return self._by(self.vlsn)

    def in_lsn_order(self) -> Mappings:
        """Return them in the order of their LSNs."""
        return self._by(self.lsn)

    def _by(self, column: Ints) -> Mappings:
        order = np.argsort(column, kind="stable")
        return Mappings(self.vlsn[order], self.lsn[order], self.bucket[order])


class StoredIndex(Struct, frozen=True):
    """The VLSN index as stored.

    Attributes:
        records: in key order: the range first, then the buckets.
        db_id: id of its database; None if there is none.
        is_damaged: True if a node of its tree is damaged, so that records may be missing.
    """

    records: tuple[IndexRecord, ...]
    db_id: int | None
    is_damaged: bool

    @property
    def range(self) -> VlsnRange | None:
        """The range record; None if it is missing or cannot be read."""
        found = [each.record for each in self.records if isinstance(each.record, VlsnRange)]
        return found[0] if found else None

    @property
    def buckets(self) -> list[Bucket]:
        """The readable buckets in key order."""
        return [
            each.record
            for each in self.records
            if isinstance(each.record, VlsnBucket | GhostBucket)
        ]

    @property
    def unreadable(self) -> list[IndexRecord]:
        """Records that cannot be read."""
        return [each for each in self.records if isinstance(each.record, Unreadable)]

    @property
    def readable(self) -> VlsnIndex:
        """The index without its unreadable records."""
        return VlsnIndex(self.range or EMPTY_RANGE, self.buckets)


def read_stored(snapshot: Snapshot) -> StoredIndex:
    """Read the VLSN index; add unreadable nodes and records to `snapshot.faults`."""
    database = internal_database(snapshot, VLSN_MAP_DB)
    if database is None:
        return StoredIndex((), None, False)
    records = tuple(_records(snapshot))
    faults = [each for each in snapshot.faults.damage if each.db_id == database.db_id]
    # The fault of a record names its key; any other is of a node.
    is_damaged = any(each.low is None or each.low != each.high for each in faults)
    return StoredIndex(records, database.db_id, is_damaged)


def _records(snapshot: Snapshot) -> Iterator[IndexRecord]:
    database = internal_database(snapshot, VLSN_MAP_DB)
    assert database is not None
    for batch in snapshot.records(database):
        for row, lsn in enumerate(batch.lsn.tolist()):
            key, data = batch.key[row] or b"", batch.data[row]
            record = _UNREADABLE if data is None else read_record(VLSN_MAP_DB, key, data)
            assert isinstance(record, VlsnRange | VlsnBucket | GhostBucket | Unreadable)
            yield IndexRecord(_number(key), lsn, record)


def _number(key: bytes) -> int | None:
    try:
        return decode_whole(key, TupleReader.i64)
    except TupleError:
        return None


def mappings_of(buckets: Sequence[Bucket]) -> Mappings:
    """Return the mappings of buckets; ghost buckets and implausible ones have none."""
    vlsns, lsns, places = [], [], []
    for place, bucket in enumerate(buckets):
        if not isinstance(bucket, VlsnBucket) or not is_plausible(bucket):
            continue
        offsets = np.array(bucket.offsets, np.int64)
        known = np.flatnonzero(offsets)
        vlsn = bucket.first + known * bucket.stride
        lsn = offsets[known] | bucket.file_no << 32
        if not len(vlsn) or vlsn[-1] != bucket.last or lsn[-1] != bucket.last_lsn:
            vlsn, lsn = np.append(vlsn, bucket.last), np.append(lsn, bucket.last_lsn)
        vlsns.append(vlsn)
        lsns.append(lsn)
        places.append(np.full(len(vlsn), place, np.int64))
    nothing = np.empty(0, np.int64)
    return Mappings(*(np.concatenate([nothing, *each]) for each in (vlsns, lsns, places)))
