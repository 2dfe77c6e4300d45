"""Pages of a node by its checkpoints: those that recovery writes anew, and the counts of rows.

Source: GridCacheDatabaseSharedManager.performBinaryMemoryRestore, CheckpointMarkersStorage,
Ignite 2.18.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.errors import InputError
from je_tools.ignite.checkpoints.node_checkpoints import node_checkpoints
from je_tools.ignite.recovery.physical import Place, recovered_pages

if TYPE_CHECKING:
    from je_tools.formats.ignite.records import CheckpointFacts
    from je_tools.ignite.checkpoints.node_checkpoints import NodeCheckpoints
    from je_tools.ignite.recovery.physical import PhysicalRecovery
    from je_tools.ignite.store import Node


class PageRecovery(Struct, frozen=True):
    """Facts about the pages of a node, from its checkpoints.

    Attributes:
        status: as `LogNeed.status`, or `none` without a folder of markers.
        mended: pages that recovery writes; empty if it writes none, or cannot read the log.
        newest: record of the newest checkpoint; None if it is not in the log.
        checkpoints: the checkpoints; None without a folder of markers.
        physical: the physical part of recovery; None without a folder of markers.
    """

    status: str
    mended: frozenset[Place]
    newest: CheckpointFacts | None
    checkpoints: NodeCheckpoints | None = None
    physical: PhysicalRecovery | None = None

    @property
    def is_mixed(self) -> bool:
        """True if the pages may be those of two states."""
        return self.status in ("unfinished", "unclear")


def page_recovery(node: Node, threads: int, known: NodeCheckpoints | None = None) -> PageRecovery:
    """Return the facts that the checkpoints of a node give about its pages.

    Args:
        node: the node.
        threads: number of segments to read at once.
        known: its checkpoints, if they were read already.

    Raises:
        StoppedError: a file shrank, vanished or was replaced while it was read.
    """
    try:
        found = known or node_checkpoints(node, threads)
    except InputError:
        return PageRecovery("none", frozenset(), None)
    record = found.newest.record if found.newest is not None else None
    facts = record.facts if record is not None else None
    physical = recovered_pages(node, threads, found)
    return PageRecovery(found.need.status, frozenset(physical.places), facts, found, physical)
