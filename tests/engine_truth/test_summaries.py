"""Totals of `summary` equal those of the engine's DbPrintLog -S, -SC and -vd."""

from __future__ import annotations

import functools
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.corpus import FIXTURES, Environment, log_files
from tests.engine_truth.running import json_rows
from tests.engine_truth.selected import over, with_truth
from tests.truth.headers import NAMES, USER_TYPES
from tests.truth.summaries import Totals, read_csv, read_table, read_vlsns

_NUMBERS = (
    "count",
    "provisional_count",
    "total_bytes",
    "min_bytes",
    "max_bytes",
    "avg_bytes",
    "share_percent",
)
_LEAST, _SHARE = 3, 6
_ESTIMATE = "key/data"
_SIZES = {"key bytes": "key", "data bytes": "data"}
_INTERVAL = (
    "ln_txn",
    "ln",
    "map_ln_txn",
    "map_ln",
    "end_to_end",
    "end_to_start",
    "start_to_end",
    "max_ln_replay",
)
_USER_NAMES = frozenset(NAMES[no] for no in USER_TYPES)
_TABLE, _CSV, _VLSNS = "summary.txt", "summary.csv", "vlsndistribution.txt"

Sections = dict[str, list[dict[str, Any]]]


def text_of(env: Environment, name: str) -> str:
    """Return a file of an environment's truth."""
    assert env.truth is not None
    return (env.truth / name).read_text()


def sections(env: Environment, *arguments: str) -> Sections:
    """Return the rows of `je-tools summary` by section."""
    code, rows = json_rows("summary", env.home, *arguments)
    assert code == 0
    found: Sections = defaultdict(list)
    for row in rows:
        found[row["section"]].append(row)
    return found


def check(env: Environment, printed: Totals) -> None:
    """Compare a summary with the engine's."""
    found = sections(env, "--checkpoints")
    (total,) = found["total"]
    assert (total["total_bytes"], total["count"]) == (printed.size, printed.count)
    dumped = {row["name"]: [row[name] for name in _NUMBERS] for row in found["type"]}
    sizes = {row["name"]: [row[name] for name in _NUMBERS] for row in found["size"]}
    said = {"DbTree" if name == "Root" else name: row for name, row in printed.types.items()}
    if _ESTIMATE in said:
        sizes = {_ESTIMATE: estimate(dumped["LN_TX"], printed.size)}
    assert said.keys() - sizes.keys() == dumped.keys()
    for name, cells in said.items():
        check_cells(env, name, cells, (dumped | sizes)[name], exact=printed.exact)
    assert printed.intervals == [
        ([row[name] for name in _INTERVAL], row["end_lsn"]) for row in found["checkpoint"]
    ]
    check_bytes(env.home, found["checkpoint"])


def check_bytes(home: Path, intervals: list[dict[str, Any]]) -> None:
    """Compare the bytes of intervals with the files', and within a file with the engine's."""
    sizes = {int(path.stem, 16): path.stat().st_size for path in log_files(home)}
    file_no, end, before = 0, 0, 0
    for row in intervals:
        last = file_no
        file_no, offset = (int(part, 16) for part in row["end_lsn"].split("/"))
        begin, end = end, offset + sum(size for no, size in sizes.items() if no < file_no)
        assert row["total_bytes"] == end - begin
        if file_no == last and last in sizes:
            assert row["total_bytes"] == row["end_to_end"]
        before += row["total_bytes"]
    assert before == end <= sum(sizes.values())


def estimate(records: list[Any], whole: int) -> list[Any]:
    """Return JE 3.3's estimate for keys and values of user records: bytes less fixed overhead.

    The overhead is 14 bytes of the header and 46 of fields that had a fixed size then. So this
    number tests the records' count and bytes; printed entries test the sizes of keys and values.
    """
    size = records[2] - (14 + 46) * records[0]
    return [None, None, size, None, None, None, size / whole * 100]


def check_cells(
    env: Environment, name: str, said: list[float | None], shown: list[Any], *, exact: bool
) -> None:
    """Compare a line with the engine's, except for empty cells."""
    for at, (engine, ours) in enumerate(zip(said, shown, strict=True)):
        if engine is None:
            continue
        if at == _SHARE:
            assert ours == pytest.approx(engine, abs=1e-9 if exact else 0.05 + 1e-9)
        elif at == _LEAST and name in _SIZES and ours == 0 != engine:
            assert engine == least_of_the_engine(env)[name], name
        else:
            assert ours == engine, f"{name} {_NUMBERS[at]}"


@functools.lru_cache(maxsize=8)
def least_of_the_engine(env: Environment) -> dict[str, int]:
    """Return least sizes by the engine's rule: 0 means none yet, so a later size replaces it."""
    _, rows = json_rows("dump", env.home, "--type", "LN")
    least = dict.fromkeys(_SIZES, 0)
    for row in rows:
        if row["type"] not in _USER_NAMES:
            continue
        for name, column in _SIZES.items():
            if row[column] is not None:
                size = len(row[column]) // 2
                least[name] = min(least[name] or size, size)
    return least


def with_csv(only: Path | None = None) -> list[Environment]:
    """Return environments with a -SC; JE 3.3 has no such option and printed its usage."""
    every = with_truth(_CSV, only)
    return [each for each in every if not text_of(each, _CSV).startswith("Usage:")]


@over(with_truth(_TABLE))
def test_table(env: Environment) -> None:
    check(env, read_table(text_of(env, _TABLE)))


@over(with_csv(FIXTURES))
def test_csv_fixtures(env: Environment) -> None:
    check(env, read_csv(text_of(env, _CSV)))


@pytest.mark.exhaustive
@over(with_csv())
def test_csv(env: Environment) -> None:
    check(env, read_csv(text_of(env, _CSV)))


@over(with_truth(_VLSNS))
def test_vlsns(env: Environment) -> None:
    """Entries that a rollback made invisible count, as in the engine's numbers."""
    found = sections(env, "--vlsn")["vlsn"]
    names = ("replicated_count", "first_vlsn", "last_vlsn")
    shown = {row["file_no"]: tuple(row[name] for name in names) for row in found}
    assert {no: numbers for no, numbers in shown.items() if numbers[0]} == read_vlsns(
        text_of(env, _VLSNS)
    )
