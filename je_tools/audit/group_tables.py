"""Rows of the tables `groups` and `nodes`, and the findings of groups, from staged reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from je_tools.audit.group_findings import group_findings
from je_tools.audit.groups import ComparedGroup, GroupNode, compare_group
from je_tools.audit.member_reports import MemberFacts, unpack_facts
from je_tools.audit.reasons import why_unknown
from je_tools.audit.rows import finding_row, unread_finding, worst_severity
from je_tools.audit.staged_members import MEMBERS_NAME, reports_by_group
from je_tools.audit.staged_rows import StagedRows
from je_tools.audit.table_writer import StagedTables
from je_tools.audit.tables import ENVIRONMENTS, GROUPS

if TYPE_CHECKING:
    from je_tools.findings import Finding

Counts = dict[str, Counter[str]]
"""By environment, the number of findings by the name of its column: `error_count` and so on."""


def add_groups(written: Sequence[tuple[str, str]], staging: Path) -> list[tuple[str, str]]:
    """Compare the groups of a fleet; return the files of all tables.

    Args:
        written: the table and the path of each file; those of reports on nodes are used up.
        staging: folder for further files.
    """
    reports = [Path(path) for name, path in written if name == MEMBERS_NAME]
    staged = StagedTables(staging)
    counts = compare_groups(reports, staged)
    files = [each for each in written if each[0] != MEMBERS_NAME] + staged.close()
    if not counts:
        return files
    environments = [path for name, path in files if name == ENVIRONMENTS.name]
    known = pa.concat_tables([pq.read_table(path) for path in environments])
    staged = StagedTables(staging)
    staged.write({ENVIRONMENTS.name: with_findings(known, counts)})
    return [each for each in files if each[0] != ENVIRONMENTS.name] + staged.close()


def compare_groups(paths: Sequence[Path], staged: StagedTables) -> Counts:
    """Compare the nodes of all groups, and stage their rows; return the counts of findings.

    Memory holds the reports of some groups at a time (`staged_members.PASS_SIZE`). A group that
    cannot be compared gives a finding for each of its nodes.

    Args:
        paths: files with staged reports.
        staged: tables to which rows of `groups`, `nodes` and `findings` are added.
    """
    counts: Counts = {}
    for reports in reports_by_group(paths):
        rows = _rows_of_group(reports, counts)
        staged.write(rows.tables())
    return counts


def _rows_of_group(reports: Sequence[bytes], counts: Counts) -> StagedRows:
    rows = StagedRows()

    def add_finding(found: Finding) -> None:
        counts.setdefault(found.env, Counter())[f"{found.severity.value}_count"] += 1
        rows.extend("findings", [finding_row(found, found.env)])

    try:
        group = compare_group(reports)
        findings = list(group_findings(group))
        nodes = [node_row(each) for each in group.nodes]
        row = group_row(group) if group.group_id else None
    except Exception as error:
        for report in reports:
            add_finding(unread_finding(unpack_facts(report).env, why_unknown(error)))
        return rows
    for each in findings:
        add_finding(each)
    rows.extend("nodes", nodes)
    rows.extend("groups", [] if row is None else [row])
    return rows


def with_findings(facts: Any, counts: Mapping[str, Mapping[str, int]]) -> Any:
    """Return facts of environments with more findings: their numbers, and the severity.

    Args:
        facts: table with the columns of `environments`.
        counts: result of `compare_groups`.
    """
    for column in ("error_count", "warning_count", "note_count"):
        known = zip(facts["env"].to_pylist(), facts[column].to_pylist(), strict=True)
        numbers = [(number or 0) + counts.get(env, {}).get(column, 0) for env, number in known]
        at = facts.schema.get_field_index(column)
        facts = facts.set_column(at, facts.schema.field(at), pa.array(numbers, pa.int64()))
    columns = ("error_count", "warning_count", "note_count")
    rows = facts.select(columns).to_pylist()
    severities = pa.array(map(worst_severity, rows), pa.string())
    at = facts.schema.get_field_index("severity")
    return facts.set_column(at, facts.schema.field(at), severities)


def node_row(node: GroupNode) -> tuple[Any, ...]:
    """Return a node as a row of its table."""
    whole, facts = node.facts, node.facts.facts
    return (
        *(whole.env, facts.group_name, facts.group_id, facts.node_name, facts.node_type),
        *(node.copy_of, node.outcome, node.lag_vlsn, node.lag_ms),
        None if node.lost_end is None else node.lost_end.vlsn,
        *(facts.first_vlsn, facts.last_vlsn),
        *_commit_of(whole),
        *(whole.durable_vlsn, facts.journal_id, " ".join(facts.problems)),
        *_taken_back(node),
    )


def _commit_of(whole: MemberFacts) -> tuple[Any, ...]:
    commit = whole.last_commit
    if commit is None:
        return (None,) * 5
    master = commit.master_node_id
    name = whole.facts.node_names.get(master)
    return commit.vlsn, commit.time_ms, master, name, commit.master_term


def _taken_back(node: GroupNode) -> tuple[int | None, ...]:
    following = node.following
    if following is None:
        return (None,) * 5
    lost = following.lost
    if lost is None:
        return (following.matchpoint.vlsn, *(None,) * 4)
    counts = (lost.vlsn_count, lost.record_count, len(lost.txns), lost.commit_count)
    return following.matchpoint.vlsn, *counts


def group_row(group: ComparedGroup) -> tuple[Any, ...]:
    """Return a group as a row of its table."""
    leader, choice = group.leader, group.choice
    others = [each for each in group.found if not each.is_leader]
    lags = [each.lag_vlsn for each in others if each.lag_vlsn is not None and each.lag_vlsn > 0]
    lost = [each.following.lost for each in others if each.following is not None]
    losing = [each for each in lost if each is not None and each.vlsn_count]
    durable = [each.facts.durable_vlsn or 0 for each in group.nodes]
    values = {
        "group_name": group.name,
        "group_id": group.group_id,
        "member_count": len(group.members),
        "node_count": len(group.found),
        "copy_count": len(group.nodes) - len(group.found),
        "missing_count": group.missing_count,
        "missing": " ".join(group.missing) or None,
        "lagging_count": len(lags),
        "group_lag_vlsn": max(lags, default=0),
        "diverged_count": sum(_is_diverged(each) for each in others),
        "rollback_txn_count": sum(len(each.txns) for each in losing),
        "rollback_commit_count": sum(each.commit_count for each in losing),
        "durable_vlsn": max(durable) or None,
        "lost_end_count": sum(each.lost_end is not None for each in group.found),
    }
    if leader is not None and choice is not None:
        commit = leader.facts.last_commit
        values |= {
            "leader": leader.facts.env,
            "leads_by": None if choice.reason is None else choice.reason.value,
            "uncommitted_count": choice.uncommitted_count,
            "last_vlsn": leader.facts.facts.last_vlsn,
            "commit_ms": None if commit is None else commit.time_ms,
        }
    return tuple(values.get(name) for name in GROUPS.schema.names)


def _is_diverged(node: GroupNode) -> bool:
    """Return whether a node has what the leader lacks, or nothing in common with it."""
    following = node.following
    if following is None:
        return False
    if following.lost is None:
        return following.matchpoint.is_known
    return following.lost.vlsn_count > 0
