"""An audit of stores of Ignite beside environments of JE."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from je_tools.audit import known_environments
from je_tools.audit.discover import EnvironmentKind, find_fleet
from je_tools.audit.store_rows import store_rows
from je_tools.errors import InputError
from je_tools.ignite import examination
from je_tools.ignite import store as ignite_store
from je_tools.ignite.info import LockState
from je_tools.ignite.store import open_store
from tests.builders import ignite as build
from tests.builders import ignite_pages as pages
from tests.corpus import FIXTURES, damaged_store
from tests.je_tools.audit.auditing import Tables, age, audit_fleet, tables_in
from tests.je_tools.dumped import je_tools


def audited(root: Path, out: Path, *words: str) -> tuple[dict[str, list[dict[str, Any]]], int]:
    """Return the tables environments and findings of an audit, and its exit code."""
    done = je_tools("audit", "run", root, "--output", out, "--engine", "local", *words)
    tables = {
        name: pq.read_table(out / name).drop_columns("run").to_pylist()
        for name in ("environments", "findings")
    }
    return tables, done.code


def findings_of(store: Path) -> list[tuple[Any, ...]]:
    """Return the findings of `doctor`."""
    document = json.loads(je_tools("doctor", store, "--format", "json").out)
    rows = [row for name in ("start", "findings") for row in document[name]]
    return sorted(map(facts, rows), key=repr)


def facts(row: dict[str, Any]) -> tuple[Any, ...]:
    """Return the columns that findings of `doctor` and of an audit have in common."""
    names = ("severity", "code", "node", "file", "segment", "page", "offset", "length", "found")
    return tuple(row[name] for name in names)


def test_a_damaged_store_beside_an_environment(tmp_path: Path) -> None:
    store = pages.write_damaged_page_store(tmp_path / "fleet" / "work")
    (store / "db" / "node1" / "cp").mkdir()
    shutil.copytree(FIXTURES / "v17-basic" / "env", tmp_path / "fleet" / "je")
    alone, _ = audited(tmp_path / "fleet" / "je", tmp_path / "alone")
    tables, code = audited(tmp_path / "fleet", tmp_path / "out")
    assert code == 3
    je, ignite = tables["environments"]
    assert [(row["env"], row["kind"]) for row in (je, ignite)] == [
        (str(tmp_path / "fleet" / "je"), "je"),
        (str(store), "ignite"),
    ]
    # Nothing changes for the environment.
    assert [je] == alone["environments"]
    of_store = [row for row in tables["findings"] if row["env"] == str(store)]
    assert [row for row in tables["findings"] if row not in of_store] == alone["findings"]
    assert sorted(map(facts, of_store), key=repr) == findings_of(store)
    assert ignite["error_count"] == sum(row["severity"] == "error" for row in of_store) > 0
    page = (tmp_path / "out" / "report.html").read_text()
    assert "page-checksum" in page
    assert f"<dt>Log files</dt><dd>{je['file_count']}</dd>" in page
    assert f"<dt>Files of stores</dt><dd>{ignite['file_count']}</dd>" in page


def test_codes_of_stores_decide_the_exit(tmp_path: Path) -> None:
    pages.write_damaged_page_store(tmp_path / "work")
    words = ("--fail-on", "page-checksum")
    assert audited(tmp_path / "work", tmp_path / "out", *words)[1] == 3
    assert audited(tmp_path / "work", tmp_path / "out", "--fail-on", "wal-gap")[1] == 0


def test_the_places_of_new_findings_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    root, out = tmp_path / "fleet", tmp_path / "out"
    store = pages.write_page_store(root / "work")
    audited(root, out)
    part = min(store.rglob("part-*.bin"))
    pages.damage(part, 1)
    audited(root, out)
    lines = je_tools("audit", "diff", out, "--format", "jsonl").out.splitlines()
    rows = list(map(json.loads, lines))
    new = [row for row in rows if row["section"] == "findings" and row["change"] == "new"]
    (found,) = [row for row in new if row["code"] == "page-checksum"]
    (name,) = {row["node"] for row in pq.read_table(out / "findings").to_pylist() if row["node"]}
    file = str(part.relative_to(store))
    assert (found["node"], found["file"], found["page"]) == (name, file, 1)
    assert (found["segment"], found["file_no"]) == (None, None)
    table = je_tools("audit", "diff", out).out.decode()
    (head,) = (line for line in table.splitlines() if "file in store" in line)
    assert {"node", "segment", "page"} < set(head.split())
    assert " file " not in head.replace("file in store", "")
    assert f"{file}, page 1, offset " in (out / "report.html").read_text()


def test_what_is_unknown_of_transactions_is_null(tmp_path: Path) -> None:
    store = FIXTURES / "ignite-killed" / "store"
    tables, _ = audited(store, tmp_path / "out")
    (row,) = tables["environments"]
    lines = je_tools("ignite", "recover", store, "--format", "jsonl").out.splitlines()
    (logical,) = [row for row in map(json.loads, lines) if row["section"] == "logical"]
    assert row["unfinished_count"] == logical["transactions"] == 1
    assert row["lost_record_count"] == logical["lost_records"] == 0
    assert (row["committed_count"], row["aborted_count"], row["lost_key_count"]) == (None,) * 3
    summary = json.loads((tmp_path / "out" / "audit.json").read_text())
    (environment,) = summary["environments"]
    assert environment["committed_count"] is environment["aborted_count"] is None
    assert summary["totals"]["unfinished_count"] == 1


def test_never_excludes_other_severities(tmp_path: Path) -> None:
    words = ("audit", "run", tmp_path, "--output", tmp_path / "out", "--engine", "local")
    done = je_tools(*words, "--fail-on", "error", "--fail-on", "never")
    assert done.code == 2
    assert "--fail-on never excludes --fail-on error" in done.err
    assert not (tmp_path / "out").exists()


def test_damaged_stores(ignite_damage: Path, tmp_path: Path) -> None:
    if ignite_damage.name not in ("ignite-bitflip", "ignite-partition-lost"):
        # The judge is that of doctor, whose test covers every store.
        return
    store = damaged_store(ignite_damage, tmp_path / "fleet")
    tables, code = audited(tmp_path / "fleet", tmp_path / "out")
    (row,) = tables["environments"]
    document = json.loads(je_tools("doctor", store, "--format", "json").out)
    assert row["outcome"] == document["nodes"][0]["outcome"] != "starts"
    assert row["verdict"] == document["verdict"]
    assert (row["lost_record_count"] > 0) == (ignite_damage.name == "ignite-bitflip")
    assert code == 3
    assert sorted(map(facts, tables["findings"]), key=repr) == findings_of(store)


def test_stores_are_found_by_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No segment is opened, which would unpack those of an archive on the driver."""
    data = build.segment(0, [])[0]
    whole = build.write_store(tmp_path / "a", [data], [data])
    archive = build.write_store(tmp_path / "b", [data], [])
    shutil.rmtree(archive / "db" / "node1")
    shutil.rmtree(archive / "db" / "wal" / "node1")
    (tmp_path / "c" / "db" / "wal" / "none").mkdir(parents=True)

    def fail(path: Path) -> None:
        raise AssertionError(path)

    monkeypatch.setattr(ignite_store, "inspect_segment", fail)
    fleet = find_fleet([tmp_path], tuple(EnvironmentKind))
    assert [each.paths for each in fleet.environments] == [(whole,), (archive,)]


def test_a_part_of_a_node_that_cannot_be_read_is_no_all_clear(tmp_path: Path) -> None:
    """The folder of the node has gone, and its log is left."""
    store = tmp_path / "fleet" / "work"
    build.write_exported_store(store)
    shutil.rmtree(store / "db" / "node1")
    age(tmp_path, 600)
    for _ in range(2):
        _, code = audited(tmp_path / "fleet", tmp_path / "out")
        tables = tables_in(tmp_path / "out")
        (row,) = tables["environments"]
        unread = [each for each in tables["findings"] if each["code"] == "unread"]
        assert unread
        assert {each["node"] for each in unread} == {"node1"}
        assert (code, row["severity"], row["error_count"]) == (3, "error", len(unread))
        # It may be there again the next time, without a change of what is left.
        assert row["source"] == "read"
    assert je_tools("doctor", store).code == 3


def test_a_cache_that_cannot_be_listed_is_no_all_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    store = FIXTURES / "ignite-killed" / "store"

    def fail(*_words: object, **_named: object) -> None:
        raise InputError("cache-first: Permission denied")

    monkeypatch.setattr(examination, "verify_pages", fail)
    rows = store_rows(find_fleet([store], tuple(EnvironmentKind)).environments[0], predicts=True)
    tables = {name: each.to_pylist() for name, each in rows.tables().items()}
    assert [(each["code"], each["found"]) for each in tables["findings"]] == [
        ("unread", "cache-first: Permission denied")
    ]
    assert tables["environments"][0]["severity"] == "error"
    assert "no damage in what was checked" in tables["environments"][0]["verdict"]
    assert examination.examine_store(open_store([store]), 1).is_damaged


def test_damage_at_a_known_offset_of_another_file_is_new(tmp_path: Path) -> None:
    root, out = tmp_path / "fleet", tmp_path / "out"
    cache = pages.write_page_store(root / "work") / "db" / "node1" / "cache-first"
    pages.damage(cache / "part-0.bin", 4)
    audited(root, out)
    assert je_tools("audit", "diff", out, "--format", "jsonl").code == 4
    pages.damage(cache / "part-1.bin", 4)
    audited(root, out)
    done = je_tools("audit", "diff", out, "--format", "jsonl")
    rows = [json.loads(line) for line in done.out.splitlines()]
    new = [row for row in rows if row["section"] == "findings" and row["change"] == "new"]
    assert "page-checksum" in {row["code"] for row in new}
    assert done.code == 3


def test_an_unchanged_store_is_taken_over(tmp_path: Path) -> None:
    root, out = tmp_path / "fleet", tmp_path / "out"
    store = pages.write_damaged_page_store(root / "work")
    (store / "db" / "node1" / "cp").mkdir()
    shutil.copytree(FIXTURES / "v17-basic" / "env", root / "je")
    age(root, 600)
    found, counts = [], []
    for _ in range(2):
        je_tools("audit", "run", root, "--output", out, "--engine", "local")
        found.append(tables_in(out))
        counts.append(json.loads((out / "audit.json").read_text())["totals"])
    assert [sources_of(each) for each in found] == [[None, "read"], [None, "known"]]
    for tables in found:
        tables["environments"][1].pop("source")
    for name in ("environments", "findings"):
        assert found[0][name] == found[1][name]
    assert counts[0]["read_file_count"] == counts[0]["file_count"] > 2
    assert counts[1]["read_file_count"] == 0
    assert str(store) == found[1]["environments"][1]["env"]


def sources_of(tables: Tables) -> list[str | None]:
    """Return whether this run has read each store."""
    return [row["source"] for row in tables["environments"]]


def test_a_store_that_may_have_changed_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = pages.write_page_store(tmp_path / "work")
    (store / "db" / "node1" / "cp").mkdir()
    age(store, 600)

    def audit() -> str | None:
        (source,) = sources_of(
            audit_fleet(find_fleet([store], tuple(EnvironmentKind)), tmp_path / "audits")
        )
        return source

    assert [audit(), audit()] == ["read", "known"]
    with monkeypatch.context() as patched:
        patched.setattr(known_environments, "lock_state", lambda _: LockState("held"))
        assert audit() == "read"
    part = min(store.rglob("part-*.bin"))
    data = part.read_bytes()
    part.write_bytes(data[:-1] + b"x")
    # A map may have been written after the time that the file has.
    age(store, 40)
    assert [audit(), audit()] == ["read", "read"]
    os.utime(part, (part.stat().st_mtime - 600,) * 2)
    assert [audit(), audit()] == ["read", "known"]
    (tmp_path / "other").mkdir()
    (store / "db" / "elsewhere").symlink_to(tmp_path / "other")
    age(tmp_path, 600)
    assert [audit(), audit()] == ["read", "read"]
