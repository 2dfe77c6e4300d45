"""HTML report of an audit: one page that needs nothing else and loads nothing."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from je_tools.audit import charts
from je_tools.audit.details import environment_details, pick_findings
from je_tools.audit.fleet import SEVERITIES, EnvironmentRow, FleetSummary, RunInfo
from je_tools.audit.history import read_history
from je_tools.pages.bars import ROWS_MAX, size_text
from je_tools.pages.log_fields import env_fields
from je_tools.pages.rendering import render_page
from je_tools.pages.shown import NAME_MAX, distinct, script_json, shown

if TYPE_CHECKING:
    from je_tools.audit.output_folder import RunFolder

PLAIN_MAX = 100
"""Maximum environments that are listed if scripts do not run."""

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
        "environments": Markup(script_json(list(map(_row, names, summary.environments)))),
        "details": (
            Markup(script_json(each)) for each in environment_details(tables, summary, picked)
        ),
    }
    yield from render_page(_TEMPLATES, "report.html.j2", "report.js", values)


def _overview(summary: FleetSummary) -> dict[str, Any]:
    run, counts = summary.run, summary.severities
    return {
        "run": run,
        "roots": [shown(root, NAME_MAX) for root in run.roots],
        "tables": shown(run.tables),
        "engine": _engine(run),
        "started": _time(run.started_ms),
        "duration": f"{run.duration_ms / 1000:,.1f} s",
        "totals": summary.totals,
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


def _time(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _plain(row: EnvironmentRow) -> tuple[str, str, list[str]]:
    """Return severity, name, and findings by code, for a page without scripts."""
    codes = [f"{shown(found.code, NAME_MAX)} × {found.count:,}" for found in row.findings]
    return row.severity, shown(row.env, NAME_MAX), codes


def _row(name: str, row: EnvironmentRow) -> list[Any]:
    """Return an environment with the fields of `ENV` in the page's script."""
    codes = ((found.code, found.severity, found.count) for found in row.findings)
    return env_fields(name, row.values, row.last_txn_ms, row.versions, codes)
