"""Histories of many versions: the same in every format, and from temporary files."""

from __future__ import annotations

import csv
import io
import json
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from je_tools.core import spill
from je_tools.core.spill import RowLog, Spill
from je_tools.output.views import version_tables
from je_tools.output.views.section_tables import write_long_table, write_table
from je_tools.output.views.sections import Column, Section
from je_tools.records.version_matching import NumberMask
from tests.corpus import FIXTURES
from tests.damage.running import je_tools, states

LOGS = [
    ("v17-crash-txn/env", "people"),
    ("v17-dups/env", "visits"),
    ("v26-rep-committed/node1", ""),
]
MODES = ["show", "hide", "length", "hash"]


def history(home: Path, name: str, *options: object, code: int = 0) -> bytes:
    done = je_tools("get", home, "hex:*", "--db", name or "people", "--history", *options)
    assert done.code == code, done.err
    return done.out


def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spill, "MEMORY_MAX", 0)
    monkeypatch.setattr(spill, "_CHUNK_ROWS", 50)
    monkeypatch.setattr(spill, "_MERGED_ROWS", 10)
    monkeypatch.setattr(spill, "_RUN_ROWS_MIN", 3)


@pytest.mark.parametrize(("home", "name"), LOGS)
def test_the_output_is_the_same_to_the_byte(
    home: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forms = [("--format", form) for form in ("table", "jsonl", "csv")]
    expected = [history(FIXTURES / home, name, *form) for form in forms]
    assert all(expected)
    small_steps(monkeypatch)
    assert [history(FIXTURES / home, name, *form, "--tmp", tmp_path) for form in forms] == expected
    assert list(tmp_path.iterdir()) == []


def test_slots_are_found_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Data in slots outlives the entries that brought it."""
    home = tmp_path / "env"
    shutil.copytree(FIXTURES / "v17-erase-after" / "env", home)
    data = bytearray((home / "00000000.jdb").read_bytes())
    data[400:-400:97] = bytes(len(data[400:-400:97]))
    (home / "00000000.jdb").write_bytes(data)
    expected = history(home, "small", "--format", "jsonl", code=3)
    rows = [json.loads(line) for line in expected.splitlines()]
    found = [row["current"] for row in rows if row.get("state") == "in a slot only"]
    assert len(found) > 10
    assert set(found) == {"yes"}
    small_steps(monkeypatch)
    assert history(home, "small", "--format", "jsonl", code=3) == expected


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("home", "name"), LOGS)
def test_every_format_has_the_same_rows(
    home: str, name: str, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(version_tables, "_PARQUET_ROWS", 100)
    masked = ("--data", mode)
    text = history(FIXTURES / home, name, "--format", "jsonl", *masked)
    rows = [json.loads(line) for line in text.splitlines()]
    path = tmp_path / "versions.parquet"
    history(FIXTURES / home, name, "--format", "parquet", "--output", path, *masked)
    found = pq.read_table(path).to_pylist()
    assert [row | {"lsn": lsn_text(row["lsn"])} for row in found] == rows
    text = history(FIXTURES / home, name, "--format", "csv", *masked)
    told = csv.DictReader(io.StringIO(text.decode()))
    plain = [{key: "" if row[key] is None else str(row[key]) for key in row} for row in rows]
    assert list(told) == plain


def lsn_text(lsn: int | None) -> str | None:
    return None if lsn is None else f"{lsn >> 32:#x}/{lsn & 0xFFFFFFFF:#x}"


def test_nothing_is_written_inside_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Path(shutil.copytree(FIXTURES / "v17-dups" / "env", tmp_path / "env"))
    before = states(home)
    monkeypatch.setattr(spill, "MEMORY_MAX", 0)
    assert history(home, "visits", "--tmp", home, code=6) == b""
    monkeypatch.setenv("TMPDIR", str(home))
    assert history(home, "visits", code=6) == b""
    assert states(home) == before


@pytest.mark.parametrize("width", [None, 50, 200])
def test_a_long_table_is_aligned_as_a_short_one(width: int | None) -> None:
    columns = (Column("a", "A"), Column("b", "Title", cell=len))
    rows: list[list[Any]] = [[i * 7919, None if i % 3 else i] for i in range(300)]
    pieces = [rows[:1], [], rows[1:200], rows[200:]]
    whole, long = io.BytesIO(), io.BytesIO()
    write_table([Section("", "", columns, rows)], whole, width)
    write_long_table(lambda: (Section("", "", columns, some) for some in pieces), long, width)
    assert long.getvalue() == whole.getvalue()
    write_long_table(lambda: iter([]), long, width)
    assert long.getvalue() == whole.getvalue()


@pytest.mark.parametrize("limit", [0, 20_000, 1 << 40])
def test_rows_stay_in_order(limit: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spill, "MEMORY_MAX", limit)
    monkeypatch.setattr(spill, "_CHUNK_ROWS", 64)
    log = RowLog(Spill(0, lambda: tmp_path), (np.int64, np.uint8))
    numbers = np.arange(5000)
    for start, stop in ((0, 0), (0, 1), (1, 900), (900, 4999), (4999, 5000)):
        log.append((numbers[start:stop], numbers[start:stop].astype(np.uint8)))
    assert len(log) == 5000
    for _ in range(2):
        found = [np.concatenate(column) for column in zip(*log.chunks(), strict=True)]
        assert np.array_equal(found[0], numbers)
        assert np.array_equal(found[1], numbers.astype(np.uint8))


def test_numbers_become_masks() -> None:
    numbers = np.array([0, 3, 4, 5, 9, 40, 41, 60])
    chunks = [numbers[:0], numbers[:2], numbers[2:7], numbers[7:]]
    mask = NumberMask(iter(chunks))
    cuts = [0, 0, 1, 4, 9, 9, 10, 39, 41, 80]
    found = [mask.within(start, stop) for start, stop in pairwise(cuts)]
    assert np.array_equal(np.flatnonzero(np.concatenate(found)), numbers)
