"""A report is written piece by piece as it would be written at once."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from je_tools.output.views.section_formats import Report
from je_tools.output.views.sections import Column, Kind, Section

ROWS = [{"a": 1, "b": {"c": [1, 2], "d": None}}, {"a": "x\ny"}]
TABLE = Section("table", "", (Column("id", "id", Kind.ID),), [[1], [2]])


@pytest.mark.parametrize("row", [{}, {"name": "n", "nested": {"x": {}, "y": []}}])
@pytest.mark.parametrize("sections", [[], [TABLE]])
@pytest.mark.parametrize("lists", [{}, {"none": []}, {"none": [], "rows": ROWS}, {"rows": ROWS}])
def test_json_is_written_as_at_once(
    row: dict[str, Any], sections: list[Section], lists: dict[str, Any]
) -> None:
    report = Report(row, "report", {}, sections, lists)
    out = io.BytesIO()
    report.write("json", out)
    assert out.getvalue().decode() == json.dumps(report.document(), indent=2) + "\n"
