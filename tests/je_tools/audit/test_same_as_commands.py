"""The rows of an audit match those of `verify`, `files` and `summary`, for whole or cut files."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from je_tools.audit import plan
from je_tools.audit.discover import find_fleet
from je_tools.audit.staging import AGAIN
from je_tools.audit.weighing import Weigher
from je_tools.errors import EXIT_INPUT
from tests.corpus import Environment
from tests.damage.mutate import make_input
from tests.damage.planted_cases import CASES
from tests.damage.planted_findings import PLANTED
from tests.damage.running import je_tools
from tests.je_tools.audit.auditing import (
    Row,
    Tables,
    audit_here,
    files_said,
    findings_said,
    of_env,
    summary_said,
    txns_said,
)

WHOLE, SMALL, TINY = plan.CUT_SIZE, 50_000, 200
"""Sizes above which files are cut."""

MUTATED = 150


def audited(paths: list[Path], folder: Path) -> Tables:
    """Audit the paths, compare the tables with what the commands report, and return them."""
    tables = audit_here(paths, folder, weigh=Weigher())
    (facts,) = tables["facts"]
    env = facts["env"]
    found, said_first = of_env(tables["findings"], env), findings_said(*paths)
    assert found[: len(said_first)] == said_first
    check_stakes(facts, said_first, found[len(said_first) :], paths)
    check_files(of_env(tables["files"], env), paths)
    said = summary_said(*paths)
    check_types(of_env(tables["entry_stats"], env), said)
    check_ranges(of_env(tables["vlsn_ranges"], env), said, of_env(tables["files"], env))
    check_checkpoints(of_env(tables["checkpoints"], env), said)
    check_segments(tables["segments"], txns_said(*paths))
    return tables


def check_stakes(facts: Row, first: list[Row], more: list[Row], paths: list[Path]) -> None:
    """Check the outcome, and the findings that `doctor` adds to those of `verify`."""
    if not all(path.is_dir() for path in paths):
        assert (facts["outcome"], more) == (None, [])
        return
    rows = je_tools("doctor", *paths, "--format", "jsonl").rows
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


def check_files(rows: list[Row], paths: list[Path]) -> None:
    said = files_said(*paths)
    for row, other in zip(rows, said, strict=True):
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
    """Check that runs have no gaps, are as long as they say, and hold no invisible entries."""
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


def check_segments(segments: list[Row], txns: list[Row]) -> None:
    """Check that each entry and each end of a transaction is in one segment that counts."""

    def sums(rows: list[Row], is_ended: Any) -> dict[int, tuple[int, int, int, list[int]]]:
        grouped: dict[int, list[Row]] = defaultdict(list)
        for row in rows:
            grouped[row["txn_id"]].append(row)
        return {
            txn_id: (
                sum(row["entry_count"] for row in mine),
                sum(row["size"] for row in mine),
                sum(map(is_ended, mine)),
                sorted({db_id for row in mine for db_id in row["databases"]}),
            )
            for txn_id, mine in grouped.items()
        }

    found = sums(segments, lambda row: row["is_ended"])
    assert found == sums(txns, lambda row: row["end_ms"] is not None)


@pytest.mark.parametrize("size", [WHOLE, SMALL])
def test_of_logs_that_engines_wrote(
    some_environment: Environment, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "CUT_SIZE", size)
    tables = audited([some_environment.home], tmp_path)
    is_cut = {row["cut"] for row in tables["taken"]} - {0, AGAIN}
    assert bool(is_cut) == any(row["size"] > size for row in tables["files"])


@pytest.mark.parametrize("size", [WHOLE, TINY])
@pytest.mark.parametrize("code", sorted(PLANTED))
def test_of_every_code(
    code: str, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "CUT_SIZE", size)
    home, expected = PLANTED[code](tmp_path / "env")
    tables = audited([home], tmp_path / "out")
    found = [(row["code"], row["severity"], row["file_no"]) for row in tables["findings"]]
    planted = [each[:3] for each in expected if each.code != "clean-end"]
    assert found[: len(planted)] == planted


@pytest.mark.parametrize("size", [WHOLE, TINY])
@pytest.mark.parametrize("case", CASES)
def test_of_damage_between_files(
    case: str, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "CUT_SIZE", size)
    make, _ = CASES[case]
    audited(make(tmp_path / "env"), tmp_path / "out")


def test_of_damage_at_any_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cuts meet the damage: some ranges are read again when they are joined."""
    again = 0
    for number in range(MUTATED):
        rng = random.Random(number)
        home = tmp_path / str(number)
        home.mkdir()
        for name, data in make_input(4, number).files.items():
            (home / name).write_bytes(data)
        monkeypatch.setattr(plan, "CUT_SIZE", rng.choice([WHOLE, 1000, TINY, 60]))
        if not find_fleet([home]).environments:
            assert je_tools("verify", home).code == EXIT_INPUT
            continue
        try:
            tables = audited([home], tmp_path / f"{number}-out")
        except AssertionError as error:
            raise AssertionError(f"input {number}") from error
        again += any(row["cut"] == AGAIN for row in tables["segments"])
    assert again
