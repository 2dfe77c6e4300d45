"""Stakes of an environment: would its engine open it, what would be lost, and what fills it.

The answers are those of `doctor`, `recover`, `space` and `vlsn show`, by the same code. What the
audit has read of a log is reused, so only what recovery needs is read again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from je_tools.audit.file_use import FileUse, SpaceUse, file_uses, space_use
from je_tools.audit.last_commit import find_last_commit, lost_vlsns
from je_tools.audit.reasons import why_unknown
from je_tools.core.escaping import clean_text
from je_tools.core.masking import DataMode, Masking
from je_tools.doctor.examination import diagnosed
from je_tools.doctor.recovered import DiagnosisOptions
from je_tools.log.scan import Scanner
from je_tools.recovery.end import EndReason

if TYPE_CHECKING:
    from je_tools.audit.member_reading import MemberReport
    from je_tools.doctor.facts import Diagnosis, Recovered
    from je_tools.doctor.recovered import Examiners
    from je_tools.findings import Finding
    from je_tools.log.environment import Environment
    from je_tools.recovery.snapshot import Snapshot
    from je_tools.vlsn.quick_check import QuickCheck

T = TypeVar("T")


class StakeParts(Struct, frozen=True):
    """Functions that `find_stakes` calls and does not import, which keeps import chains short.

    Attributes:
        examiners: returns those of `doctor`; its argument is called with the reason if the trees
            cannot be searched.
        report: reads the report on a node (`member_reading.read_member`).
    """

    examiners: Callable[[Callable[[Exception], None]], Examiners]
    report: Callable[[Snapshot, str, QuickCheck], MemberReport]


class Loss(Struct, frozen=True):
    """Commits and keys that recovery cuts off.

    Attributes:
        lost_commit_count, lost_key_count: Commits, and different keys that are written, after the
            end of the log, as the plan of `recover` counts them; 0 keys if no Commit is lost.
        missing_key_count: keys in places that do not exist, as `missing` counts them; None if they
            were not searched for, or their number is not known.
        cut_size: bytes after the end of the log.
        lost_first_lsn, lost_last_lsn: first byte after the end, and last whole entry; None if no
            whole entry is lost.
        lost_first_vlsn, lost_last_vlsn: lowest and highest VLSN after the end.
    """

    lost_commit_count: int
    lost_key_count: int
    missing_key_count: int | None
    cut_size: int
    lost_first_lsn: int | None = None
    lost_last_lsn: int | None = None
    lost_first_vlsn: int | None = None
    lost_last_vlsn: int | None = None


class NodeRange(Struct, frozen=True):
    """The group of a node, and the VLSNs of its index after recovery, as `doctor` has them."""

    group_name: str | None
    group_id: str | None
    index_first_vlsn: int | None
    index_vlsn: int | None


class Stakes(Struct, frozen=True):
    """Stakes of one environment, in plain values.

    A part that is None is not known. `problems` has the reasons, unless the environment has no such
    part at all.

    Attributes:
        outcome, verdict: answer of `doctor`; None for log files without their directory.
        is_damaged: True if `doctor` finds damage or a loss; None without an outcome.
        loss: what recovery cuts off.
        last_commit_ms, last_commit_vlsn: time and VLSN of the last Commit that recovery leaves.
        node: the node; None if the log is not replicated.
        space: bytes in use of all files.
        files: space of each file.
        findings: findings that the scan of the log does not have.
        member: report on the node, for the comparison of its group.
        problems: reasons why parts are not known.
    """

    outcome: str | None = None
    verdict: str | None = None
    is_damaged: bool | None = None
    loss: Loss | None = None
    last_commit_ms: int | None = None
    last_commit_vlsn: int | None = None
    node: NodeRange | None = None
    space: SpaceUse | None = None
    files: tuple[FileUse, ...] = ()
    findings: tuple[Finding, ...] = ()
    member: MemberReport | None = None
    problems: tuple[str, ...] = ()


def find_stakes(
    environment: Environment,
    parts: StakeParts,
    *,
    env: str,
    tree: bool = False,
    now_ms: int | None = None,
) -> Stakes:
    """Return the stakes of an environment; whatever fails is a problem, never an exception.

    Args:
        environment: the log, opened with `keep_going`.
        parts: functions of other modules.
        env: name of the environment in the tables.
        tree: also check the B-trees, as `verify --tree` does.
        now_ms: time at which records expire; None for the current time.
    """
    if not environment.is_directory:
        return Stakes()
    problems: list[str] = []
    options = DiagnosisOptions(now_ms or time.time_ns() // 1_000_000, tree, Masking(DataMode.HIDE))
    scanner = Scanner(threads=1, wide=True)
    examiners = parts.examiners(lambda error: problems.append(str(error)))
    found = Stakes()
    try:
        home = environment.home
        with diagnosed(home, environment, scanner, options, examiners) as (diagnosis, snapshot):
            found = _of_diagnosis(diagnosis)
            if snapshot is not None and diagnosis.state is not None:
                report = partial(parts.report, snapshot, env)
                found = _of_state(found, diagnosis, snapshot, report, problems)
    except Exception as error:
        # The files changed meanwhile: then nothing that was read of them holds.
        return Stakes(problems=(why_unknown(error),))
    return replace(found, problems=(*found.problems, *map(clean_text, problems)))


def _of_diagnosis(diagnosis: Diagnosis) -> Stakes:
    log = diagnosis.log
    known = {id(each) for each in log.findings} if log is not None else set()
    replication = diagnosis.state.replication if diagnosis.state is not None else None
    return Stakes(
        outcome=diagnosis.outcome.value,
        verdict=clean_text(diagnosis.verdict),
        is_damaged=diagnosis.is_damaged,
        findings=tuple(each for each in diagnosis.findings if id(each) not in known),
        problems=tuple(map(clean_text, replication.problems if replication is not None else ())),
    )


def _of_state(
    found: Stakes,
    diagnosis: Diagnosis,
    snapshot: Snapshot,
    report: Callable[[QuickCheck], MemberReport],
    problems: list[str],
) -> Stakes:
    """Add the stakes that the log shows as recovery leaves it."""
    state, log = diagnosis.state, diagnosis.log
    assert state is not None
    assert log is not None

    def tried(work: Callable[[], T]) -> T | None:
        try:
            return work()
        except Exception as error:
            problems.append(why_unknown(error))
            return None

    node = state.replication.node if state.replication is not None else None
    lasts = (row.last_lsn for row in log.rows if row.last_lsn is not None)
    found = replace(
        found,
        loss=tried(partial(_loss, state, snapshot, max(lasts, default=None))),
        node=None if node is None else _node_of(node),
        space=space_use(state.space),
        files=file_uses(state.space),
    )
    if node is not None:
        member = tried(partial(report, node))
        if member is not None:
            commit = member.last_commit
            found = replace(found, member=member)
            return found if commit is None else _with_commit(found, commit.time_ms, commit.vlsn)
        return found
    commit_ms = tried(partial(find_last_commit, snapshot))
    return found if commit_ms is None else _with_commit(found, commit_ms, None)


def _with_commit(found: Stakes, time_ms: int, vlsn: int | None) -> Stakes:
    return replace(found, last_commit_ms=time_ms, last_commit_vlsn=vlsn)


def _loss(state: Recovered, snapshot: Snapshot, last_lsn: int | None) -> Loss:
    lost = state.lost
    losses = state.missing.losses if state.missing is not None else ()
    keys = [loss.key_count for loss in losses if not loss.is_internal]
    key_count = lost.key_count if lost.transactions else 0
    loss = Loss(len(lost.transactions), key_count, _sum(keys), lost.size)
    if state.end.reason is not EndReason.DAMAGED or not lost.size:
        return loss
    has_entries = last_lsn is not None and last_lsn >= state.end.next_lsn
    first, last = lost_vlsns(snapshot)
    return replace(
        loss,
        lost_first_lsn=state.end.next_lsn,
        lost_last_lsn=last_lsn if has_entries else None,
        lost_first_vlsn=first,
        lost_last_vlsn=last,
    )


def _sum(keys: Iterable[int | None]) -> int | None:
    known = [each for each in keys if each is not None]
    return sum(known) if known else None


def _node_of(node: QuickCheck) -> NodeRange:
    name, covered = node.group.name, node.index.usable.range
    return NodeRange(
        None if name is None else clean_text(name),
        node.group.group_id,
        covered.first if covered.first > 0 else None,
        covered.last if covered.last > 0 else None,
    )
