"""Files full of damage: some places are listed, and all are counted."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from je_tools.findings import CODES
from je_tools.log.opening import open_environment
from je_tools.log.scan import Scanner
from je_tools.verify import judge as verify
from je_tools.verify import row_damage
from je_tools.verify.totals import Totals
from tests.builders.logs import ERASED, RESTORE_REQUIRED, TRACE, LogFile, entry, write_log
from tests.builders.trees import rooted
from tests.damage.running import je_tools

KINDS = ("gap", "single", "break", "sum", "type", "erased", "restore", "vlsn")


def damaged_file(rng: random.Random, places: int, before: LogFile | None = None) -> LogFile:
    """Return a file with damage of all kinds."""
    file = before.follower() if before else LogFile()
    vlsn = 1
    for i in range(places):
        kind = KINDS[i] if i < len(KINDS) else rng.choice(KINDS)
        if kind in ("gap", "single"):
            start, stop = file.trace(rng.randrange(10, 60))
            file.data[start + 7] ^= 0x55
            if kind == "gap":
                start, stop = file.trace(20)
                file.data[start:stop] = b"\xff" * (stop - start)
        elif kind == "break":
            file._append(entry(TRACE, b"stray", 0))
        elif kind == "sum":
            file.data[file.trace(rng.randrange(10, 60)).stop - 1] ^= 1
        elif kind == "type":
            file.add(200, b"unknown")
        elif kind == "erased":
            file.add(ERASED, b"left")
        elif kind == "restore":
            file.add(RESTORE_REQUIRED, b"")
        else:
            vlsn += 7
            file.trace(20, vlsn=vlsn)
        for _ in range(3):
            vlsn += 1
            file.trace(20, vlsn=vlsn)
    return file


def told(home: Path) -> tuple[list[dict[str, Any]], Totals]:
    totals = Totals("")
    found = verify.verify(open_environment([home]), Scanner(threads=1), totals)
    return [each.row() for each in found], totals


def limit(monkeypatch: pytest.MonkeyPatch, listed: int) -> None:
    monkeypatch.setattr(row_damage, "LISTED", listed)
    monkeypatch.setattr(verify, "LISTED", listed)


@pytest.mark.parametrize("listed", [0, 1, 7, 40, 120])
def test_what_is_not_told_is_counted(
    listed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = damaged_file(random.Random(1), 160)
    home = write_log(tmp_path / "env", [first, damaged_file(random.Random(2), 160, first)])
    every, all_totals = told(home)
    limit(monkeypatch, listed)
    some, totals = told(home)
    more = [row for row in some if row["code"] == "more-damage"]
    assert [row["file_no"] for row in more] == [0, 1]
    for row in more:
        in_file = [each for each in every if each["file_no"] == row["file_no"] and each["offset"]]
        left = sorted(in_file, key=lambda each: each["offset"])[listed:]
        codes = Counter(each["code"] for each in left)
        assert row["severity"] == "error"
        assert row["found"] == ", ".join(f"{n:,} {code}" for code, n in sorted(codes.items()))
        assert row["offset"] == left[0]["offset"]
        ends = [each["offset"] + (each["length"] or 0) for each in left]
        assert row["offset"] + row["length"] == max(ends)
        kept = [each for each in some if each["file_no"] == row["file_no"] and each != row]
        assert [each for each in kept if each["offset"]] == in_file[:listed]
    assert totals.codes == all_totals.codes + Counter({"more-damage": 2})
    assert totals.errors == all_totals.errors + 2
    assert (totals.entries, totals.damaged_size) == (all_totals.entries, all_totals.damaged_size)


def test_damage_that_is_told_whole_has_no_such_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = write_log(tmp_path / "env", [damaged_file(random.Random(1), 30)])
    every, totals = told(home)
    limit(monkeypatch, len(every))
    assert told(home)[0] == every
    assert {each["code"] for each in every} > {"damaged-gap", "damaged-entry", "vlsn-gap"}
    assert totals.codes.keys() <= CODES.keys()


def test_it_is_a_warning_where_the_rest_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = rooted(LogFile())
    for _ in range(9):
        file.add(ERASED, b"left over")
        file.trace(10)
    home = write_log(tmp_path / "env", [file])
    limit(monkeypatch, 4)
    outcome = je_tools("verify", home, "--format", "jsonl")
    assert outcome.code == 0
    assert [row["severity"] for row in outcome.rows] == ["warning"] * 5
    assert outcome.rows[-1]["found"] == "5 erased-not-zero"


def test_files_counts_what_is_not_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = write_log(tmp_path / "env", [damaged_file(random.Random(2), 50)])
    whole, *_ = je_tools("files", home, "--format", "jsonl").rows
    limit(monkeypatch, 4)
    cut, *findings = je_tools("files", home, "--format", "jsonl").rows
    assert {row["section"] for row in findings} == {"findings"}
    assert cut["damage_count"] == whole["damage_count"] + 1
    assert {**cut, "damage_count": 0, "findings": whole["findings"]} == whole | {"damage_count": 0}
