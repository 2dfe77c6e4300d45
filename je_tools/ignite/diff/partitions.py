"""Partitions of a node after recovery: state, size, update counter and hashes.

Source: IdleVerifyUtility.calculatePartitionHash, GridDhtLocalPartition,
GridCacheDatabaseSharedManager.applyLogicalUpdates, Ignite 2.18.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.formats.ignite.hashes import key_hashes, value_digests, version_hashes, wrapped
from je_tools.ignite.logical.counters import Counter, advanced
from je_tools.ignite.records.node_records import CacheFilter, NodeRecords
from je_tools.ignite.records.recovered import recover_node

if TYPE_CHECKING:
    from je_tools.ignite.checkpoints.node_checkpoints import NodeCheckpoints
    from je_tools.ignite.records.merge import CacheRecords
    from je_tools.ignite.records.partition_records import PartitionRecords
    from je_tools.ignite.records.problems import MissingRecords
    from je_tools.ignite.records.recovered import RecoveredNode
    from je_tools.ignite.store import Node
    from je_tools.log.scan_options import Progress


class PartitionFacts(Struct, frozen=True):
    """One partition of a node.

    Attributes:
        node: name of the node.
        group: name of the cache group.
        partition: number.
        state: state, by name.
        size: number of records.
        counter: update counter; None if the meta page cannot be read.
        hash: sum of the hashes of keys and values of records that do not expire; None if the hash
            of a key is not known.
        version_hash: sum of the hashes of their versions.
        is_complete: False if records could not be read.
    """

    node: str
    group: str
    partition: int
    state: str
    size: int
    counter: Counter | None
    hash: int | None
    version_hash: int
    is_complete: bool


class NodePartitions(Struct, frozen=True):
    """The partitions of a node.

    Attributes:
        node: the node.
        recovered: what recovery does to it.
        partitions: by group and number.
        records: reader of the records of these partitions.
        problems: what could not be read, now or by `records`.
        known: partitions of the wanted caches, wanted or not.
    """

    node: Node
    recovered: RecoveredNode
    partitions: dict[tuple[str, int], PartitionFacts]
    records: NodeRecords
    problems: list[MissingRecords]
    known: set[int]

    @property
    def checkpoints(self) -> NodeCheckpoints:
        """Checkpoints of the node."""
        return self.recovered.checkpoints


class _Sums:
    """Sums of hashes of the records of one partition."""

    def __init__(self) -> None:
        self.size = self.keys_and_values = self.versions = 0
        self.is_known = True

    def add(self, records: CacheRecords) -> None:
        self.size += len(records)
        records = records.select(records.expire_ms == 0)
        hashes, known = key_hashes(records.keys)
        self.is_known = self.is_known and bool(known.all())
        self.keys_and_values += int(hashes.sum())
        self.keys_and_values += int((value_digests(records.values) & 0xFFFF_FFFF).sum())
        found = version_hashes(records.topology, records.node, records.order)
        self.versions += int((found & 0xFFFF_FFFF).sum())


def node_partitions(
    node: Node, wanted: CacheFilter, threads: int, progress: Progress | None = None
) -> NodePartitions:
    """Return the partitions of a node as recovery would leave them.

    Args:
        node: the node.
        wanted: caches and partitions to read.
        threads: number of segments to read at once in search of checkpoints.
        progress: called with the bytes of each segment that was read; None for nothing.

    Raises:
        InputError: the node has no folder of markers, or they do not show where recovery begins.
        StoppedError: a file shrank, vanished or was replaced while it was read.
    """
    recovered = recover_node(node, threads, progress)
    reader = NodeRecords(node, recovered, wanted)
    found = {}
    for each in reader.partitions():
        before, sums = len(reader.problems), _Sums()
        for records in each.batches():
            sums.add(records)
        place = each.place
        found[place.group, place.partition] = PartitionFacts(
            node.name,
            place.group,
            place.partition,
            state=recovered.state_of(place.group_id, place.partition, each.stored),
            size=sums.size,
            counter=_counter(recovered, each),
            hash=wrapped(sums.keys_and_values) if sums.is_known else None,
            version_hash=wrapped(sums.versions),
            is_complete=len(reader.problems) == before and not each.unconfigured,
        )
    return NodePartitions(node, recovered, found, reader, reader.problems, reader.known)


def _counter(recovered: RecoveredNode, partition: PartitionRecords) -> Counter | None:
    stored, place = partition.stored, partition.place
    if partition.is_new:
        before = Counter(0)
    elif stored is None or stored.beyond is None:
        return None
    else:
        before = Counter(stored.meta.update_counter, stored.beyond)
    ranges = (
        (each.start, each.count)
        for each in recovered.logical.counters
        if each.partition == place.partition
        and (each.cache_id in place.caches or each.group_id == place.group_id)
    )
    return advanced(before, ranges)
