"""Diagnosis, nodes of groups and journals: equal to what the commands write."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import pytest

import je_tools
from je_tools.doctor.facts import OpenOutcome
from je_tools.errors import InputError, UsageError
from je_tools.output.views.doctor_report import doctor_report
from je_tools.output.views.journal_tables import journal_report
from je_tools.output.views.section_formats import Report
from je_tools.output.views.vlsn_tables import node_report
from tests.corpus import FIXTURES
from tests.je_tools.api.reading import damaged, home_of
from tests.je_tools.dumped import Row, rows_of
from tests.je_tools.dumped import je_tools as run

HOLE = FIXTURES / "starrocks-fe-hole" / "node1"
NODE = FIXTURES / "v26-rep-committed" / "node2"


def rows(*words: str | Path) -> list[Row]:
    return rows_of(run(*words, "--format", "jsonl").out)


def without_disk(found: list[Row]) -> list[Row]:
    """Leave out what depends on the moment: the free space of the disk."""
    kept = [row for row in found if row.get("name") != "disk"]
    return [row for row in kept if row.get("section") != "space"]


@pytest.mark.parametrize("tree", [False, True])
@pytest.mark.parametrize("name", ["v17-crash-txn", "starrocks-fe-hole/node1"])
def test_the_diagnosis_is_that_of_the_command(name: str, tree: bool) -> None:
    home = FIXTURES / name if "/" in name else home_of(name)
    opened = je_tools.open(home)
    diagnosis = opened.doctor(tree=tree)
    report = doctor_report(diagnosis)
    made = [*map(dict, report_rows(report))]
    assert without_disk(made) == without_disk(rows("doctor", home, *["--tree"] * tree))
    assert set(opened.findings) == set(diagnosis.findings)


def report_rows(report: Report) -> list[Row]:
    out = io.BytesIO()
    report.write("jsonl", out)
    return rows_of(out.getvalue())


def test_damage_is_reported(tmp_path: Path) -> None:
    opened = je_tools.open(damaged(tmp_path))
    diagnosis = opened.doctor()
    assert diagnosis.outcome is not OpenOutcome.OPENS
    assert diagnosis.is_damaged
    assert diagnosis.findings == opened.findings


def test_keys_are_masked(tmp_path: Path) -> None:
    """Findings of trees name keys."""
    home = shutil.copytree(FIXTURES / "v17-erase-after" / "env", tmp_path / "env")
    (home / "00000002.jdb").unlink()
    texts = [
        str(report_rows(doctor_report(je_tools.open(home, data=mode).doctor(tree=True))))
        for mode in ("show", "hide")
    ]
    assert [b"user0000".hex() in text for text in texts] == [True, False]


def test_the_state_of_a_node_is_that_of_the_command() -> None:
    state = je_tools.open(NODE).vlsn(sync_points=1000)
    assert report_rows(node_report(state)) == rows("vlsn", "show", NODE)
    last = state.tail.last_vlsn
    assert last is not None
    assert je_tools.open(NODE).vlsn(to_vlsn=last - 10).tail.last_vlsn == last - 10


def test_the_group_is_that_of_the_command() -> None:
    records = je_tools.open(NODE).group()
    names = [row["name"] for row in rows("group", "show", NODE) if row["section"] == "nodes"]
    assert [each.name for each in records.nodes] == names
    assert records.group is not None
    assert records.group.name == "group"


def test_the_journals_are_those_of_the_command() -> None:
    opened = je_tools.open(HOLE)
    report = opened.journals()
    made = report_rows(journal_report(report, None))
    found = [row for row in rows("journal", HOLE) if row["section"] != "findings"]
    assert made == found
    assert [each.code for each in opened.findings] == ["journal-hole"]


def test_logs_of_another_kind_are_refused() -> None:
    opened = je_tools.open(home_of("v17-basic"))
    for call in (opened.vlsn, opened.group, opened.journals):
        with pytest.raises(InputError):
            call()
    with pytest.raises(UsageError, match="sync_points: 0 is less than 1"):
        opened.vlsn(sync_points=0)
    files = je_tools.open(home_of("v17-basic") / "00000000.jdb")
    for call in (files.doctor, files.vlsn, files.group, files.journals):
        with pytest.raises(UsageError, match="single files"):
            call()
