"""Every number of `summary` equals naive sums over a `dump` of the same log."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest

from tests.builders.busy import busy_log
from tests.builders.planted import VERSIONS, planted_log
from tests.corpus import FIXTURES, Environment, environments_in, log_files, marked_if_another
from tests.je_tools.dumped import Row, je_tools, rows_of
from tests.je_tools.summed import NULL, Sections, expected

ALL_TABLES = ["--by-file", "--by-db", "--vlsn", "--checkpoints", "--txns"]
HERE = environments_in(FIXTURES)
SMALL_RANGE = 900
MANY = pytest.mark.exhaustive
LARGE = {"v17-erase-after"}
"""Logs with nothing but many entries that others, and planted logs, have, too."""
ROUNDS, MANY_ROUNDS = 3, 6
LAST_OF_A_FILE = (13, 22)
"""Seeds that damage the last entry of a file, so that it is not the last good one."""


@contextmanager
def small_ranges() -> Iterator[None]:
    """Split a log into many small ranges, whose parts are added up."""
    with (
        patch("je_tools.formats.je.log.reader.RANGE_SIZE", SMALL_RANGE),
        patch("je_tools.log.scan_options.WIDE_RANGE", SMALL_RANGE),
    ):
        yield


def summed(home: Path, *options: str) -> Sections:
    """Return the rows of a summary by section; built logs may have findings."""
    done = je_tools("summary", home, *options, "--format", "jsonl")
    assert done.code in (0, 3), done.err
    found: Sections = defaultdict(list)
    for row in rows_of(done.out):
        found[row.pop("section")].append(row)
    errors = [row for row in found.pop("findings", []) if row["severity"] == "error"]
    assert done.code == (3 if errors else 0)
    return found


def dumped(home: Path) -> list[Row]:
    """Return the rows of a dump."""
    done = je_tools("dump", home, "--format", "jsonl")
    assert done.code in (0, 3), done.err
    return rows_of(done.out)


def check(home: Path, largest: int = 10) -> None:
    """Compare all tables of a summary with the dump."""
    wanted = expected(dumped(home), home, largest)
    found = summed(home, *ALL_TABLES, "--largest", str(largest))
    assert set(found) <= set(wanted)
    for name, rows in wanted.items():
        assert found[name] == rows, name


@pytest.mark.parametrize(
    "env",
    [
        pytest.param(
            each, id=each.name, marks=[MANY] if each.name in LARGE else marked_if_another(each)
        )
        for each in HERE
    ],
)
def test_environments(env: Environment) -> None:
    check(env.home)


@pytest.mark.parametrize(
    "name",
    [
        "v15-rep-uncommitted/node2",
        "v26-dbops/env",
        pytest.param("v8-cleaned/env", marks=pytest.mark.exhaustive),
    ],
)
def test_over_many_ranges(name: str) -> None:
    with small_ranges():
        check(FIXTURES / name, largest=3)


@pytest.mark.parametrize("version", VERSIONS)
def test_entries_of_every_type(tmp_path: Path, version: int) -> None:
    home = planted_log(tmp_path / "env", version)
    check(home)


@pytest.mark.parametrize(
    "seed",
    [
        *range(ROUNDS),
        *(pytest.param(seed, marks=pytest.mark.exhaustive) for seed in range(ROUNDS, MANY_ROUNDS)),
    ],
)
@pytest.mark.parametrize("version", [6, 7, 8, 11, 12, 15, 17, 19, 26])
def test_random_logs(tmp_path: Path, version: int, seed: int) -> None:
    rng = random.Random(f"{version}/{seed}")
    home = busy_log(rng, tmp_path / "env", version, rng.randrange(1, 150))
    with small_ranges():
        check(home, largest=rng.choice([1, 2, 5, 1000]))


@pytest.mark.parametrize("seed", [*range(MANY_ROUNDS), *LAST_OF_A_FILE])
def test_damaged_entries_do_not_count(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    home = busy_log(rng, tmp_path / "env", rng.choice(VERSIONS), 80)
    # A transaction's first entry separates it from an earlier one of the same id.
    rows = [row for row in dumped(home) if row["entry"].get("txn_prev_lsn") != NULL]
    victims = rng.sample([row for row in rows if row["offset"] and row["item_size"]], 12)
    for row in victims:
        change_item(home, row, rng)
    assert {row["lsn"] for row in dumped(home) if row["checksum"] == "bad"}
    check(home)


def change_item(home: Path, row: Row, rng: random.Random) -> None:
    path = home / f"{row['file_no']:08x}.jdb"
    data = bytearray(path.read_bytes())
    data[row["offset"] + row["header_size"] + rng.randrange(row["item_size"])] ^= 0xFF
    path.write_bytes(data)


def test_each_table_is_the_same_alone() -> None:
    home = FIXTURES / "v17-rep-uncommitted-before" / "node2"
    together = summed(home, *ALL_TABLES)
    always = {"type", "group", "size", "total"}
    seen = set(always)
    for option in ALL_TABLES:
        alone = summed(home, option)
        assert alone == {name: together[name] for name in alone}
        assert always < set(alone)
        seen |= set(alone)
    assert seen == set(together)


def test_a_log_of_nothing_but_file_headers(tmp_path: Path) -> None:
    home = tmp_path / "env"
    home.mkdir()
    source = log_files(FIXTURES / "v17-basic" / "env")[0].read_bytes()
    (home / "00000000.jdb").write_bytes(source[:38])
    check(home)


def test_shares_add_up() -> None:
    found = summed(FIXTURES / "v17-basic" / "env", "--by-db")
    for name in ("type", "group", "database"):
        assert sum(row["share_percent"] for row in found[name]) == pytest.approx(100)
    assert json.dumps(found["total"][0]["share_percent"]) == "100.0"
