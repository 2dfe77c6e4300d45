"""`diff` of environments from engines and of built ones, compared with plain sets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from je_tools.diff.environments import DatabaseDifferences, differences, pairs
from je_tools.diff.records import RecordChange
from tests.builders.trees import DUPLICATES, TreeLog, simple, slot
from tests.corpus import FIXTURES
from tests.je_tools.corpus_snapshots import database_named, pairs_of, snapshot_of
from tests.je_tools.dumped import je_tools
from tests.je_tools.snapshots import NOW_MS
from tests.truth.contents import read_contents

DUPS, OLD = FIXTURES / "v17-dups" / "env", FIXTURES / "v6-halt" / "env"
Rows = list[tuple[bytes, bytes]]


def told(a: Path, b: Path, name: str) -> tuple[str, dict[str, Rows]]:
    """Return the state of a database and the records of each change, in the order of the diff."""
    one, other = snapshot_of(a, now_ms=NOW_MS), snapshot_of(b, now_ms=NOW_MS)
    (pair,) = pairs(one, other, (name,), internal=False)
    tally = DatabaseDifferences(pair)
    found: dict[str, Rows] = {change.label: [] for change in RecordChange}
    for batch in differences(one, other, pair):
        tally.add(batch)
        for row in range(len(batch)):
            label = RecordChange(int(batch.change[row])).label
            found[label].append((batch.key[row] or b"", batch.data[row] or b""))
    return tally.state, found


def database_of(folder: Path, records: Rows, *, duplicates: bool) -> Path:
    """Write an environment whose database `visits` holds records, in slots if duplicates."""
    from je_tools.formats.je.btree.keys import join_two_part

    log = TreeLog()
    if duplicates:
        keys = [join_two_part(key, data) for key, data in records]
        slots = [slot(key, log.ln(key, b"")) for key in keys]
    else:
        slots = [slot(key, log.ln(key, data)) for key, data in records]
    log.database(b"visits", log.tree(slots), db_flags=DUPLICATES if duplicates else 0)
    log.checkpoint()
    return log.write(folder / "env")


def lacking(records: Rows, others: Rows) -> Rows:
    return sorted(set(records) - set(others))


@pytest.fixture(scope="module")
def visits() -> Rows:
    return read_contents(DUPS.parent / "records.tsv.gz")["visits"]


def test_duplicates_of_real_environments_on_both_sides(tmp_path: Path, visits: Rows) -> None:
    assert told(DUPS, DUPS, "visits") == ("same", {each.label: [] for each in RecordChange})
    others = sorted([pair for i, pair in enumerate(visits) if i % 3] + [(b"new", b"1")])
    state, found = told(DUPS, database_of(tmp_path, others, duplicates=True), "visits")
    assert state == "differs"
    assert found["only-a"] == lacking(visits, others)
    assert found["only-b"] == [(b"new", b"1")]
    assert not found["changed-a"] + found["changed-b"]


@pytest.mark.parametrize("first", [True, False], ids=["in-a", "in-b"])
def test_duplicates_on_one_side_only(tmp_path: Path, visits: Rows, first: bool) -> None:
    plain = sorted({**dict(visits[::7]), b"new": b"1", b"": b""}.items())
    homes = [DUPS, database_of(tmp_path, plain, duplicates=False)]
    state, found = told(*(homes if first else homes[::-1]), "visits")
    assert state == "other-kind"
    ours, theirs = ("only-a", "only-b") if first else ("only-b", "only-a")
    assert found[ours] == lacking(visits, plain)
    assert found[theirs] == lacking(plain, visits)
    assert not found["changed-a"] + found["changed-b"]


def test_a_database_of_another_kind_differs_even_where_its_records_do_not(tmp_path: Path) -> None:
    records = [(b"a", b"1"), (b"b", b"2")]
    homes = [database_of(tmp_path / str(kind), records, duplicates=kind) for kind in (False, True)]
    done = je_tools("diff", *homes, "--format", "jsonl")
    assert (done.code, json.loads(done.out)["state"]) == (3, "other-kind")
    assert json.loads(done.out)["only_a_count"] == 0


def test_duplicates_of_the_old_form(visits: Rows) -> None:
    for name in ("visits", "people"):
        assert told(OLD, OLD, name)[0] == "same"
    snapshot = snapshot_of(OLD, now_ms=NOW_MS)
    old = [
        (key, data or b"")
        for key, data in pairs_of(snapshot.records(database_named(snapshot, "visits")))
    ]
    assert len(set(old)) > len({key for key, _ in old})
    state, found = told(OLD, DUPS, "visits")
    assert state == "differs"
    assert found["only-a"] == lacking(old, visits)
    assert found["only-b"] == lacking(visits, old)
    assert not found["changed-a"] + found["changed-b"]


def test_databases_by_id(tmp_path: Path) -> None:
    home = simple({b"a": b"1"}).write(tmp_path / "env")
    other = simple({b"a": b"2"}).write(tmp_path / "other")
    done = je_tools("diff", home, other, "--db", "id:6", "--db", "db", "--format", "jsonl")
    assert done.code == 3
    assert [json.loads(line)["db"] for line in done.out.splitlines()] == ["db"]
    done = je_tools("diff", home, other, "--db", "id:7")
    assert (done.code, done.err) == (
        2,
        "je-tools: --db id:7: neither environment has such a database\n",
    )


def test_a_database_without_a_name_goes_by_its_id(tmp_path: Path) -> None:
    homes = []
    for value in (b"1", b"2"):
        log = TreeLog()
        log.database(b"gone", log.tree([slot(b"a", log.ln(b"a", value))]))
        log.named.clear()
        log.checkpoint()
        homes.append(log.write(tmp_path / value.decode()))
    done = je_tools("diff", *homes, "--format", "jsonl", "--exit-zero")
    assert done.out == b""
    done = je_tools("diff", *homes, "--db", "id:6", "--format", "jsonl")
    assert (done.code, json.loads(done.out)["db"], json.loads(done.out)["changed_count"]) == (
        3,
        "id:6",
        1,
    )


def test_what_is_no_damage_is_told_and_is_no_difference(tmp_path: Path) -> None:
    log = TreeLog()
    lsns = [log.ln(key, b"1") for key in (b"a", b"zz", b"m")]
    left = log.node([slot(b"a", lsns[0]), slot(b"zz", lsns[1])], node_id=11)
    right = log.node([slot(b"m", lsns[2])], node_id=12)
    children = [slot(b"", left), slot(b"m", right)]
    log.database(b"db", log.node(children, level=2, is_root=True))
    log.checkpoint()
    # A crash can leave such slots, so a log that was not closed may have them.
    log.ln(b"q", b"2")
    home = log.write(tmp_path / "env")
    done = je_tools("diff", home, home)
    assert "stray-slots" in done.err
    assert done.err.endswith("0 of 1 databases differ\n")
    assert done.code == 0
