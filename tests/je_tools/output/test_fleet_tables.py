"""The table of an audit on a terminal."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any, cast

import pytest

from je_tools.output.views.fleet_tables import fleet_section
from je_tools.output.views.section_tables import write_table

NODES = [f"backups/2026-11-20/group-east/node{number}" for number in (1, 2, 3)]


def row(env: str) -> Any:
    values = {
        "severity": "error",
        "env": env,
        "kind": "je",
        "file_count": 507,
        "size": 5_368_709_120,
        "entry_count": 31_415_926,
        "unfinished_count": 2,
        "last_checkpoint_ms": 1_795_168_800_000,
    }
    found = [SimpleNamespace(code=code, count=12) for code in ("damaged-entry", "vlsn-gap")]
    return cast(Any, SimpleNamespace(values=values, findings=found, kind="je"))


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (200, "damaged-entry 12, vlsn-gap 12, lost-tail 12"),
        (108, "damaged-entry 12, vlsn-gap 12, +1"),
        (100, "damaged-entry 12, +2"),
        (70, "damaged-entry 12, +2"),
    ],
)
def test_codes_are_whole(width: int, expected: str) -> None:
    one = row("backups/node1")
    one.findings.append(SimpleNamespace(code="lost-tail", count=12))
    out = io.BytesIO()
    write_table([fleet_section([one])], out, width)
    line = out.getvalue().decode().splitlines()[1]
    assert line.endswith("  " + expected)
    assert len(line) <= width


@pytest.mark.parametrize("width", [80, 72, 60, 40])
def test_names_that_end_differently_are_told_apart(width: int) -> None:
    """Nodes of a group or nightly backups have names that begin alike."""
    out = io.BytesIO()
    write_table([fleet_section(list(map(row, NODES)))], out, width)
    _, *lines = out.getvalue().decode().splitlines()
    lines, note = lines[: len(NODES)], lines[len(NODES) :]
    assert note[0] == ""
    assert note[1].startswith("No room for: ")
    assert len(set(lines)) == len(NODES)
    for number, line in enumerate(lines, 1):
        assert len(line) <= width
        assert "~" in line
        assert f"ode{number}" in line
