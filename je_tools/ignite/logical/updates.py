"""The logical part of recovery: the newest operation on each key of the log.

Source: GridCacheDatabaseSharedManager.applyLogicalUpdates, applyUpdate, Ignite 2.18.0.
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from je_tools.errors import InputError
from je_tools.formats.ignite.markers import MarkerKind, Pointer
from je_tools.formats.ignite.types import EntryOperation
from je_tools.formats.je.btree.keysort import group_keys
from je_tools.ignite.checkpoints.node_checkpoints import node_checkpoints
from je_tools.ignite.logical.counters import CounterRange, counter_ranges
from je_tools.ignite.logical.entries import EntryCollector, EntryColumns, of_versions
from je_tools.ignite.logical.log_range import LogRange, WalEnd

if TYPE_CHECKING:
    from je_tools.core.spill import ByteHeap
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.spans import Spans
    from je_tools.ignite.checkpoints.node_checkpoints import NodeCheckpoints
    from je_tools.ignite.store import Node
    from je_tools.log.scan_options import Progress


class Updates(Struct, frozen=True, dict=True):
    """The newest operation on each key, by cache, partition and bytes of the key.

    Attributes:
        columns: the operations.
        keys: bytes of the keys.
        heap: bytes of the values; they may be in a temporary file.
    """

    columns: EntryColumns
    keys: Spans
    heap: ByteHeap

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def is_removed(self) -> Mask:
        """Mask of the keys that are removed."""
        removed: Mask = self.columns.op == EntryOperation.DELETE
        return removed

    @cached_property
    def places(self) -> dict[tuple[int, int], tuple[int, int]]:
        """First row of each cache and partition, and the row after its last."""
        cache, partition = self.columns.cache_id, self.columns.partition
        is_first = np.ones(len(self), np.bool_)
        is_first[1:] = (cache[1:] != cache[:-1]) | (partition[1:] != partition[:-1])
        first = np.flatnonzero(is_first)
        names = zip(cache[first].tolist(), partition[first].tolist(), strict=True)
        edges = [*first.tolist(), len(self)]
        return dict(zip(names, pairwise(edges), strict=True))

    def select(self, keep: npt.NDArray[np.generic]) -> Updates:
        """Select keys by a mask or by an index array."""
        return Updates(self.columns.select(keep), self.keys.select(keep), self.heap)

    def of_partition(self, cache: int, partition: int) -> Updates:
        """Select the keys of a cache in a partition."""
        start, stop = self.places.get((cache, partition), (0, 0))
        return self.select(np.arange(start, stop))

    def read_values(self) -> Spans:
        """Read the values; that of a removed key is null.

        Raises:
            RefusedError: they are in a temporary file that cannot be read.
        """
        starts = self.columns.value_start.astype(np.int64)
        sizes = self.columns.value_size.astype(np.int64)
        # A heap is read in the order in which it was written.
        by_place = np.argsort(starts, kind="stable")
        found = self.heap.read(starts[by_place], sizes[by_place])
        back = np.empty(len(self), np.int64)
        back[by_place] = np.arange(len(self))
        return found.select(back)


class LogicalUpdates(Struct, frozen=True):
    """The logical part of the recovery of a node.

    Attributes:
        start: pointer from which it reads.
        end: place where the log ends for it.
        updates: newest operation on each key; those of the metastorage have METASTORAGE_ID.
        entry_count: number of operations that it applies, of which `updates` are the newest.
        left_out: number of entries of transactions that did not commit.
        uncommitted: versions of these transactions: topology, node, order.
        counters: update counters that it marks as applied.
        partition_states: newest state of partitions whose state the log changes, by group and
            number; DESTROYED for one that was destroyed.
        undecodable: number of records that do not decode.
        encrypted: number of encrypted entries; no other number counts them.
    """

    start: Pointer
    end: WalEnd
    updates: Updates
    entry_count: int
    left_out: int
    uncommitted: tuple[tuple[int, int, int], ...]
    counters: tuple[CounterRange, ...]
    partition_states: dict[tuple[int, int], int]
    undecodable: int
    encrypted: int


def logical_updates(
    node: Node,
    threads: int = 1,
    progress: Progress | None = None,
    checkpoints: NodeCheckpoints | None = None,
) -> LogicalUpdates:
    """Return what the logical part of recovery would do to the caches of a node.

    Args:
        node: the node.
        threads: number of segments to read at once in search of checkpoints.
        progress: called with the bytes of each segment that was read; None for nothing.
        checkpoints: its checkpoints, if they are known.

    Raises:
        InputError: the node has no folder of markers, or its markers do not show where recovery
            begins.
        StoppedError: a file shrank, vanished or was replaced while it was read.
    """
    found = checkpoints or node_checkpoints(node, threads, progress)
    return updates_from(node, logical_start(found))


def logical_start(found: NodeCheckpoints) -> Pointer:
    """Return the pointer from which the logical part reads: that of the newest begin.

    Raises:
        InputError: the marker of the newest begin has no pointer.
    """
    begins = [each for each in found.folder.markers if each.name.kind is MarkerKind.START]
    begin = max(begins, key=lambda each: each.name.time_ms, default=None)
    if begin is None:
        if not found.folder.markers:
            return Pointer(0, 0, 0)
        raise InputError(
            f"{found.node}: no begin marker of a checkpoint; `je-tools ignite checkpoints` shows "
            "what there is"
        )
    if begin.pointer is None:
        raise InputError(f"{begin.path}: {begin.problem}; recovery cannot tell where to begin")
    return begin.pointer


def updates_from(node: Node, start: Pointer) -> LogicalUpdates:
    """Return what the logical part of recovery would do from a pointer on.

    Raises:
        StoppedError: a file shrank, vanished or was replaced while it was read.
    """
    sizes = (each.size for each in node.segments)
    collector, log = EntryCollector(sum(sizes)), LogRange(node, start)
    for rows in log:
        collector.add(rows)
    assert log.end is not None
    applied, uncommitted = collector.entries(), collector.uncommitted
    is_left_out = of_versions(applied, uncommitted)
    if is_left_out.any():
        applied = applied.select(np.flatnonzero(~is_left_out))
    places = applied.key_start.astype(np.int64), applied.key_size.astype(np.int64)
    keys = collector.keys.read(*places)
    newest = newest_of_keys(applied, keys)
    return LogicalUpdates(
        start,
        log.end,
        Updates(applied.select(newest), keys.select(newest), collector.values),
        entry_count=len(applied),
        left_out=int(np.count_nonzero(is_left_out)),
        uncommitted=tuple(sorted(uncommitted)),
        counters=counter_ranges(applied, collector.rollbacks),
        partition_states=collector.partition_states,
        undecodable=collector.undecodable,
        encrypted=collector.encrypted,
    )


def newest_of_keys(entries: EntryColumns, keys: Spans) -> Ints:
    """Return the index of the last entry of each key, by cache, partition and bytes of the key."""
    if not len(entries):
        return np.empty(0, np.int64)
    order, is_new = group_keys(keys, two_part=False)
    rank = np.empty(len(keys), np.int64)
    rank[order] = np.cumsum(is_new)
    sorted_rows = np.lexsort((rank, entries.partition, entries.cache_id))
    columns = (rank, entries.partition, entries.cache_id)
    ordered = [column[sorted_rows] for column in columns]
    differs = np.zeros(len(keys) - 1, np.bool_)
    for column in ordered:
        differs |= column[1:] != column[:-1]
    # The sort is stable, so that the last of equal keys is the newest.
    found: Ints = sorted_rows[np.append(differs, True)]
    return found
