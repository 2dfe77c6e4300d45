"""HTML report of an audit: one page that needs nothing else and loads nothing.

All text from logs and file systems is data. jinja2 escapes it in the markup. For the script it is
JSON without markup characters, from which the script makes text nodes. The page's policy allows
only this style and this script, by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from je_tools.audit import charts
from je_tools.audit.details import environment_details, pick_findings
from je_tools.audit.fleet import SEVERITIES, EnvironmentRow, FleetSummary
from je_tools.audit.shown import NAME_MAX, distinct, exact, script_json, shown

PLAIN_MAX = 100
"""Maximum environments that are listed if scripts do not run."""

_TEMPLATES = Path(__file__).parent / "templates"


def page_text(directory: Path, summary: FleetSummary) -> Iterator[str]:
    """Yield the page in pieces; the tables below `directory` are read while it is written."""
    loader = FileSystemLoader(_TEMPLATES)
    templates = Environment(
        autoescape=True,
        loader=loader,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style, script = (_asset(name) for name in ("report.css", "report.js"))
    picked = pick_findings(directory, summary)
    found = sum(one.count for one in summary.findings)
    names = distinct(shown(row.env, NAME_MAX) for row in summary.environments)
    policy = (
        f"default-src 'none'; script-src {_source(script)}; style-src {_source(style)}; "
        "base-uri 'none'; form-action 'none'"
    )
    yield from templates.get_template("report.html.j2").generate(
        **_overview(summary),
        policy=policy,
        style=Markup(style),
        script=Markup(script),
        findings_shown=picked.count,
        findings_left_out=found - picked.count,
        environments=Markup(script_json(list(map(_row, names, summary.environments)))),
        details=(
            Markup(script_json(each)) for each in environment_details(directory, summary, picked)
        ),
    )


def _asset(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")


def _source(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _overview(summary: FleetSummary) -> dict[str, Any]:
    run, counts = summary.run, summary.severities
    return {
        "run": run,
        "roots": [shown(root, NAME_MAX) for root in run.roots],
        "tables": shown(run.tables),
        "master": shown(run.master, NAME_MAX),
        "started": _time(run.started_ms),
        "duration": f"{run.duration_ms / 1000:,.1f} s",
        "totals": summary.totals,
        "counts": counts,
        "worst": next((name for name in SEVERITIES if counts[name]), "ok"),
        "ROWS_MAX": charts.ROWS_MAX,
        "size_text": charts.size_text,
        "slices": charts.severity_slices(summary),
        "finding_bars": charts.finding_bars(summary),
        "version_bars": charts.version_bars(summary),
        "type_bars": charts.type_bars(summary),
        "outcome_bars": charts.outcome_bars(summary),
        "plain": [_plain(row) for row in summary.environments[:PLAIN_MAX]],
    }


def _time(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _plain(row: EnvironmentRow) -> tuple[str, str, list[str]]:
    """Return severity, name, and findings by code, for a page without scripts."""
    codes = [f"{shown(found.code, NAME_MAX)} × {found.count:,}" for found in row.findings]
    return row.severity, shown(row.env, NAME_MAX), codes


def _row(name: str, row: EnvironmentRow) -> list[Any]:
    """Return an environment with the fields of `ENV` in the page's script."""
    numbers = (
        "error_count",
        "warning_count",
        "note_count",
        "file_count",
        "size",
        "entry_count",
        "damaged_size",
        "first_file_no",
        "last_file_no",
        "first_created_ms",
        "last_created_ms",
        "first_vlsn",
        "last_vlsn",
        "checkpoint_count",
        "last_checkpoint_ms",
    )
    return [
        name,
        SEVERITIES.index(row.severity),
        *(exact(row.values[name]) for name in numbers),
        exact(row.last_txn_ms),
        row.versions,
        [[shown(found.code), found.severity, found.count] for found in row.findings],
    ]
