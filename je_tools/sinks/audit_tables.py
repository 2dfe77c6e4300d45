"""The summary of an audit as tables for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from je_tools.sinks.sections import Column, Kind, Section

if TYPE_CHECKING:
    from je_tools.audit.fleet import EnvironmentRow, FleetSummary

WORST = 20
"""Environments that are listed, unless the caller wants others."""

_ENVIRONMENTS = (
    Column("severity", "severity", Kind.TEXT),
    Column("env", "environment", Kind.TEXT),
    Column("error_count", "errors"),
    Column("warning_count", "warnings"),
    Column("note_count", "notes", rank=4),
    Column("file_count", "files", rank=2),
    Column("size", "bytes", rank=1),
    Column("damaged_size", "damaged", rank=3),
    Column("versions", "versions", Kind.TEXTS, rank=5),
    Column("last_vlsn", "last VLSN", Kind.ID, rank=6),
    Column("last_checkpoint_ms", "last checkpoint (UTC)", Kind.TIME, rank=7),
)
_FINDINGS = (
    Column("severity", "severity", Kind.TEXT),
    Column("code", "finding", Kind.TEXT),
    Column("env_count", "environments"),
    Column("count", "count"),
)
_SEVERITIES = (Column("severity", "severity", Kind.TEXT), Column("count", "environments"))


def fleet_sections(summary: FleetSummary, largest: int = WORST) -> list[Section]:
    """Environments by severity, findings by code, and the worst environments with findings."""
    found = [row for row in summary.environments if row.findings]
    listed = found[:largest]
    left_out = len(found) - len(listed)
    title = "worst environments"
    title += f" ({left_out:,} more in the table environments)" if left_out else ""
    codes = [(one.severity, one.code, one.env_count, one.count) for one in summary.findings]
    return [
        Section("severities", "environments", _SEVERITIES, list(summary.severities.items())),
        Section("findings", "findings", _FINDINGS, codes),
        Section("environments", title, _ENVIRONMENTS, [_cells(row) for row in listed]),
    ]


def _cells(row: EnvironmentRow) -> list[int | str | list[str] | None]:
    values = row.values
    counts = ("error_count", "warning_count", "note_count", "file_count", "size", "damaged_size")
    return [
        row.severity,
        row.env,
        *(row.number(name) for name in counts),
        [str(version) for version in row.versions],
        values["last_vlsn"],
        values["last_checkpoint_ms"],
    ]
