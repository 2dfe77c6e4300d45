"""Findings of a group: nodes that diverged, lag or lost their end, missing members, copies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from je_tools.core.escaping import counted, printable
from je_tools.findings import CODES, Finding, Severity
from je_tools.log.field_texts import time_text
from je_tools.vlsn.compare import Outcome

if TYPE_CHECKING:
    from je_tools.audit.groups import ComparedGroup, GroupNode

LAG_MS = 15 * 60_000
"""Lag above which a finding is a warning: a node that is connected lags by seconds.

Source: RepParams.FEEDER_TIMEOUT, 30 s, JE 18.3.12.
"""

_NAMED = 5


def group_findings(group: ComparedGroup) -> Iterator[Finding]:
    """Yield the findings of a group, in the order of its nodes."""
    leader = group.leader
    for node in group.nodes:
        if node.copy_of is not None:
            yield _copy(node, node.copy_of)
            continue
        if node.lost_end is not None:
            yield _finding(
                node,
                "group-end-missing",
                expected=f"VLSN {node.lost_end.vlsn}: {node.lost_end.reason}",
                found=_end_of(node),
            )
        if leader is not None and not node.is_leader:
            yield from _of_follower(node, leader)
    yield from _of_members(group)


def _of_follower(node: GroupNode, leader: GroupNode) -> Iterator[Finding]:
    following = node.following
    if following is None:
        return
    lost, outcome = following.lost, following.outcome
    expected = f"the entries of {printable(leader.facts.env)}, the leader"
    if outcome is Outcome.UNKNOWN:
        yield _finding(node, "group-uncompared", expected=expected, found=_end_of(node))
    elif lost is None:
        found = "no Commit in common"
        yield _finding(node, "group-diverged", expected=expected, found=f"{found}: {outcome.value}")
    elif lost.vlsn_count:
        severity = Severity.NOTE
        if lost.abort_count:
            severity = Severity.WARNING
        if lost.commit_count:
            severity = Severity.ERROR
        found = (
            f"{counted(len(lost.txns), 'transaction')} after VLSN {following.matchpoint.vlsn} with "
            f"{counted(lost.commit_count, 'Commit')} that it would roll back: {outcome.value}"
        )
        yield _finding(node, "group-diverged", severity, expected=expected, found=found)
    is_behind = node.lag_vlsn is not None and node.lag_vlsn > 0
    if is_behind and (lost is None or not lost.commit_count):
        yield _lag(node, leader, needs_restore=outcome is Outcome.RESTORES)


def _lag(node: GroupNode, leader: GroupNode, *, needs_restore: bool) -> Finding:
    is_late = node.lag_ms is not None and node.lag_ms > LAG_MS
    severity = Severity.WARNING if is_late or needs_restore else Severity.NOTE
    expected = f"VLSN {leader.facts.facts.last_vlsn} as in {printable(leader.facts.env)}"
    found = _end_of(node)
    if needs_restore:
        first = leader.facts.facts.first_vlsn
        found += f"; the other log begins at VLSN {first}, so a network restore is needed"
    return _finding(node, "group-lag", severity, expected=expected, found=found)


def _end_of(node: GroupNode) -> str:
    last, commit = node.facts.facts.last_vlsn, node.facts.last_commit
    text = "no VLSN" if last is None else f"VLSN {last}"
    return text if commit is None else f"{text}, last Commit {time_text(commit.time_ms)}"


def _copy(node: GroupNode, other: str) -> Finding:
    lost = node.following.lost if node.following is not None else None
    found = f"the node of {printable(other)}, {_end_of(node)}"
    if lost is None or not lost.commit_count:
        return _finding(node, "group-copy", found=found)
    found += f", with {counted(lost.commit_count, 'Commit')} that the newer copy does not have"
    return _finding(node, "group-copy", Severity.WARNING, found=found)


def _of_members(group: ComparedGroup) -> Iterator[Finding]:
    """Yield a finding for members that are not here, unless the log of only one node is here."""
    if not group.missing_count or len(group.found) < 2:
        return
    names = [printable(name) for name in group.missing[:_NAMED]]
    more = f" and {len(group.missing) - _NAMED} more" if len(group.missing) > _NAMED else ""
    listed = f"{', '.join(names)}{more}"
    if group.missing_count < len(group.missing):
        listed = f"{group.missing_count} of {listed}"
    expected = f"{counted(len(group.members), 'member')} of {printable(group.name)}"
    place = group.leader or group.found[0]
    yield _finding(place, "group-member-missing", expected=expected, found=f"no log of {listed}")


def _finding(
    node: GroupNode,
    code: str,
    severity: Severity | None = None,
    *,
    expected: str | None = None,
    found: str | None = None,
) -> Finding:
    known = CODES[code]
    return Finding(
        code,
        known.severity if severity is None else severity,
        node.facts.env,
        expected=expected,
        found=found,
        hint=known.hint,
    )
