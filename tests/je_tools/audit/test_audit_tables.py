"""The summary on a terminal."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from je_tools.audit.fleet import read_summary
from je_tools.sinks.audit_tables import fleet_sections
from je_tools.sinks.sections import write_table
from tests.builders.fleets import ABOUT, write_fleet


@pytest.mark.parametrize("width", [None, 60, 140])
def test_the_worst_stand_on_a_terminal(tmp_path: Path, width: int | None) -> None:
    write_fleet(tmp_path, 300, hostile=True)
    summary = read_summary(tmp_path, ABOUT)
    sections = fleet_sections(summary, largest=5)
    severities, findings, environments = sections
    assert dict(severities.rows) == summary.severities
    assert [row[1] for row in findings.rows] == [one.code for one in summary.findings]
    assert [row[1] for row in environments.rows] == [row.env for row in summary.environments[:5]]
    with_findings = sum(bool(row.findings) for row in summary.environments)
    assert f"({with_findings - 5} more in the table environments)" in environments.title
    out = io.BytesIO()
    write_table(sections, out, width)
    text = out.getvalue().decode()
    assert all(line.isprintable() for line in text.splitlines())
    assert width is None or max(map(len, text.splitlines())) <= width


def test_all_is_listed_where_there_is_room(tmp_path: Path) -> None:
    write_fleet(tmp_path, 3, seed=3)
    assert "more in" not in fleet_sections(read_summary(tmp_path, ABOUT))[2].title
