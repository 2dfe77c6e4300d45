"""Changes that recovery makes to the records of a node: pages, and the log's newest operations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from je_tools.formats.ignite.page_ids import INDEX_PARTITION
from je_tools.formats.ignite.types import PartitionState, partition_state_name
from je_tools.ignite.checkpoints.node_checkpoints import node_checkpoints
from je_tools.ignite.logical.entries import DESTROYED
from je_tools.ignite.logical.updates import LogicalUpdates, logical_start, updates_from
from je_tools.ignite.recovery.physical import recovered_pages

if TYPE_CHECKING:
    from je_tools.formats.ignite.page_image import ChangedPages
    from je_tools.formats.ignite.partition_counter import StoredCounter
    from je_tools.formats.ignite.records import PartitionAt
    from je_tools.ignite.checkpoints.node_checkpoints import NodeCheckpoints
    from je_tools.ignite.recovery.physical import PhysicalRecovery
    from je_tools.ignite.store import Node
    from je_tools.log.scan_options import Progress

_GONE_STATES = (DESTROYED, PartitionState.EVICTED)
"""States of a partition that the log destroys."""


class RecoveredNode:
    """A node as recovery would leave it, before its pages are read.

    Attributes:
        checkpoints: its checkpoints.
        logical: its logical part.
        problem: why the pages may be those of two checkpoints, in words; None if they are not.
    """

    def __init__(
        self, checkpoints: NodeCheckpoints, logical: LogicalUpdates, physical: PhysicalRecovery
    ) -> None:
        """Combine both parts."""
        self.checkpoints = checkpoints
        self.logical = logical
        self.problem = physical.problem
        self._replay = physical.replay
        self._places: set[tuple[int, int]] = set()
        if self._replay is not None:
            places = self._replay.places()
            groups, partitions = places.group_id.tolist(), places.partition.tolist()
            pairs = zip(groups, partitions, strict=True)
            self._places = {pair for pair in pairs if pair[1] != INDEX_PARTITION}

    def partitions_of(self, group: int) -> Iterator[int]:
        """Yield the partitions of a group whose pages the physical part changes."""
        yield from (partition for each, partition in self._places if each == group)

    def changed(self, group: int, partition: int) -> ChangedPages | None:
        """Return the pages of a partition that the physical part changes; None for none."""
        if self._replay is None or (group, partition) not in self._places:
            return None
        return self._replay.changed_pages(group, partition)

    def is_gone(self, group: int, partition: int) -> bool:
        """Return True if the log destroys a partition."""
        return self.logical.partition_states.get((group, partition)) in _GONE_STATES

    def state_of(self, group: int, partition: int, stored: StoredCounter | None) -> str:
        """Return the state of a partition after recovery, by name; UNKNOWN if it is not known.

        Args:
            group: id of the cache group.
            partition: number.
            stored: state and counter in its pages; None if they cannot be read.
        """
        state = self.logical.partition_states.get((group, partition))
        if state is None:
            state = self._checkpointed_state(group, partition)
        if state is None or state == PartitionState.UNKNOWN:
            state = PartitionState.UNKNOWN if stored is None else stored.meta.state
        return partition_state_name(state)

    def rows_at_checkpoint(self, group: int) -> dict[int, int]:
        """Return the rows that the newest checkpoint counted in the partitions of a group."""
        return {each.partition: each.size for each in self._checkpointed(group)}

    def _checkpointed(self, group: int) -> list[PartitionAt]:
        """Return the partitions in the record of the newest checkpoint; pages may be older."""
        newest = self.checkpoints.checkpoints[-1:]
        if not newest or newest[0].record is None:
            return []
        return newest[0].record.facts.groups.get(group, [])

    def _checkpointed_state(self, group: int, partition: int) -> int | None:
        parts = self._checkpointed(group)
        return next((each.state for each in parts if each.partition == partition), None)


def recover_node(node: Node, threads: int, progress: Progress | None = None) -> RecoveredNode:
    """Compute the recovery of a node.

    Args:
        node: the node.
        threads: number of segments to read at once in search of checkpoints.
        progress: called with the bytes of each segment that was read; None for nothing.

    Raises:
        InputError: the node has no folder of markers, or they do not show where recovery begins.
        StoppedError: a file shrank, vanished or was replaced while it was read.
    """
    found = node_checkpoints(node, threads, progress)
    logical = updates_from(node, logical_start(found))
    return RecoveredNode(found, logical, recovered_pages(node, threads, found))
