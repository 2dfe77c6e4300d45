"""Copies of one node: a backup beside the live node must not count as two members of a group.

Each node creates its own files, so two logs with a file of one number and one time of creation
have one origin. A log is a copy of another one if its last file is among the other's files, and all
sync points that both have lie at the same LSNs and have the same times. Environments in which a
file names the same node are of one node, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from je_tools.vlsn.matchpoint import are_same

if TYPE_CHECKING:
    from je_tools.audit.member_reports import MemberFacts
    from je_tools.vlsn.node_report import NodeReport
    from je_tools.vlsn.sync_points import SyncPoints


def find_copies(
    members: Sequence[MemberFacts], report: Callable[[int], NodeReport]
) -> Mapping[int, int]:
    """Return, for each environment that is an older copy of a node, the index of the newest copy.

    Args:
        members: environments of one group.
        report: returns the report on an environment by its index; only called to compare two.
    """
    nodes = list(range(len(members)))

    def node_of(index: int) -> int:
        while nodes[index] != index:
            index = nodes[index]
        return index

    names = [each.facts.node_name for each in members]

    def join(one: int, other: int) -> None:
        one, other = node_of(one), node_of(other)
        if one == other or (None not in (names[one], names[other]) and names[one] != names[other]):
            return
        nodes[other] = one
        names[one] = names[one] if names[one] is not None else names[other]

    named: dict[str, int] = {}
    for index, name in enumerate(names):
        if name is not None:
            join(named.setdefault(name, index), index)
    for index, other in _of_one_origin(members):
        is_known = node_of(index) == node_of(other)
        if not is_known and _is_one_log(report(index).sync, report(other).sync):
            join(other, index)
    newest: dict[int, int] = {}
    for index in range(len(members)):
        node = node_of(index)
        newest[node] = max(newest.get(node, index), index, key=lambda i: _newness(members[i]))
    originals = {index: newest[node_of(index)] for index in range(len(members))}
    return {index: original for index, original in originals.items() if index != original}


def _newness(member: MemberFacts) -> tuple[int, int, int]:
    """Return a key by which the newest copy is the greatest; of equals, the first counts."""
    last_file = member.file_no[-1] if member.file_no else -1
    return member.facts.last_vlsn or -1, last_file, member.facts.checkpoint_vlsn or -1


def _of_one_origin(members: Sequence[MemberFacts]) -> list[tuple[int, int]]:
    """Return the pairs of an environment and another one that has its last file."""
    ends: dict[tuple[int, int], list[int]] = {}
    for index, each in enumerate(members):
        if each.file_no:
            ends.setdefault((each.file_no[-1], each.created_ms[-1]), []).append(index)
    return [
        (index, other)
        for other, each in enumerate(members)
        for file in zip(each.file_no, each.created_ms, strict=True)
        for index in ends.get(file, ())
        if index != other
    ]


def _is_one_log(one: SyncPoints, other: SyncPoints) -> bool:
    """Return whether two logs have a beginning in common, byte by byte, as sync points show it.

    Two nodes write a Commit at LSNs and times of their own. Reports that have no VLSN in common
    show nothing: then the times of creation decide.
    """
    if not len(one) or not len(other):
        return True
    if one.vlsn[-1] < other.vlsn[0] or other.vlsn[-1] < one.vlsn[0]:
        return True
    at = np.minimum(np.searchsorted(other.vlsn, one.vlsn), len(other) - 1)
    rows = np.flatnonzero(other.vlsn[at] == one.vlsn)
    one, other = one.select(rows), other.select(at[rows])
    same = are_same(one, other)
    equal = (one.lsn == other.lsn) & (one.time_ms == other.time_ms)
    return bool(same.any()) and bool(equal[same].all())
