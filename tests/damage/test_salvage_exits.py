"""Exit codes of salvage: 3 if the log is damaged, or the salvage report lists losses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.corpus import FIXTURES
from tests.je_tools.dumped import Done, je_tools

CLEANED = FIXTURES / "v8-cleaned" / "env"


def salvage(folder: Path, *arguments: str | Path) -> tuple[Done, list[str]]:
    """Run a salvage; return it, and the kinds of the lines of its report."""
    done = je_tools("salvage", *arguments, "--output", folder, "--format", "jsonl")
    lines = (folder / "report.jsonl").read_text().splitlines()
    return done, [json.loads(line)["kind"] for line in lines]


@pytest.mark.parametrize("name", ["v8-cleaned", "v26-basic", "v17-erase-after", "v17-crash-txn"])
def test_a_whole_log_has_no_losses(name: str, tmp_path: Path) -> None:
    done, kinds = salvage(tmp_path / "out", FIXTURES / name / "env")
    assert (done.code, done.err) == (0, "")
    assert not {"lost-key", "lost-name", "misnamed-file"} & {*kinds}


def test_records_that_salvage_reports_as_lost_are_reported(tmp_path: Path) -> None:
    """They point into a file that was not given; the given one is not damaged."""
    file = CLEANED / "00000003.jdb"
    done, kinds = salvage(tmp_path / "out", file)
    assert (kinds.count("gap"), kinds.count("lost-key")) == (0, 730)
    assert done.code == 3
    assert "je-tools: 730 records lost; the salvage report has the keys" in done.err
    assert salvage(tmp_path / "zero", "--exit-zero", file)[0].code == 0
