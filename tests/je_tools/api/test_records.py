"""Records, databases, plans and verdicts: equal to what the commands write."""

from __future__ import annotations

import gc
import io
import json
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import je_tools
from je_tools.core.masking import Masking
from je_tools.errors import InputError, UsageError
from je_tools.output.views.recovery_tables import recovery_report
from tests.builders.trees import TreeLog, slot
from tests.corpus import Environment
from tests.je_tools.api.reading import assert_same, by_command, damaged, home_of, plain
from tests.je_tools.dumped import je_tools as run

CRASHED = "v17-crash-txn"
DUPLICATES = "v17-dups"


def rows_of(*arguments: str | Path) -> list[dict[str, Any]]:
    """Return the JSON lines of a command, without findings."""
    rows = [json.loads(line) for line in run(*arguments, "--format", "jsonl").out.splitlines()]
    return [row for row in rows if row.get("section") != "findings"]


def damaged_node(folder: Path) -> Path:
    """Return a log with 300 records in two BINs, the second of which is damaged."""
    log = TreeLog()
    slots = [slot(b"%05d" % i, log.ln(b"%05d" % i, b"value")) for i in range(300)]
    bins = [log.node(slots[:200]), log.node(slots[200:])]
    root = log.node([slot(b"", bins[0]), slot(b"00200", bins[1])], level=2, is_root=True)
    log.next_file()
    log.database(b"db", root)
    log.checkpoint()
    home = log.write(folder / "env")
    path = home / "00000000.jdb"
    data = bytearray(path.read_bytes())
    data[bins[1] + 20] ^= 0xFF
    path.write_bytes(data)
    return home


@pytest.mark.parametrize(
    ("name", "arguments", "options"),
    [
        ("v17-basic", {"db": "people"}, "--db people"),
        (DUPLICATES, {"db": "id:6"}, "--db id:6"),
        ("v15-ttl", {"db": 5, "show_expired": True}, "--db id:5 --show-expired"),
        ("v15-ttl", {"db": 5, "now": "2020-01-01"}, "--db id:5 --now 2020-01-01"),
        (CRASHED, {"db": "people", "to_lsn": 0x20047}, "--db people --to-lsn 0x0/0x20047"),
        (CRASHED, {"db": "people", "key_range": "..user00000005"}, ""),
        (CRASHED, {"db": "_jeNameMap"}, "--db _jeNameMap"),
    ],
)
def test_records_are_those_of_an_export(
    name: str, arguments: dict[str, Any], options: str, tmp_path: Path
) -> None:
    options = options or "--db people --key-range ..user00000005"
    table, _ = by_command("export", tmp_path, home_of(name), *options.split())
    batches = je_tools.open(home_of(name)).records(**arguments)
    assert_same(table, batches.to_table())
    assert table.num_rows


def test_all_databases_at_once() -> None:
    env = je_tools.open(home_of("v8-dbops"))
    every = env.records().to_table()
    names = plain(every["db"])
    assert list(dict.fromkeys(names)) == sorted(set(names))
    assert {name: names.count(name) for name in env.count()} == env.count()
    some = env.records(["people", "plain"]).to_table()
    assert set(plain(some["db"])) == {"people", "plain"}
    assert len(set(plain(env.records(internal=True).to_table()["db"]))) > len(set(names))


def test_counts_and_databases_are_those_of_commands(some_environment: Environment) -> None:
    env = je_tools.open(some_environment.home)
    counted = rows_of("count", some_environment.home)
    assert env.count() == {row["db"]: row["records"] for row in counted}
    rows = rows_of("databases", some_environment.home, "--internal")
    databases = env.databases(internal=True)
    assert [(row["db"], row["db_id"], row["state"], row["records"]) for row in rows] == [
        (each.name, each.db_id, each.state, each.shape.records) for each in databases
    ]


def test_masked_keys(tmp_path: Path) -> None:
    home = home_of(CRASHED)
    table, _ = by_command("export", tmp_path, home, "--db", "people", "--data", "length")
    assert_same(table, je_tools.open(home, data="length").records("people").to_table())
    salted = je_tools.open(home, data="salted-hash")
    one, other = (plain(salted.records("people").to_table()["key"]) for _ in range(2))
    assert one == other
    assert one != plain(je_tools.open(home, data="salted-hash").records().to_table()["key"])


def test_a_plan_is_that_of_recover() -> None:
    home = home_of(CRASHED)
    plan = je_tools.open(home).recovery()
    told = run("recover", home, "--format", "jsonl").out.splitlines()
    own = io.BytesIO()
    recovery_report(plan, Masking()).write_lines(own)
    assert own.getvalue().splitlines() == told
    assert (plan.is_clean, len(plan.open_transactions), plan.refusals) == (False, 1, ())
    assert plan.end.next_lsn == 0x43E72
    assert plan.checkpoint.end_lsn == 0x3CFE5
    earlier = je_tools.open(home).recovery(to_lsn="0x0/0x20047")
    assert earlier.end.last_lsn == 0x20047


@pytest.mark.parametrize("tree", [False, True])
def test_a_verdict_is_that_of_verify(tree: bool, tmp_path: Path) -> None:
    home = damaged(tmp_path)
    options = ["--tree"] if tree else []
    done = run("verify", home, "--format", "jsonl", *options)
    result = je_tools.open(home).verify(tree=tree)
    assert done.err == f"je-tools: {result.verdict}\n"
    assert [json.loads(line) for line in done.out.splitlines()] == [
        each.row() for each in result.findings
    ]
    assert (result.is_intact, result.tree, result.totals.errors) == (False, tree, 1 + tree)
    intact = je_tools.open(home_of("v17-basic")).verify(tree=tree)
    assert (intact.is_intact, intact.findings) == (True, ())
    everything = je_tools.open(home_of("v17-basic")).verify(everything=True)
    assert [each.code for each in everything.findings] == ["clean-end"]


def test_damage_in_a_tree_is_a_finding(tmp_path: Path) -> None:
    home = damaged_node(tmp_path)
    env = je_tools.open(home)
    batches = env.records()
    assert env.findings == ()
    table = batches.to_table()
    (found,) = [each for each in env.findings if each.code == "tree-damage"]
    assert table.num_rows == 200
    assert found.text() in run("export", home, "--all", "--output", tmp_path / "out").err
    for use in ("count", "databases"):
        again = je_tools.open(home)
        getattr(again, use)()
        assert again.findings, use


def test_findings_of_batches_that_are_closed_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever has been read by then is reported, and threads have ended."""
    monkeypatch.setattr("je_tools.log.scan_options.ONE_THREAD_MAX", -1)
    env = je_tools.open(damaged_node(tmp_path), threads=3)
    before = threading.active_count()
    batches = env.records()
    next(batches)
    assert env.findings == ()
    batches.close()
    assert threading.active_count() == before
    whole = je_tools.open(env.name)
    whole.records().to_table()
    assert env.findings
    assert set(env.findings) <= set(whole.findings)
    abandoned = env.records()
    next(abandoned)
    del abandoned
    gc.collect()
    assert threading.active_count() == before


def test_interleaved_batches_are_independent() -> None:
    env = je_tools.open(home_of(CRASHED), threads=1)
    sides = zip(*zip(env.records("people"), env.records("people"), strict=True), strict=True)
    whole = env.records("people").to_table()
    for side in sides:
        assert_same(whole, pa.Table.from_batches(side))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"db": "nobody"}, r"^db nobody: there is no such database. The log has: people \(id:6\)$"),
        ({"to_lsn": 5, "to_vlsn": 6}, r"^to_lsn and to_vlsn: a log has one end"),
        ({"to_lsn": "0x9/0x0"}, r"^to_lsn 0x9/0x0: .* ends at"),
        ({"to_time": "2001-01-01"}, r"^to_time 2001-01-01"),
        ({"key_range": "x"}, r"^key_range x: a range is written"),
    ],
)
def test_wrong_arguments_are_refused_at_the_call(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        je_tools.open(home_of(CRASHED)).records(**arguments)


def test_single_files_have_no_records() -> None:
    env = je_tools.open(next(home_of(CRASHED).glob("*.jdb")))
    for call in (env.records, env.databases, env.count, env.recovery):
        with pytest.raises(UsageError, match="open the environment's home"):
            call()
    with pytest.raises(UsageError, match=r"^tree: expected an environment directory"):
        env.verify(tree=True)
    with pytest.raises(UsageError, match=r"^now needs tree: add it$"):
        env.verify(now="2026-01-01")
    assert env.verify().is_intact


def test_a_log_without_a_root_has_no_records(tmp_path: Path) -> None:
    home = tmp_path / "env"
    home.mkdir()
    data = (home_of(CRASHED) / "00000000.jdb").read_bytes()
    (home / "00000000.jdb").write_bytes(data[:60])
    env = je_tools.open(home)
    with pytest.raises(InputError, match="would not open it"):
        env.records()
    assert env.entries().to_table().num_rows
