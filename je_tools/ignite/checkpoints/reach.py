"""Reach of historical rebalance: the oldest update counters from which the log is whole.

A node sends the updates of a partition from its log if the log is whole from a checkpoint on, and
the counter of this checkpoint is not above that of the other node.

Source: CheckpointHistory.searchEarliestWalPointer and searchCheckpointEntry,
CheckpointEntry.partitionCounter, CacheState, Ignite 2.18.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.formats.ignite.types import partition_state_name

if TYPE_CHECKING:
    from je_tools.ignite.checkpoints.node_checkpoints import Checkpoint, NodeCheckpoints


class PartitionReach(Struct, frozen=True):
    """Counters of one partition.

    Attributes:
        node: name of the node.
        group: name of the cache group; its id if no folder has its name.
        group_id: id of the cache group.
        partition: number.
        time_ms: time of the oldest checkpoint of the reach.
        segment: segment of its record.
        counter_from: update counter there.
        counter_to: update counter at the newest checkpoint.
        size: number of entries at the newest checkpoint.
        state: state at the newest checkpoint.
    """

    node: str
    group: str
    group_id: int
    partition: int
    time_ms: int
    segment: int
    counter_from: int
    counter_to: int
    size: int
    state: str


class GroupReach(Struct):
    """Sums over the partitions of one cache group.

    Attributes:
        node: name of the node.
        group: name of the cache group; its id if no folder has its name.
        group_id: id of the cache group.
        partitions: number of partitions.
        time_ms: time of the checkpoint from which all partitions are in the log.
        segment: segment of its record.
        updates: updates in the log between there and the newest checkpoint, by the counters.
        size: number of entries at the newest checkpoint.
    """

    node: str
    group: str
    group_id: int
    partitions: int = 0
    time_ms: int = 0
    segment: int = 0
    updates: int = 0
    size: int = 0


def partition_reach(
    found: NodeCheckpoints, names: Mapping[int, str] | None = None
) -> Iterator[PartitionReach]:
    """Yield the reach of each partition in the record of the newest checkpoint.

    A partition reaches back to the oldest checkpoint after which no segment is missing, and every
    checkpoint has a counter of the partition. `names` are those of the cache groups, by id.
    """
    known = [c for c in found.checkpoints if c.record is not None and _is_whole_from(found, c)]
    if not known or known[-1].record is None:
        return
    counters = [_counters(each) for each in known]
    for group, parts in known[-1].record.facts.groups.items():
        for part in parts:
            key = (group, part.partition)
            first = len(known) - 1
            while first and key in counters[first - 1]:
                first -= 1
            pointer = known[first].pointer
            assert pointer is not None
            yield PartitionReach(
                found.node,
                (names or {}).get(group, str(group)),
                group,
                part.partition,
                time_ms=known[first].time_ms,
                segment=pointer.segment,
                counter_from=counters[first][key],
                counter_to=part.counter,
                size=part.size,
                state=partition_state_name(part.state),
            )


def group_reach(found: NodeCheckpoints, names: Mapping[int, str] | None = None) -> list[GroupReach]:
    """Return the reach of each cache group, as `partition_reach` does."""
    groups: dict[int, GroupReach] = {}
    for part in partition_reach(found, names):
        own = GroupReach(part.node, part.group, part.group_id)
        group = groups.setdefault(part.group_id, own)
        group.partitions += 1
        group.time_ms, group.segment = max(
            (group.time_ms, group.segment), (part.time_ms, part.segment)
        )
        group.updates += part.counter_to - part.counter_from
        group.size += part.size
    return list(groups.values())


def _is_whole_from(found: NodeCheckpoints, checkpoint: Checkpoint) -> bool:
    """Return True if all segments from the record of a checkpoint to the last are in files."""
    last, pointer = found.need.last, checkpoint.pointer
    if last is None or pointer is None:
        return False
    later = sum(pointer.segment <= index <= last for index in found.segments)
    return later == last - pointer.segment + 1


def _counters(checkpoint: Checkpoint) -> dict[tuple[int, int], int]:
    assert checkpoint.record is not None
    groups = checkpoint.record.facts.groups.items()
    return {(group, part.partition): part.counter for group, parts in groups for part in parts}
