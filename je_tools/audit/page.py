"""HTML report of an audit: one page that needs nothing else and loads nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from markupsafe import Markup

from je_tools.audit import charts
from je_tools.audit.details import environment_details, pick_findings
from je_tools.audit.discover import EnvironmentKind
from je_tools.audit.history import read_history
from je_tools.pages.bars import ROWS_MAX, size_text
from je_tools.pages.log_fields import SEVERITIES, env_fields
from je_tools.pages.rendering import render_page
from je_tools.pages.shown import (
    NAME_MAX,
    distinct,
    exact,
    natural_key,
    script_json,
    second_text,
    shown,
)

if TYPE_CHECKING:
    from je_tools.audit.environment_list import EnvironmentRow
    from je_tools.audit.fleet import FleetSummary, RunInfo
    from je_tools.audit.output_folder import RunFolder

PLAIN_MAX = 100
"""Maximum environments that are listed if scripts do not run."""

GROUPS_MAX = 30
"""Maximum groups that are shown: the worst ones."""

NODES_MAX = 30
"""Maximum nodes of a group that are shown: the leader first, copies last."""

_TEMPLATES = Path(__file__).parent / "templates"


def page_text(tables: RunFolder, summary: FleetSummary) -> Iterator[str]:
    """Yield the page in pieces; the tables are read while it is written."""
    picked = pick_findings(tables, summary)
    found = sum(one.count for one in summary.findings)
    names = distinct(shown(row.env, NAME_MAX) for row in summary.environments)
    values = {
        **_overview(summary),
        "history": read_history(tables, summary),
        "findings_shown": picked.count,
        "findings_left_out": found - picked.count,
        "groups": _groups(names, summary),
        "groups_left_out": max(len(summary.groups) - GROUPS_MAX, 0),
        "environments": (
            Markup(script_json(_row(name, row)))
            for name, row in zip(names, summary.environments, strict=True)
        ),
        "details": (
            Markup(script_json(each)) for each in environment_details(tables, summary, picked)
        ),
    }
    yield from render_page(_TEMPLATES, "report.html.j2", "report.js", values)


def _groups(names: Sequence[str], summary: FleetSummary) -> list[dict[str, Any]]:
    """Return the worst groups with their nodes, the leader first, then in the order of names."""
    worst = {_group_of(row): row for row in summary.groups[:GROUPS_MAX]}
    nodes: dict[tuple[Any, Any], list[tuple[str, EnvironmentRow]]] = {each: [] for each in worst}
    for name, row in zip(names, summary.environments if worst else (), strict=False):
        if row.node is not None and (place := _group_of(row.node)) in nodes:
            nodes[place].append((name, row))
    return [_group(row, sorted(nodes[place], key=_by_role)) for place, row in worst.items()]


def _group_of(row: Mapping[str, Any]) -> tuple[Any, Any]:
    return row["group_id"], row["group_name"]


def _by_role(each: tuple[str, EnvironmentRow]) -> tuple[Any, ...]:
    node = each[1].node or {}
    is_copy = node.get("copy_of") is not None
    return node.get("outcome") != "leads", is_copy, natural_key(each[0])


def _overview(summary: FleetSummary) -> dict[str, Any]:
    run, counts = summary.run, summary.counts.severities
    store_files = summary.counts.store_files
    return {
        "run": run,
        "roots": [shown(root, NAME_MAX) for root in run.roots],
        "tables": shown(run.tables),
        "engine": _engine(run),
        "started": second_text(run.started_ms),
        "duration": f"{run.duration_ms / 1000:,.1f} s",
        "totals": summary.totals,
        "store_files": store_files,
        "log_files": summary.totals["file_count"] - store_files,
        "counts": counts,
        "worst": next((name for name in SEVERITIES if counts[name]), "ok"),
        "ROWS_MAX": ROWS_MAX,
        "size_text": size_text,
        "slices": charts.severity_slices(summary),
        "finding_bars": charts.finding_bars(summary),
        "version_bars": charts.version_bars(summary),
        "type_bars": charts.type_bars(summary),
        "outcome_bars": charts.outcome_bars(summary),
        "plain": [_plain(row) for row in summary.environments[:PLAIN_MAX]],
    }


def _engine(run: RunInfo) -> str:
    if run.master is None:
        return f"without Spark ({run.engine})"
    return f"Spark {run.spark_version} on {shown(run.master, NAME_MAX)}"


def _plain(row: EnvironmentRow) -> tuple[str, str, list[str]]:
    """Return severity, name, and kind and findings by code, for a page without scripts."""
    codes = [f"{shown(found.code, NAME_MAX)} × {found.count:,}" for found in row.findings]
    kinds = ["Ignite"] if row.kind is EnvironmentKind.IGNITE else []
    return row.severity, shown(row.env, NAME_MAX), kinds + codes


def _row(name: str, row: EnvironmentRow) -> list[Any]:
    """Return an environment with the fields of `ENV` in the page's script."""
    codes = ((found.code, found.severity, found.count) for found in row.findings)
    fields = env_fields(name, row.values, row.last_txn_ms, row.versions, codes)
    verdict, node = row.values.get("verdict"), row.node
    return [
        *fields,
        row.outcome,
        None if verdict is None else shown(verdict),
        *(exact(row.values.get(column)) for column in _STAKES),
        None if node is None else _node_text(node),
        row.kind.value,
    ]


_STAKES = (
    "lost_commit_count",
    "lost_key_count",
    "missing_key_count",
    "lost_record_count",
    "used_percent",
    "used_size",
    "last_commit_ms",
    "last_commit_vlsn",
)
"""Columns after the fields of `ENV`, in the order of `STAKE` in the page's script."""


def _node_text(node: Mapping[str, Any]) -> str:
    """Return a node of a group in a line."""
    name = f"{shown(node['node'], NAME_MAX)} of " if node["node"] else ""
    text = f"{name}{shown(node['group_name'] or 'a group without a known name', NAME_MAX)}"
    if node["copy_of"] is not None:
        return f"{text}: an older copy of {shown(node['copy_of'], NAME_MAX)}"
    if node["outcome"] is not None:
        text += f": {node['outcome']}"
    lag = node["group_lag_vlsn"] or 0
    return f"{text}, {lag:,} VLSNs behind" if lag > 0 else text


def _group(row: Mapping[str, Any], nodes: Sequence[tuple[str, EnvironmentRow]]) -> dict[str, Any]:
    """Return a group with its nodes side by side, the leader first."""
    return {
        "name": shown(row["group_name"] or "", NAME_MAX),
        "id": shown(row["group_id"] or "", NAME_MAX),
        "members": row["member_count"],
        "missing": shown(row["missing"] or "", NAME_MAX) if row["missing_count"] else "",
        "missing_count": row["missing_count"] or 0,
        "nodes": [_group_node(name, each) for name, each in nodes[:NODES_MAX]],
        "nodes_left_out": max(len(nodes) - NODES_MAX, 0),
        "state": _state_of(row),
    }


def _state_of(row: Mapping[str, Any]) -> str:
    """Return the severity of what is at stake in a group."""
    if row["lost_end_count"] or row["rollback_commit_count"]:
        return "error"
    return "warning" if row["missing_count"] and (row["node_count"] or 0) > 1 else "ok"


def _group_node(name: str, row: EnvironmentRow) -> dict[str, Any]:
    node = row.node or {}
    commit_ms, lag = node.get("commit_ms"), node.get("group_lag_vlsn")
    return {
        "name": name,
        "link": f"#q={quote(name)}",
        "node": shown(node.get("node") or "", NAME_MAX),
        "outcome": "older copy" if node.get("copy_of") else node.get("outcome") or "not compared",
        "last_vlsn": node.get("last_vlsn"),
        "lag": lag,
        "commit": None if commit_ms is None else second_text(commit_ms),
        "commits": node.get("commit_count"),
        "lost_end": node.get("lost_end_vlsn"),
        "opening": row.outcome,
    }
