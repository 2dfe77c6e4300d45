"""Entries that a rollback undid do not come back, whatever became of their transaction."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.builders.trees import TreeLog
from tests.je_tools.dumped import je_tools

INVISIBLE, REPLICATED = 0x10, 0x20


@pytest.mark.parametrize(
    ("flags", "expected"), [(0, ["newer"]), (REPLICATED | INVISIBLE, ["older"])]
)
def test_an_invisible_version_of_a_committed_transaction(
    flags: int, expected: list[str], tmp_path: Path
) -> None:
    """A node that was rolled back may use the id of the transaction once more, and commit it."""
    log = TreeLog()
    log.ln(b"a", b"older")
    more = {"entry_flags": flags, "vlsn": 7} if flags else {}
    log.ln(b"a", b"newer", txn=-5, **more)
    log.end(-5)
    log.file.trace(20)
    home = log.write(tmp_path / "env")
    je_tools("salvage", home, "--output", tmp_path / "out", "--format", "jsonl")
    (path,) = (each for each in (tmp_path / "out").glob("*.jsonl") if each.name != "report.jsonl")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [bytes.fromhex(row["data"]).decode() for row in rows] == expected
