"""Records of one partition: the rows of its tree, with the log's newest operations over them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from je_tools.formats.je.btree.keysort import equal_keys, search_sorted
from je_tools.formats.spans import Spans

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.ignite.rows import RowBatch
    from je_tools.ignite.logical.updates import Updates

LOG_ROWS = 1 << 14
"""Largest number of records of the log in a batch."""

LOG_BYTES = 1 << 24
"""Bytes of values after which a batch of records of the log ends."""


class CacheRecords(Struct, frozen=True):
    """Records of caches; one element each.

    Attributes:
        cache_id: int64, cache.
        partition: partition of all of them.
        key_type, value_type: int64, kinds of the cache objects; -1 in the metastorage.
        keys, values: their bytes.
        topology, node, order: int64, version.
        expire_ms: int64, time of expiry; 0 for none.
        in_log: True if all of them are from the log, False if they are from pages.
    """

    cache_id: Ints
    partition: int
    key_type: Ints
    value_type: Ints
    keys: Spans
    values: Spans
    topology: Ints
    node: Ints
    order: Ints
    expire_ms: Ints
    in_log: bool

    def __len__(self) -> int:
        return len(self.cache_id)

    def select(self, keep: npt.NDArray[np.generic]) -> CacheRecords:
        """Select records by a mask or by an index array."""
        return CacheRecords(
            self.cache_id[keep],
            self.partition,
            key_type=self.key_type[keep],
            value_type=self.value_type[keep],
            keys=self.keys.select(keep),
            values=self.values.select(keep),
            topology=self.topology[keep],
            node=self.node[keep],
            order=self.order[keep],
            expire_ms=self.expire_ms[keep],
            in_log=self.in_log,
        )


def readable_records(batch: RowBatch, partition: int) -> CacheRecords:
    """Return the rows of a batch that could be read."""
    rows = CacheRecords(
        batch.cache_id,
        partition,
        key_type=batch.key_type,
        value_type=batch.value_type,
        keys=Spans(batch.data, batch.key_start, batch.key_size),
        values=Spans(batch.data, batch.value_start, batch.value_size),
        topology=batch.topology,
        node=batch.node,
        order=batch.order,
        expire_ms=batch.expire_ms,
        in_log=False,
    )
    return rows.select(batch.fault == 0) if batch.fault.any() else rows


class PartitionOverlay:
    """The newest operations of the log on the keys of one partition."""

    def __init__(self, updates: Updates, caches: Sequence[int], partition: int) -> None:
        """Select the operations on these caches."""
        self._partition = partition
        found = {cache: updates.of_partition(cache, partition) for cache in caches}
        self._caches = {cache: some for cache, some in found.items() if len(some)}

    def unchanged(self, rows: CacheRecords) -> CacheRecords:
        """Return the rows whose keys the log does not name."""
        keep = np.ones(len(rows), np.bool_)
        for cache, updates in self._caches.items():
            at = np.flatnonzero(rows.cache_id == cache)
            keep[at] = ~_are_in(rows.keys.select(at), updates.keys)
        return rows if keep.all() else rows.select(keep)

    def records(self) -> Iterator[CacheRecords]:
        """Yield the records that the log puts, by cache and bytes of the key."""
        for updates in self._caches.values():
            put = updates.select(np.flatnonzero(~updates.is_removed))
            for start, stop in _chunks(put.columns.value_size.astype(np.int64)):
                yield _of_log(put.select(np.arange(start, stop)), self._partition)


def _are_in(keys: Spans, known: Spans) -> Mask:
    """Return a mask of the keys that are among known ones, which ascend."""
    place = search_sorted(known, keys, two_part=False)
    inside = place < len(known)
    found = known.select(np.where(inside, place, 0))
    return inside & equal_keys(found, keys)


def _chunks(sizes: Ints) -> Iterator[tuple[int, int]]:
    """Yield half-open ranges of rows, each of a bounded number of rows and bytes."""
    ends = np.cumsum(np.maximum(sizes, 0))
    start = 0
    while start < len(sizes):
        base = int(ends[start - 1]) if start else 0
        full = int(np.searchsorted(ends, base + LOG_BYTES, side="right"))
        stop = min(max(full, start + 1), start + LOG_ROWS, len(sizes))
        yield start, stop
        start = stop


def _of_log(updates: Updates, partition: int) -> CacheRecords:
    columns = updates.columns
    names = ("cache_id", "key_type", "value_type", "topology", "node", "order", "expire_ms")
    wide = {name: getattr(columns, name).astype(np.int64) for name in names}
    values = updates.read_values()
    return CacheRecords(**wide, partition=partition, keys=updates.keys, values=values, in_log=True)
