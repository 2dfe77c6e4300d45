"""Files of pages of a node, and what their pages lead to, as physical recovery leaves them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from je_tools.ignite.pages.walk import Walk

if TYPE_CHECKING:
    from je_tools.ignite.recovery.physical import PhysicalRecovery


def recovered_walk(physical: PhysicalRecovery, threads: int) -> Walk:
    """Return a walk through the pages of a node as physical recovery leaves them."""
    if physical.status not in ("unfinished", "unclear"):
        return Walk(threads, None)
    problem = physical.problem
    if problem is None and physical.replay is None:
        problem = "the markers do not tell where recovery begins"
    return Walk(threads, problem, physical.replay)
