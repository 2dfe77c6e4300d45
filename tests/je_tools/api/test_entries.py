"""`entries`: the Parquet of `dump` as batches, its filters, and what is left when it ends early."""

from __future__ import annotations

import gc
import shutil
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import je_tools
from je_tools.errors import InputError, StoppedError, UsageError
from je_tools.formats.je.log import reader
from tests.corpus import Environment
from tests.je_tools.api.reading import (
    DAMAGED_AT,
    MANY_FILES,
    assert_same,
    by_command,
    damaged,
    home_of,
    plain,
)

REPLICATED = "v26-rep-committed/node1"


@pytest.fixture
def many_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read small logs in many ranges and in threads."""
    monkeypatch.setattr("je_tools.log.scan_options.ONE_THREAD_MAX", -1)
    monkeypatch.setattr(reader, "RANGE_SIZE", 1 << 14)


def open_paths(home: Path) -> list[str]:
    """Return the files of an environment that this process has open."""
    links = [path.readlink() for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
    return [str(link) for link in links if link.is_relative_to(home.resolve())]


def test_all_entries_are_those_of_a_dump(some_environment: Environment, tmp_path: Path) -> None:
    home = some_environment.home
    table, _ = by_command("dump", tmp_path, home)
    batches = je_tools.open(home).entries()
    assert_same(table, batches.to_table())
    assert batches.schema == batches.to_table().schema


FILTERS: list[tuple[str, dict[str, Any], str]] = [
    ("v17-basic", {"type": "INS_LN_TX"}, "--type INS_LN_TX"),
    ("v17-basic", {"type": ["TXN", "IN"], "limit": 20}, "--type TXN --type IN --limit 20"),
    ("v17-basic", {"db": "people", "key": b"user00000007"}, "--db people --key user00000007"),
    ("v17-basic", {"db": 6, "txn": {7, 8}}, "--db id:6 --txn 7 --txn 8"),
    ("v17-basic", {"grep": "user9@"}, "--grep user9@"),
    (
        "v17-basic",
        {"from_lsn": 0x183, "to_lsn": "0x0/0x793"},
        "--from-lsn 0x0/0x183 --to-lsn 0x0/0x793",
    ),
    (REPLICATED, {"from_vlsn": 3, "to_vlsn": 40}, "--from-vlsn 3 --to-vlsn 40"),
    (REPLICATED, {"replicated": True}, "--replicated"),
    ("v17-basic", {"since": "2026-11-20T23:10:21"}, "--since 2026-11-20T23:10:21"),
    ("v17-basic", {"backward": True, "limit": 30}, "--backward --limit 30"),
    ("v17-basic", {"ignore_checksum": True}, "--ignore-checksum"),
]


@pytest.mark.parametrize(("name", "arguments", "options"), FILTERS)
def test_filters_are_those_of_a_dump(
    name: str, arguments: dict[str, Any], options: str, tmp_path: Path
) -> None:
    table, _ = by_command("dump", tmp_path, home_of(name), *options.split())
    found = je_tools.open(home_of(name)).entries(**arguments).to_table()
    assert found.num_rows
    assert_same(table, found)


def test_a_time_may_be_a_datetime() -> None:
    env = je_tools.open(home_of("v17-basic"))
    text = env.entries(until="2026-11-20T23:10:21").to_table()
    moment = env.entries(until=datetime(2026, 11, 20, 23, 10, 21, tzinfo=UTC)).to_table()
    assert 0 < text.num_rows < 1695
    assert_same(text, moment)


def test_keys_are_masked(tmp_path: Path) -> None:
    home = home_of("v17-basic")
    table, _ = by_command("dump", tmp_path, home, "--data", "hash", "--type", "LN")
    assert_same(table, je_tools.open(home, data="hash").entries(type="LN").to_table())


def test_files_can_be_opened(tmp_path: Path) -> None:
    files = sorted(home_of(MANY_FILES).glob("*.jdb"))
    table, _ = by_command("dump", tmp_path, *files)
    assert_same(table, je_tools.open(map(str, files)).entries().to_table())
    assert_same(
        by_command("dump", tmp_path, files[0])[0], je_tools.open(files[0]).entries().to_table()
    )


@pytest.mark.parametrize("threads", [1, 3])
def test_batches_stay_valid_while_others_are_read(many_ranges: None, threads: int) -> None:
    """Ranges are read into arrays that are used again."""
    env = je_tools.open(home_of(MANY_FILES), threads=threads)
    pairs = list(zip(env.entries(), env.entries(), strict=True))
    assert len(pairs) > 10
    whole = env.entries().to_table()
    for side in zip(*pairs, strict=True):
        assert_same(whole, pa.Table.from_batches(side))


def test_arrow_streams_take_batches() -> None:
    env = je_tools.open(home_of("v17-basic"))
    assert pa.table(env.entries(type="Commit")).num_rows == 272
    assert pl.DataFrame(env.entries(type="Commit"))["txn_id"].n_unique() == 272


@pytest.mark.parametrize("way", ["close", "drop", "with", "environment"])
@pytest.mark.parametrize("arguments", [{}, {"backward": True}, {"limit": 1000}])
def test_an_early_end_leaves_nothing_open(
    many_ranges: None, way: str, arguments: dict[str, Any]
) -> None:
    home = home_of(MANY_FILES)
    before = threading.active_count()
    env = je_tools.open(home, threads=3)
    batches = env.entries(**arguments)
    first = next(batches)
    assert open_paths(home)
    if way == "close":
        batches.close()
    elif way == "with":
        with batches:
            next(batches)
    elif way == "environment":
        with env:
            pass
    if way == "drop":
        del batches
        gc.collect()
    assert threading.active_count() == before
    assert open_paths(home) == []
    assert first.num_rows == len(plain(first["lsn"]))


def test_closed_batches_are_no_end_of_the_log() -> None:
    env = je_tools.open(home_of("v17-basic"))
    batches = env.entries()
    batches.close()
    with pytest.raises(UsageError, match="closed"):
        batches.to_table()
    done = env.entries()
    done.to_table()
    done.close()
    assert list(done) == []
    env.close()
    for call in (env.entries, env.records, env.databases, env.count, env.recovery, env.verify):
        with pytest.raises(UsageError, match="is closed"):
            call()


def test_damage_is_a_finding(tmp_path: Path) -> None:
    home = damaged(tmp_path)
    env = je_tools.open(home)
    assert env.findings == ()
    table = env.entries().to_table()
    (found,) = env.findings
    assert (found.code, found.severity) == ("damaged-entry", je_tools.Severity.ERROR)
    assert (found.file_no, found.offset, found.length) == (0, DAMAGED_AT, 27)
    assert DAMAGED_AT in plain(table["offset"])
    assert plain(table["checksum"]).count("ok") == 1694
    # The same finding by other ways is reported once.
    assert env.verify().findings == env.findings
    env.entries(db="people").close()
    assert len(env.findings) == 1


def test_only_what_was_read_is_judged(tmp_path: Path) -> None:
    home = damaged(tmp_path)
    env = je_tools.open(home)
    env.entries(limit=2).to_table()
    env.entries(limit=200).close()
    assert env.findings == ()
    env.entries(backward=True).to_table()
    assert [each.code for each in env.findings] == ["damaged-entry"]
    again = je_tools.open(home)
    again.entries(limit=2, db="people")
    assert [each.code for each in again.findings] == ["damaged-entry"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"db": "nobody"}, "^db nobody: not in this log, which has: people$"),
        ({"type": "INS"}, "^type INS: no such entry type"),
        ({"from_lsn": "3"}, "^from_lsn 3: an LSN is written"),
        ({"to_lsn": -1}, "^to_lsn: -1 is not an LSN"),
        ({"from_lsn": 9, "to_lsn": 8}, "^from_lsn comes after to_lsn"),
        ({"since": "now"}, "^since now: a time is written"),
        ({"key": "long:x"}, "^key long:x"),
        ({"grep": b""}, "^grep: no bytes"),
        ({"limit": 0}, "^limit: 0 is less than 1"),
    ],
)
def test_wrong_arguments_are_refused_at_the_call(arguments: dict[str, Any], text: str) -> None:
    env = je_tools.open(home_of("v17-basic"))
    with pytest.raises(UsageError, match=text):
        env.entries(**arguments)


@pytest.mark.parametrize(
    "arguments", [{"type": 5}, {"txn": "7"}, {"db": 1.5}, {"key": 7}, {"limit": "3"}, {"since": 4}]
)
def test_wrong_types_are_bugs_of_the_caller(arguments: dict[str, Any]) -> None:
    env = je_tools.open(home_of("v17-basic"))
    with pytest.raises(TypeError, match=f"^{next(iter(arguments))}: expected"):
        env.entries(**arguments)


def test_what_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        je_tools.open(tmp_path / "nothing")
    with pytest.raises(InputError):
        je_tools.open(tmp_path)
    with pytest.raises(UsageError, match="no environment directory"):
        je_tools.open([])
    with pytest.raises(UsageError, match=r"^data: 'all' is none of show, hide"):
        je_tools.open(home_of("v17-basic"), data="all")
    with pytest.raises(UsageError, match=r"^threads: -1"):
        je_tools.open(home_of("v17-basic"), threads=-1)


def test_a_log_that_vanishes_stops_reading(many_ranges: None, tmp_path: Path) -> None:
    home = tmp_path / "env"
    shutil.copytree(home_of(MANY_FILES), home)
    batches = je_tools.open(home, threads=1).entries()
    next(batches)
    for path in home.glob("*.jdb"):
        path.unlink()
    with pytest.raises((StoppedError, InputError)):
        batches.to_table()
    with pytest.raises(UsageError, match="closed"):
        next(batches)


def test_appended_entries_are_seen_by_the_next_call(tmp_path: Path) -> None:
    home = tmp_path / "env"
    home.mkdir()
    data = (home_of("v17-basic") / "00000000.jdb").read_bytes()
    (home / "00000000.jdb").write_bytes(data[:DAMAGED_AT])
    env = je_tools.open(home)
    assert max(plain(env.entries().to_table()["lsn"])) < DAMAGED_AT
    (home / "00000000.jdb").write_bytes(data)
    assert env.entries().to_table().num_rows == 1695
