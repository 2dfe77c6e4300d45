"""Audit results of each environment as a result table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from je_tools.output.views.sections import Cell, Column, Kind, Section, section_of

if TYPE_CHECKING:
    from je_tools.audit.environment_list import EnvironmentRow


def _value(name: str) -> Callable[[EnvironmentRow], Cell]:
    def cell(row: EnvironmentRow) -> Cell:
        found: Cell = row.values[name]
        return found

    return cell


def _codes(row: EnvironmentRow) -> Cell:
    return [f"{found.code} {found.count:,}" for found in row.findings]


FLEET_COLUMNS = (
    Column("severity", "severity", Kind.TEXT, cell=_value("severity")),
    Column("env", "environment", Kind.KEY, cell=_value("env")),
    Column("file_count", "files", rank=3, cell=_value("file_count")),
    Column("size", "bytes", rank=2, cell=_value("size")),
    Column("entry_count", "entries", rank=4, cell=_value("entry_count")),
    Column("unfinished_count", "open txns", rank=5, cell=_value("unfinished_count")),
    Column(
        "last_checkpoint_ms", "checkpoint (UTC)", Kind.TIME, 6, cell=_value("last_checkpoint_ms")
    ),
    Column("findings", "findings", Kind.CODES, rank=1, cell=_codes),
)


_KIND = Column("kind", "kind", Kind.TEXT, rank=1, cell=_value("kind"))
"""Column that is only there if not all environments are of one kind."""


def fleet_section(rows: Sequence[EnvironmentRow]) -> Section:
    """Return a table with a row for each environment."""
    severity, env, *others = FLEET_COLUMNS
    has_kinds = len({row.kind for row in rows}) > 1
    columns = (severity, env, _KIND, *others) if has_kinds else FLEET_COLUMNS
    return section_of("", "", columns, rows)
