"""Summary of an audit as one strict JSON object."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from je_tools.core.escaping import clean_text

if TYPE_CHECKING:
    from je_tools.audit.environment_list import EnvironmentRow
    from je_tools.audit.fleet import FleetSummary

FORMAT = 1
"""Version of the object; it increases if a key changes its meaning or is removed."""


def summary_object(summary: FleetSummary) -> dict[str, Any]:
    """Return everything but the environments, in the order of the documentation."""
    return {
        "format": FORMAT,
        "run": asdict(summary.run),
        "severities": summary.counts.severities,
        "totals": summary.totals,
        "findings": [asdict(found) for found in summary.findings],
        "versions": [asdict(version) for version in summary.versions],
        "entry_types": [asdict(one) for one in summary.types],
        "txn_outcomes": [asdict(outcome) for outcome in summary.outcomes],
        "tables": dict(summary.row_counts),
        "outcomes": summary.counts.outcomes,
        "groups": [dict(group) for group in summary.groups],
    }


def environment_object(row: EnvironmentRow) -> dict[str, Any]:
    """Return an environment: its columns, the time of its last transaction, its codes, its node."""
    codes: dict[str, int] = {}
    for found in row.findings:
        codes[found.code] = codes.get(found.code, 0) + found.count
    node = None
    if row.node is not None:
        node = {name: value for name, value in row.node.items() if name != "env"}
    return {**row.values, "last_txn_ms": row.last_txn_ms, "findings": codes, "node": node}


def json_lines(summary: FleetSummary) -> Iterator[str]:
    """Yield the text of the object in ASCII, with each environment on a line of its own."""
    for name, value in summary_object(summary).items():
        yield f'{"{" if name == "format" else " "}"{name}": {_json(value)},\n'
    yield ' "environments": ['
    for i, row in enumerate(summary.environments):
        yield f"{',' if i else ''}\n  {_json(environment_object(row))}"
    yield "\n ]}\n"


def _json(value: Any) -> str:
    return json.dumps(_cleaned(value), allow_nan=False)


def _cleaned(value: Any) -> Any:
    """Return the value with texts that any JSON reader accepts: no lone surrogates."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        return {_cleaned(key): _cleaned(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_cleaned(each) for each in value]
    return value
