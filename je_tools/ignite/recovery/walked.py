"""Files of pages of a node, and what their pages lead to, as physical recovery leaves them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.ignite.pages.files import page_folder
from je_tools.ignite.pages.scan import scan_files
from je_tools.ignite.pages.walk import Walk

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from je_tools.ignite.checkpoints.node_checkpoints import NodeCheckpoints
    from je_tools.ignite.pages.walk import Walked
    from je_tools.ignite.recovery.physical import PhysicalRecovery
    from je_tools.ignite.store import Node


class ReadNode(Struct, frozen=True):
    """Parts of a node that were read already, for others that judge it.

    Attributes:
        checkpoints: its checkpoints.
        physical: the physical part of its recovery.
        walked: its files of pages, with what their pages lead to.
    """

    checkpoints: NodeCheckpoints
    physical: PhysicalRecovery
    walked: Sequence[Walked]


def recovered_walk(physical: PhysicalRecovery, threads: int) -> Walk:
    """Return a walk through the pages of a node as physical recovery leaves them."""
    if physical.status not in ("unfinished", "unclear"):
        return Walk(threads, None)
    problem = physical.problem
    if problem is None and physical.replay is None:
        problem = "the markers do not show where recovery begins"
    return Walk(threads, problem, physical.replay)


def walked_pages(node: Node, physical: PhysicalRecovery, threads: int) -> Iterator[Walked]:
    """Yield the files of pages of a node, with what their pages lead to.

    Raises:
        InputError: the node has no folder of caches.
        StoppedError: a file shrank, vanished or was replaced while it was read.
    """
    scans = scan_files(page_folder(node).files, threads)
    return recovered_walk(physical, threads).files(scans)
