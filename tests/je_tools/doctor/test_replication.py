"""`doctor` on nodes of groups and front ends agrees with `vlsn check`, `group show`, `journal`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.commands.test_group import Spoiling, spoilt
from tests.corpus import FIXTURES, Environment
from tests.je_tools.checkpoint.nodes import COMMIT, copy_up_to, entries_of, nodes, stream_of
from tests.je_tools.doctor.test_answers import commands, condition, doctor, section
from tests.je_tools.dumped import Row, je_tools, rows_of
from tests.je_tools.journal.front_ends import front_end_log, values_of
from tests.je_tools.journal.test_front_end import FE1, ROLE, make_front_end
from tests.je_tools.vlsn.damages import DAMAGES
from tests.je_tools.vlsn.indexes import append_entry, copy_of
from tests.je_tools.vlsn.test_check import (
    CRASHED,
    NODE,
    NOW_MS,
    ROLLED_BACK,
    map_to_a_rolled_back_entry,
    rollback_to,
)

NAMES = ("code", "severity", "file_no", "offset", "expected", "found")
UNLIKE = (
    *("head missing", "later places", "middle missing", "no buckets", "no first offset"),
    *("no records", "no tree", "offsets that go back", "short"),
)
"""Kinds of damage, no two of which have findings of the same codes."""


def essence(row: Row) -> tuple[object, ...]:
    return tuple(row[name] for name in NAMES)


def agreed(home: Path, *words: str) -> list[Row]:
    """Check that `doctor` has every finding of a command; return the rows of `doctor`."""
    other = je_tools(*words, home, "--format", "jsonl")
    found = [row for row in rows_of(other.out) if "severity" in row]
    done, rows = doctor(home)
    assert set(map(essence, found)) <= set(map(essence, section(rows, "findings")))
    if other.code == 3:
        assert done.code == 3
        assert rows[0]["outcome"] not in ("opens", "locked")
    return rows


@pytest.mark.parametrize("node", nodes())
def test_nodes_that_engines_wrote_are_whole(node: Environment) -> None:
    rows = agreed(node.home, "vlsn", "check")
    assert rows[0]["outcome"] == "opens"
    assert condition(rows, "group")[0] == "ok"
    assert condition(rows, "VLSN index")[0] == "ok"
    assert condition(rows, "VLSNs")[0] in ("ok", "note")
    assert f"je-tools vlsn compare {node.home} /copy/of/another/node" in commands(rows)


def damages() -> list[Any]:
    """Return the kinds of damage; one with the findings of another is exhaustive."""
    return [
        pytest.param(name, marks=[] if name in UNLIKE else [pytest.mark.exhaustive])
        for name in DAMAGES
    ]


@pytest.mark.parametrize("name", damages())
def test_damage_of_an_index_is_reported_as_vlsn_check_does(name: str, tmp_path: Path) -> None:
    home = copy_of(NODE, tmp_path / "node")
    DAMAGES[name](home)
    rows = agreed(home, "vlsn", "check")
    is_reported = any(row["severity"] == "error" for row in section(rows, "findings"))
    assert (
        (condition(rows, "VLSN index")[0] == "error") == is_reported == (name != "middle missing")
    )
    assert (f"je-tools vlsn rebuild {home}" in commands(rows)) == is_reported


def test_an_index_that_the_engine_does_not_merge(tmp_path: Path) -> None:
    home = copy_of(CRASHED, tmp_path / "node")
    DAMAGES["short"](home)
    rows = agreed(home, "vlsn", "check")
    assert rows[0]["outcome"] == "refuses"
    assert "the VLSN index does not fit the log: the index" not in rows[0]["verdict"]
    assert "ends at VLSN 1, and the log continues with 628" in rows[0]["verdict"]


def unmarked(home: Path) -> Path:
    return copy_up_to(ROLLED_BACK, entries_of(ROLLED_BACK)[-1].lsn, home, unmarked=True)


def over_commits(home: Path) -> Path:
    copy_of(NODE, home)
    ends = [vlsn for vlsn, shown in stream_of(home).items() if shown.type_no == COMMIT]
    rollback_to(home, ends[-4])
    return home


def to_another(home: Path) -> Path:
    copy_of(NODE, home)
    last = max(stream_of(home))
    rollback_to(home, last, matchpoint_vlsn=last - 1)
    return home


def to_nowhere(home: Path) -> Path:
    copy_of(NODE, home)
    fields = {"matchpoint_vlsn": 5, "matchpoint_lsn": 999, "time_ms": NOW_MS}
    append_entry(home, "RollbackStart", {**fields, "active_txn_count": 0, "active_txns": []})
    return home


@pytest.mark.parametrize("make", [unmarked, over_commits, to_another, to_nowhere])
def test_rollbacks_are_judged_as_vlsn_check_does(
    make: Callable[[Path], Path], tmp_path: Path
) -> None:
    rows = agreed(make(tmp_path / "node"), "vlsn", "check")
    codes = {row["code"] for row in section(rows, "findings")}
    assert codes & {"vlsn-rollback", "vlsn-unmarked"}
    assert not any(" vlsn rebuild " in command for command in commands(rows))


def test_a_mapping_to_an_entry_that_was_rolled_back(tmp_path: Path) -> None:
    home = copy_of(ROLLED_BACK, tmp_path / "node")
    map_to_a_rolled_back_entry(home)
    rows = agreed(home, "vlsn", "check")
    assert "vlsn-index-mapping" in {row["code"] for row in section(rows, "findings")}


def test_vlsns_after_the_last_commit_are_counted() -> None:
    _, rows = doctor(FIXTURES / "v17-rep-uncommitted-before" / "node1")
    state, text = condition(rows, "VLSNs")
    assert state == "note"
    assert "VLSNs after that without an end of a transaction" in text


def test_a_log_that_is_not_replicated_has_no_such_aspects() -> None:
    _, rows = doctor(FIXTURES / "v17-basic" / "env")
    names = {row["name"] for row in section(rows, "condition")}
    assert names.isdisjoint({"group", "VLSNs", "VLSN index", "front end", "journals"})
    assert not any("vlsn" in command or "group" in command for command in commands(rows))


def test_records_of_a_group_that_cannot_be_read(tmp_path: Path) -> None:
    rows = agreed(spoilt(tmp_path / "env", Spoiling()), "group", "show")
    assert condition(rows, "group")[0] == "error"


def test_a_hole_in_a_journal_stops_a_front_end(tmp_path: Path) -> None:
    ids = [*range(1, 5), *range(8, 12)]
    group = {FE1: "electable"}
    made = front_end_log({"1": values_of(ids), "20": values_of([20])}, group=group)
    home = made.log.write(tmp_path / "bdb")
    rows = agreed(home, "journal")
    assert rows[0]["outcome"] == "stops"
    assert "opens it, but the front end stops if it has to replay" in rows[0]["verdict"]
    state, text = condition(rows, "journals")
    assert state == "error"
    assert text.startswith("ids 1 to 20 in 2 journals; 11 ids missing, in 2 holes")
    assert len([row for row in section(rows, "findings") if row["code"] == "journal-hole"]) == 2
    assert f"je-tools journal {home}" in commands(rows)
    page = je_tools("doctor", home).out.decode()
    assert "journal ids  11 missing, in 2 holes" in page


def test_values_of_journals_are_read_with_the_trees(tmp_path: Path) -> None:
    values = {**values_of([1, 2]), 3: b"\0"}
    home = front_end_log({"1": values}, group={FE1: "electable"}).log.write(tmp_path / "bdb")
    _, rows = doctor(home)
    assert "values were not read" in condition(rows, "journals")[1]
    assert "journal-record" not in {row["code"] for row in section(rows, "findings")}
    _, rows = doctor(home, "--tree")
    assert condition(rows, "journals")[0] == "error"
    assert "journal-record" in {row["code"] for row in section(rows, "findings")}


def test_a_group_is_reset_by_the_name_of_the_node(tmp_path: Path) -> None:
    """Only image/ROLE has the name; otherwise the members are shown."""
    home = copy_of(FIXTURES / "starrocks-fe-hole" / "node1", tmp_path / "meta" / "bdb")
    _, rows = doctor(home)
    assert condition(rows, "front end")[0] == "unknown"
    assert commands(rows)[-1] == f"je-tools group show {home}"
    image = home.parent / "image"
    image.mkdir()
    (image / "ROLE").write_text(ROLE)
    _, rows = doctor(home)
    assert condition(rows, "front end") == ("ok", f"StarRocks; FOLLOWER {FE1}")
    assert commands(rows)[-1] == f"je-tools group reset {home} --node-name {FE1}"
    assert je_tools(*commands(rows)[-1].split()[1:]).code == 0


def test_a_front_end_whose_role_does_not_match_the_group(tmp_path: Path) -> None:
    meta = make_front_end(tmp_path / "meta", role=ROLE, group={"fe2": "electable"})
    rows = agreed(meta / "bdb", "journal")
    assert condition(rows, "front end")[0] == "error"
    assert rows[0]["outcome"] == "stops"


def test_a_database_named_like_a_journal_is_none(tmp_path: Path) -> None:
    """Only the name of the group, or the database of epochs, identifies a front end."""
    home = front_end_log({"1": values_of([1, 5])}, group=None).log.write(tmp_path / "env")
    done, rows = doctor(home)
    assert (done.code, rows[0]["outcome"]) == (0, "opens")
    assert "journals" not in {row["name"] for row in section(rows, "condition")}


def test_the_page_has_it_too(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    je_tools("doctor", NODE, "--html", page)
    text = page.read_text()
    assert "VLSN index" in text
    assert "je-tools vlsn compare" in text
