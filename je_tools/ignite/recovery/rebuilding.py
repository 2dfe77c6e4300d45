"""Files of pages that `ignite recover` repairs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from je_tools.errors import InputError
from je_tools.ignite.recovery.page_damage import judged_pages
from je_tools.ignite.recovery.page_edits import plan_page_edits
from je_tools.ignite.repairs.log_plan import plan_log_repairs

if TYPE_CHECKING:
    from je_tools.ignite.checkpoints.node_checkpoints import NodeCheckpoints
    from je_tools.ignite.pages.walk import Walked
    from je_tools.ignite.recovery.physical import PhysicalRecovery
    from je_tools.ignite.store import Node


def rebuilt_files(
    node: Node,
    threads: int,
    walked: Sequence[Walked],
    found: NodeCheckpoints,
    physical: PhysicalRecovery,
) -> frozenset[Path]:
    """Return the files in which `ignite recover` repairs every damaged page.

    There are none if the log or the markers need a repair first: pages are planned after that.

    Args:
        node: the node.
        threads: number of segments to read at once.
        walked: the pages of all of its files.
        found: its checkpoints.
        physical: the physical part of its recovery.

    Raises:
        StoppedError: a file shrank, vanished or was replaced while it was read.
    """
    try:
        if plan_log_repairs(node, threads).edits:
            return frozenset()
        damaged = judged_pages(node, physical, walked).damaged
        return frozenset(plan_page_edits(node, found, physical, damaged).rebuilt)
    except InputError:
        # The commands that need the part that cannot be read say so.
        return frozenset()
