"""Ends of logs that are missing: what other members of a group show that a node once had.

A log that ends between two entries looks like a whole one. The other members may know better:

- a Commit of the group was written by this node, when it was master;
- its record in the group database has a VLSN up to which it had the stream;
- the master knew a VLSN to be durable, which takes a majority of the electable members, and fewer
  of them reach it than that.

Source: DTVLSN and its computation in FeederManager, RepNodeImpl.getBarrierState, JE 18.3.12.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.core.escaping import printable
from je_tools.vlsn.own_member import ELECTABLE

if TYPE_CHECKING:
    from collections.abc import Callable

    from je_tools.audit.member_reports import Member, MemberFacts
    from je_tools.vlsn.node_report import NodeReport

_ACKNOWLEDGING = (ELECTABLE, "arbiter")
"""Types of members of which a majority makes a VLSN durable."""


class LostEnd(Struct, frozen=True):
    """An end that a node once had.

    Attributes:
        vlsn: VLSN that it had, after the last one of its log.
        reason: what shows it.
    """

    vlsn: int
    reason: str


def find_lost_ends(
    members: Sequence[MemberFacts],
    known: Sequence[Member],
    report: Callable[[int], NodeReport],
) -> Mapping[int, LostEnd]:
    """Return the lost ends by the index of the node.

    Args:
        members: the nodes of a group, each once.
        known: members that the group database names, without removed ones.
        report: returns the report on a node by its index.
    """
    found: dict[int, LostEnd] = {}
    newest = _written(members, report)
    for index, each in enumerate(members):
        last = each.facts.last_vlsn or 0
        own = next((one for one in known if one.name == each.facts.node_name), None)
        if own is None:
            continue
        written = newest.get(own.node_id, 0)
        if written > last:
            reason = f"it wrote the Commit at VLSN {written} as master"
            found[index] = LostEnd(written, reason)
        elif own.barrier_vlsn > last:
            reason = f"the group database records that it had VLSN {own.barrier_vlsn}"
            found[index] = LostEnd(own.barrier_vlsn, reason)
    return _short_of_majority(members, known) | found


def _written(members: Sequence[MemberFacts], report: Callable[[int], NodeReport]) -> dict[int, int]:
    """Return the VLSN of the newest sync point of each master, by its id."""
    newest: dict[int, int] = {}
    for index in range(len(members)):
        sync = report(index).sync
        for master in np.unique(sync.master_node_id).tolist():
            vlsn = int(sync.vlsn[sync.master_node_id == master].max())
            newest[master] = max(newest.get(master, 0), vlsn)
    return newest


def _short_of_majority(
    members: Sequence[MemberFacts], known: Sequence[Member]
) -> dict[int, LostEnd]:
    """Return the nodes below a durable VLSN, if fewer than a majority can have reached it."""
    durable = max((each.durable_vlsn or 0 for each in members), default=0)
    voters = [each for each in known if each.node_type in _ACKNOWLEDGING and each.quorum_ack]
    electable = [
        index for index, each in enumerate(members) if each.facts.node_type in (None, ELECTABLE)
    ]
    short = [index for index in electable if (members[index].facts.last_vlsn or 0) < durable]
    # Nodes of an unknown type beyond the electable members are secondary nodes, perhaps the short
    # ones; and members whose logs are not here may all have reached it.
    beyond = max(len(electable) - sum(each.node_type == ELECTABLE for each in voters), 0)
    reaching = len(voters) - max(len(short) - beyond, 0)
    majority = len(voters) // 2 + 1
    if not durable or not short or reaching >= majority:
        return {}
    by = max(members, key=lambda each: each.durable_vlsn or 0)
    reason = (
        f"{printable(by.env)} knew VLSN {durable} to be durable, for which {majority} of "
        f"{len(voters)} members must have it, and only {reaching} can"
    )
    return {index: LostEnd(durable, reason) for index in short}
