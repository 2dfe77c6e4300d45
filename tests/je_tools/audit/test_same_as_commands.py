"""The rows of an audit match those of `verify`, `files` and `summary`, for whole or cut files."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from je_tools.audit import judging
from je_tools.audit.stake_finder import StakeFinder
from je_tools.errors import EXIT_INPUT
from tests.corpus import Environment, log_files
from tests.damage.mutate import make_input
from tests.damage.planted_cases import CASES
from tests.damage.planted_findings import PLANTED
from tests.damage.running import je_tools
from tests.je_tools.audit.auditing import (
    WHOLE,
    Row,
    Tables,
    audit_here,
    cut,
    files_said,
    findings_said,
    of_env,
    summary_said,
    txns_said,
)

LARGE, SMALL, TINY = 1_500_000, 50_000, 200
"""Sizes of slices: of whole files, and of parts of files."""

MUTATED = 75


class Said(NamedTuple):
    """Rows that the commands print for a log; `doctor` prints none for single files."""

    findings: list[Row]
    files: list[Row]
    summary: dict[str, list[Row]]
    txns: list[Row]
    doctor: list[Row]


def said_of(paths: list[Path]) -> Said:
    """Return what the commands print."""
    is_home = all(path.is_dir() for path in paths)
    doctor = je_tools("doctor", *paths, "--format", "jsonl").rows if is_home else []
    summary = summary_said(*paths)
    return Said(findings_said(*paths), files_said(*paths), summary, txns_said(*paths), doctor)


def audited(paths: list[Path], folder: Path, said: Said) -> Tables:
    """Audit the paths, compare the tables with what the commands report, and return them."""
    tables = audit_here(paths, folder, stakes_of=StakeFinder())
    (row,) = tables["environments"]
    env = row["env"]
    found = of_env(tables["findings"], env)
    assert found[: len(said.findings)] == said.findings
    check_stakes(row, said, found[len(said.findings) :])
    check_files(of_env(tables["files"], env), said.files)
    check_types(of_env(tables["entry_stats"], env), said.summary)
    check_ranges(of_env(tables["vlsn_ranges"], env), said.summary, of_env(tables["files"], env))
    check_checkpoints(of_env(tables["checkpoints"], env), said.summary)
    assert of_env(tables["txns"], env) == said.txns
    check_sums(tables)
    return tables


def check_stakes(facts: Row, said: Said, more: list[Row]) -> None:
    """Check the outcome, and the findings that `doctor` adds to those of `verify`."""
    first, rows = said.findings, said.doctor
    if not rows:
        assert (facts["outcome"], more) == (None, [])
        return
    assert facts["outcome"] == rows[0]["outcome"]
    of_log = set(map(place, first))
    added = [row for row in rows if row["section"] == "findings" and place(row) not in of_log]
    if rows[0]["is_damaged"] and not any(row["severity"] == "error" for row in [*first, *added]):
        (last,) = more[len(added) :]
        assert last["found"] == facts["verdict"]
        assert (last["code"], last["severity"]) == ("recovery-refused", "error")
        more = more[: len(added)]
    assert sorted(map(place, more), key=str) == sorted(map(place, added), key=str)


def place(row: Row) -> tuple[Any, ...]:
    return row["code"], row["severity"], row["file_no"], row["offset"]


def check_files(rows: list[Row], said: list[Row]) -> None:
    for row, other in zip(rows, said, strict=True):
        assert row.pop("source") == "read"
        assert row.pop("old_delta_count") or "old-delta-in-v8" not in other["findings"]
    expected = [{name: row[name] for name in rows[0]} for row in said]
    assert rows == expected


def check_types(rows: list[Row], said: dict[str, list[Row]]) -> None:
    types: dict[str, Row] = {}
    for row in rows:
        known = types.setdefault(row["type"], dict.fromkeys(("n", "p", "total"), 0))
        known["n"] += row["count"]
        known["p"] += row["provisional_count"]
        known["total"] += row["total_size"]
        known["min"] = min(row["min_size"], known.get("min", row["min_size"]))
        known["max"] = max(row["max_size"], known.get("max", 0))
    assert types == {
        row["name"]: {
            "n": row["count"],
            "p": row["provisional_count"],
            "total": row["total_bytes"],
            "min": row["min_bytes"],
            "max": row["max_bytes"],
        }
        for row in said["type"]
    }
    # Two files of one number count as one here.
    found: dict[int, Counter[str]] = defaultdict(Counter)
    for row in rows:
        found[row["file_no"]].update(entries=row["count"], total_bytes=row["total_size"])
    expected: dict[int, Counter[str]] = defaultdict(Counter)
    for row in said["file"]:
        if row["entries"]:
            expected[row["file_no"]].update(entries=row["entries"], total_bytes=row["total_bytes"])
    assert found == expected


def check_ranges(rows: list[Row], said: dict[str, list[Row]], files: list[Row]) -> None:
    """Check that ranges have no gaps, are as long as they say, and hold no invisible entries."""
    for row in rows:
        assert row["count"] == row["last_vlsn"] - row["first_vlsn"] + 1
    counted: Counter[int] = Counter()
    for row in rows:
        counted[row["file_no"]] += row["count"]
    most: Counter[int] = Counter()
    for row in said["vlsn"]:
        most[row["file_no"]] += row["replicated_count"]
    assert all(count <= most[file_no] for file_no, count in counted.items())
    for file in files:
        mine = [row for row in rows if row["file_no"] == file["file_no"]]
        if file["first_vlsn"] is not None:
            assert min(row["first_vlsn"] for row in mine) <= file["first_vlsn"]
            assert max(row["last_vlsn"] for row in mine) >= file["last_vlsn"]


def check_checkpoints(rows: list[Row], said: dict[str, list[Row]]) -> None:
    names = rows[0] if rows else ()
    assert rows == [{name: row[name] for name in names} for row in said["checkpoint"]]


def check_sums(tables: Tables) -> None:
    """Check the counts of transactions by outcome, which are not made from the rows."""
    expected: dict[str, Counter[str]] = defaultdict(Counter)
    for row in tables["txns"]:
        sums = {"count": 1, "entry_count": row["entry_count"], "total_size": row["size"]}
        expected[row["outcome"]].update(sums)
    names = ("count", "entry_count", "total_size")
    found = {row["outcome"]: {name: row[name] for name in names} for row in tables["txn_stats"]}
    assert found == expected


def of_slices(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the number of ranges of each file joined from several."""
    found = []
    join_cuts = judging.join_cuts

    def counted(file: Any, outcomes: Any, *rest: Any) -> Any:
        found.append(len(outcomes))
        for number, part in join_cuts(file, outcomes, *rest):
            if number is None:
                found.append(AGAIN)
            yield number, part

    monkeypatch.setattr(judging, "join_cuts", counted)
    return found


AGAIN = 0
"""A range that was read again."""


def test_of_logs_that_engines_wrote(
    some_environment: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranges = of_slices(monkeypatch)
    paths = [some_environment.home]
    said = said_of(paths)
    total = sum(path.stat().st_size for path in log_files(some_environment.home))
    # A log below LARGE is one slice of that size, as if nothing were cut.
    for size in (WHOLE, LARGE, SMALL) if total > LARGE else (WHOLE, SMALL):
        cut(monkeypatch, size)
        tables = audited(paths, tmp_path / f"{size}", said)
        sizes = [row["size"] for row in tables["files"]]
        assert bool(ranges) == any(size == SMALL and each > 1.1 * SMALL for each in sizes), size


@pytest.mark.parametrize("code", sorted(PLANTED))
def test_of_every_code(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, expected = PLANTED[code](tmp_path / "env")
    said = said_of([home])
    for size in (WHOLE, TINY):
        cut(monkeypatch, size)
        tables = audited([home], tmp_path / f"out-{size}", said)
        found = [(row["code"], row["severity"], row["file_no"]) for row in tables["findings"]]
        planted = [each[:3] for each in expected if each.code != "clean-end"]
        assert found[: len(planted)] == planted, size


@pytest.mark.parametrize("case", CASES)
def test_of_damage_between_files(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, _ = CASES[case]
    paths = make(tmp_path / "env")
    said = said_of(paths)
    for size in (WHOLE, TINY):
        cut(monkeypatch, size)
        audited(paths, tmp_path / f"out-{size}", said)


def is_opened(home: Path, folder: Path) -> bool:
    """Return True if `verify` opens a log; check that an audit has the same reason if not."""
    done = je_tools("verify", home)
    if done.code != EXIT_INPUT:
        return True
    found = audit_here([home], folder)["findings"]
    assert [(row["code"], row["file_no"]) for row in found] in ([("unread", None)], [])
    assert all(row["found"] in done.err for row in found)
    return False


def test_of_damage_at_any_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cuts meet the damage: some ranges are read again when they are joined."""
    ranges = of_slices(monkeypatch)
    for number in range(MUTATED):
        rng = random.Random(number)
        home = tmp_path / str(number)
        home.mkdir()
        for name, data in make_input(4, number).files.items():
            (home / name).write_bytes(data)
        cut(monkeypatch, rng.choice([WHOLE, 1000, TINY, 60]))
        try:
            if not is_opened(home, tmp_path / f"{number}-out"):
                continue
            audited([home], tmp_path / f"{number}-out", said_of([home]))
        except AssertionError as error:
            raise AssertionError(f"input {number}") from error
    assert AGAIN in ranges
    assert max(ranges) > 20
