"""Groups of a fleet: from the staged reports to the tables, the findings and the severities."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from je_tools.audit import group_tables, staged_members, table_writer
from je_tools.audit.discover import find_fleet
from je_tools.audit.group_tables import add_groups, compare_groups
from je_tools.audit.known_files import KnownFiles
from je_tools.audit.member_reading import MemberReport
from je_tools.audit.staged_members import MEMBERS_NAME, member_row, reports_by_group
from je_tools.audit.staged_rows import StagedRows
from je_tools.audit.stake_finder import StakeFinder
from je_tools.audit.table_writer import StagedTables
from tests.corpus import FIXTURES
from tests.damage.running import je_tools
from tests.je_tools.audit.auditing import Row, Tables, audit_here, read_tables, written_for
from tests.je_tools.audit.test_groups import member, stream

GROUP = FIXTURES / "v17-rep-uncommitted-before"


def audited(roots: list[Path], folder: Path) -> Tables:
    """Audit environments and compare their groups."""
    for each in ("staging", "known"):
        (folder / each).mkdir(parents=True)
    known = KnownFiles(folder / "known")
    written = written_for(find_fleet(roots), folder / "staging", known, StakeFinder())
    return read_tables(add_groups(written, folder / "staging"))


def by_env(rows: list[Row]) -> dict[str, Row]:
    return {Path(row["env"]).name: row for row in rows}


def test_a_group_beside_others(tmp_path: Path) -> None:
    """A node that lags has a note, a copy is named, and an environment without a group stays."""
    fleet = tmp_path / "fleet"
    for name in ("node1", "node2", "node3"):
        shutil.copytree(GROUP / name, fleet / name)
    shutil.copytree(GROUP / "node3", fleet / "backup")
    shutil.copytree(FIXTURES / "v17-basic/env", fleet / "plain")
    tables = audited([fleet], tmp_path / "out")
    (group,) = tables["groups"]
    said = je_tools("vlsn", "compare", *(fleet / f"node{n}" for n in (1, 2, 3)), "--format", "json")
    assert said.code == 0
    assert Path(group["leader"]).name == "node1"
    assert group["leads_by"] == "last VLSN"
    counts = {name: group[name] for name in group if name.endswith("_count")}
    assert counts == {
        "member_count": 3,
        "node_count": 3,
        "copy_count": 1,
        "missing_count": 0,
        "uncommitted_count": 25,
        "lagging_count": 2,
        "diverged_count": 0,
        "rollback_txn_count": 0,
        "rollback_commit_count": 0,
        "lost_end_count": 0,
    }
    assert (group["last_vlsn"], group["group_lag_vlsn"], group["durable_vlsn"]) == (1249, 26, 1223)
    nodes = by_env(tables["nodes"])
    assert {name: row["outcome"] for name, row in nodes.items()} == {
        "backup": "follows",
        "node1": "leads",
        "node2": "follows",
        "node3": None,
    }
    assert Path(nodes["node3"]["copy_of"]).name == "backup"
    assert nodes["node2"]["group_lag_vlsn"] == 26
    assert {row["group_id"] for row in nodes.values()} == {group["group_id"]}
    facts = by_env(tables["environments"])
    assert {name: row["severity"] for name, row in facts.items()} == {
        "backup": "note",
        "node1": "ok",
        "node2": "note",
        "node3": "note",
        "plain": "ok",
    }
    assert facts["node1"]["group_id"] == group["group_id"]
    assert facts["plain"]["group_id"] is None
    assert facts["plain"]["outcome"] == "opens"


def test_numbers_of_the_tables(tmp_path: Path) -> None:
    """The values of an environment are those of the tables of its parts."""
    tables = audited([GROUP / "node1"], tmp_path / "out")
    (facts,) = tables["environments"]
    assert facts["outcome"] == "opens"
    assert facts["last_commit_vlsn"] == 1224
    assert facts["index_vlsn"] == 1249
    used = [row["counted_size"] - row["obsolete_size"] for row in tables["space"]]
    assert facts["used_size"] == sum(used)
    assert {row["file_no"] for row in tables["space"]} == {
        row["file_no"] for row in tables["files"]
    }
    (node,) = tables["nodes"]
    assert (node["outcome"], node["group_lag_vlsn"]) == (None, None)
    (group,) = tables["groups"]
    assert (group["leader"], group["missing_count"], group["member_count"]) == (None, 2, 3)
    assert tables["findings"] == []


def test_a_damaged_end_costs_commits(tmp_path: Path) -> None:
    home = Path(shutil.copytree(FIXTURES / "v17-crash-txn/env", tmp_path / "env"))
    with (home / "00000000.jdb").open("r+b") as file:
        file.seek(270_000)
        file.write(b"X")
    (facts,) = audited([home], tmp_path / "out")["environments"]
    assert (facts["outcome"], facts["severity"]) == ("loses", "error")
    assert (facts["lost_commit_count"], facts["lost_key_count"]) == (15, 100)
    assert "15 Commits" in facts["verdict"]


def test_without_stakes_nothing_is_known(tmp_path: Path) -> None:
    (facts,) = audit_here([GROUP / "node1"], tmp_path / "out")["environments"]
    assert (facts["outcome"], facts["lost_commit_count"]) == (None, None)


def test_what_is_wrong_without_a_finding_is_an_error(tmp_path: Path) -> None:
    """The engine refuses a setting, which no other finding reports."""
    home = Path(shutil.copytree(FIXTURES / "v17-basic/env", tmp_path / "env"))
    (home / "je.properties").write_text("je.maxDisk=x\n")
    tables = audited([home], tmp_path / "out")
    (facts,) = tables["environments"]
    assert (facts["outcome"], facts["severity"]) == ("refuses", "error")
    (found,) = tables["findings"]
    assert (found["code"], found["found"]) == ("recovery-refused", facts["verdict"])


def test_a_part_that_is_not_known_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise KeyError

    monkeypatch.setattr("je_tools.audit.member_reading.read_member", fail)
    tables = audited([GROUP / "node1"], tmp_path / "out")
    (found,) = tables["findings"]
    assert (found["code"], found["severity"]) == ("unread", "error")
    assert "a bug of je-tools: KeyError" in found["found"]


def staged(reports: list[MemberReport], folder: Path) -> list[Path]:
    tables = StagedTables(folder)
    for report in reports:
        rows = StagedRows()
        rows.extend(MEMBERS_NAME, [member_row(report)])
        tables.write(rows.tables())
    return [Path(path) for _, path in tables.close()]


def test_reports_are_held_for_some_groups_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each pass yields whole groups, and each group is in one of them."""
    reports = [
        MemberReport(f"id{number % 40}", "group", b"%03d" % number + bytes(900), None)
        for number in range(120)
    ]
    reports.append(MemberReport(None, None, b"alone", None))
    monkeypatch.setattr(table_writer, "HELD_SIZE", 4_000)
    paths = staged(reports, tmp_path)
    assert pq.ParquetFile(paths[0]).num_row_groups > 20
    monkeypatch.setattr(staged_members, "PASS_SIZE", paths[0].stat().st_size // 5)
    found = list(reports_by_group(paths))
    assert sorted(map(len, found)) == [1, *[3] * 40]
    assert Counter(each for group in found for each in group) == Counter(r.data for r in reports)
    for group in found:
        assert len({int(each[:3]) % 40 for each in group if each != b"alone"}) <= 1


def test_a_group_that_cannot_be_compared_costs_a_finding_of_each_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Any) -> None:
        raise KeyError

    reports = [
        MemberReport("uuid", "group", member(name, stream(5), lsn=lsn), None)
        for lsn, name in enumerate("ab")
    ]
    monkeypatch.setattr(group_tables, "compare_group", fail)
    tables = StagedTables(tmp_path)
    counts = compare_groups(staged(reports, tmp_path), tables)
    assert counts == {name: Counter(error_count=1) for name in "ab"}
    rows = read_tables(tables.close())["findings"]
    assert [(row["env"], row["code"]) for row in rows] == [("a", "unread"), ("b", "unread")]


def test_a_node_whose_group_is_not_known_is_a_node_all_the_same(tmp_path: Path) -> None:
    data = member("a", stream(5), group_id=None, group_name=None, members=())
    tables = StagedTables(tmp_path)
    assert compare_groups(staged([MemberReport(None, None, data, None)], tmp_path), tables) == {}
    written = read_tables(tables.close())
    assert written["groups"] == []
    (row,) = written["nodes"]
    assert (row["env"], row["group_id"], row["last_vlsn"]) == ("a", None, 5)
