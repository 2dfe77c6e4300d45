"""Findings in the outputs for programs: no verdict is only text on standard error."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.corpus import FIXTURES
from tests.je_tools.dumped import je_tools, rows_of

VERBS: dict[str, tuple[str, ...]] = {
    "count": (),
    "databases": (),
    "space": (),
    "missing": (),
    "files": (),
    "summary": (),
    "diff": (str(FIXTURES / "v17-erase-after" / "env"),),
    "recover": (),
}
COLUMNS = ["code", "severity", "env", "file_no", "offset", "length", "lsn", "resume_lsn"]
COLUMNS += ["expected", "found", "hint"]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a log with a directory in the place of its next file."""
    home = shutil.copytree(FIXTURES / "v17-erase-after" / "env", tmp_path / "env")
    (home / "00000003.jdb").mkdir()
    return home


def findings_in(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of findings, which come last, without their section."""
    found = [row for row in rows if row.get("section") == "findings"]
    assert rows[len(rows) - len(found) :] == found
    return [{name: row[name] for name in row if name != "section"} for row in found]


@pytest.mark.parametrize("verb", VERBS)
def test_json_lines_end_with_the_findings(verb: str, home: Path, tmp_path: Path) -> None:
    words = (verb, home, *VERBS[verb], "--format", "jsonl")
    done = je_tools(*words)
    found = findings_in(rows_of(done.out))
    assert done.code == 3
    assert [row["code"] for row in found if row["severity"] == "error"] == ["unreadable-file"]
    assert all(list(row)[: len(COLUMNS)] == COLUMNS for row in found)
    apart = je_tools(*words, "--findings", tmp_path / "found")
    assert (apart.code, apart.err) == (3, done.err)
    others = [row for row in rows_of(done.out) if row.get("section") not in ("findings", "space")]
    # Free disk space changes between two runs.
    assert [row for row in rows_of(apart.out) if row.get("section") != "space"] == others
    assert rows_of((tmp_path / "found").read_bytes()) == found


@pytest.mark.parametrize("verb", VERBS)
def test_without_findings_the_side_file_is_empty(verb: str, tmp_path: Path) -> None:
    home = FIXTURES / "v17-erase-after" / "env"
    done = je_tools(verb, home, *VERBS[verb], "--findings", tmp_path / "found")
    assert done.code == 0
    assert not [row for row in rows_of((tmp_path / "found").read_bytes()) if row["code"] == "error"]


RECORDS: dict[str, tuple[str, ...]] = {
    "export": ("--db", "people"),
    "get": ("user00000001", "--db", "people"),
    "get-history": ("user00000001", "--db", "people", "--history"),
    "diff": (str(FIXTURES / "v17-basic" / "env"), "--show", "records"),
}


@pytest.mark.parametrize("name", RECORDS)
def test_records_are_not_mixed_with_findings(name: str, home: Path, tmp_path: Path) -> None:
    """A reader of records would take a row of another kind for one."""
    verb, more = name.split("-")[0], (*RECORDS[name], "--format", "jsonl")
    whole = je_tools(verb, FIXTURES / "v17-erase-after" / "env", *more)
    done = je_tools(verb, home, *more, "--findings", tmp_path / "found")
    assert (done.code, done.out) == (3, whole.out)
    (found,) = rows_of((tmp_path / "found").read_bytes())
    assert (found["code"], found["file_no"]) == ("unreadable-file", 3)


@pytest.mark.parametrize(
    "more", [(), ("--db", "people"), ("--backward",), ("--since", "2020-01-01")]
)
def test_a_dump_has_findings_on_what_it_read(
    more: tuple[str, ...], home: Path, tmp_path: Path
) -> None:
    """Names and times of entries need a pass of their own; a dump backward has no judge."""
    path = home / "00000001.jdb"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    verified = rows_of(je_tools("verify", home, "--format", "jsonl").out)
    errors = [row for row in verified if row["severity"] == "error"]
    assert {row["code"] for row in errors} == {"damaged-entry", "unreadable-file"}
    done = je_tools("dump", home, "--format", "jsonl", *more, "--findings", tmp_path / "found")
    assert done.code == 3
    assert all("section" not in row for row in rows_of(done.out))
    found = rows_of((tmp_path / "found").read_bytes())
    if more == ("--backward",):
        assert {row["code"] for row in found} == {"damaged-entry", "unreadable-file"}
    else:
        assert found == verified


def test_a_followed_dump_has_no_side_file(home: Path, tmp_path: Path) -> None:
    done = je_tools("dump", home, "--follow", "--findings", tmp_path / "found")
    assert done.code == 2
    assert "omit --findings" in done.err


@pytest.mark.parametrize("form", ["table", "csv"])
def test_every_format_has_the_side_file(form: str, home: Path, tmp_path: Path) -> None:
    done = je_tools("count", home, "--format", form, "--findings", tmp_path / "found")
    assert done.code == 3
    assert b"unreadable-file" not in done.out
    assert b"unreadable-file" in (tmp_path / "found").read_bytes()


def test_a_plan_is_one_object(home: Path) -> None:
    done = je_tools("recover", home, "--format", "json")
    plan = json.loads(done.out)
    lines = rows_of(je_tools("recover", home, "--format", "jsonl").out)
    assert plan["findings"] == findings_in(lines)
    assert {name: plan[name] for name in list(lines[0])[1:]} == dict(list(lines[0].items())[1:])
    named = [(row.pop("section"), row) for row in lines[1:]]
    for name in {name for name, _ in named}:
        assert plan[name] == [row for section, row in named if section == name]
    assert plan["loss"] is None


@pytest.mark.parametrize("verb", ["recover", "checkpoint"])
@pytest.mark.parametrize("form", ["json", "jsonl"])
@pytest.mark.parametrize("applied", [False, True], ids=["plan", "applied"])
def test_findings_of_a_write(applied: bool, form: str, verb: str, tmp_path: Path) -> None:
    """A loss that is accepted is reported by the command that accepts it."""
    home = tmp_path / "env"
    home.mkdir()
    shutil.copy(FIXTURES / "v8-cleaned" / "env" / "00000003.jdb", home)
    more = ["--apply"] if applied else []
    more += ["--accept-loss"] if applied or verb == "checkpoint" else []
    done = je_tools(verb, home, *more, "--format", form)
    assert done.code == 3
    assert "missing-file" in done.err
    if form == "jsonl":
        rows = rows_of(done.out)
        found, names = findings_in(rows), [row["section"] for row in rows]
        assert names.count("checkpoint") == (applied or verb == "checkpoint")
    else:
        document = json.loads(done.out)
        found = document["findings"]
        assert ("passes" in document) is (verb == "recover")
        if applied:
            work = document["checkpoint"] if verb == "recover" else document
            assert work["applied"] is True
    assert [(each["code"], each["file_no"]) for each in found] == [("missing-file", 2)]
    assert je_tools(verb, home, *more, "--exit-zero", "--format", form).code == 0


@pytest.mark.parametrize("words", ["lock", "undo"])
def test_facts_of_an_environment_are_one_object(words: str) -> None:
    home = FIXTURES / "v17-basic" / "env"
    found = json.loads(je_tools(words, home, "--format", "json").out)
    lists = {"lock": {"holders"}, "undo": {"journals", "steps"}}[words]
    assert found["env"] == str(home)
    assert {name for name, value in found.items() if value == []} == lists


def test_findings_as_columns(home: Path, tmp_path: Path) -> None:
    lines = rows_of(je_tools("verify", home, "--format", "jsonl").out)
    text = je_tools("verify", home, "--format", "csv").out.decode()
    (row,) = csv.DictReader(io.StringIO(text))
    assert (row["code"], row["file_no"], row["lsn"]) == ("unreadable-file", "3", "")
    je_tools("verify", home, "--format", "parquet", "--output", tmp_path / "found")
    (found,) = pq.read_table(tmp_path / "found").to_pylist()
    assert {name: found[name] for name in lines[0]} == lines[0]


@pytest.mark.parametrize(
    "verb", ["count", "databases", "space", "missing", "files", "summary", "diff"]
)
def test_the_formats_of_rows_agree(verb: str, tmp_path: Path) -> None:
    """CSV and Parquet have the columns and values of JSON lines."""
    home = FIXTURES / "v17-erase-after" / "env"
    more = ("--without", "1") if verb == "missing" else VERBS[verb]
    if verb == "summary":
        more = ("--by-file",)
    words = (verb, home, *more, "--format")
    table = pq.read_table(_written(words, tmp_path / "rows")).to_pylist()
    text = je_tools(*words, "csv").out.decode()
    lines = rows_of(je_tools(*words, "jsonl").out)
    chosen = {row["section"] for row in table} if "section" in table[0] else set()
    lines = [row for row in lines if not chosen or row["section"] in chosen]
    assert len(table) == len(lines) == len(list(csv.DictReader(io.StringIO(text)))) > 0
    assert text.splitlines()[0].split(",") == list(table[0])
    for row, line in zip(table, lines, strict=True):
        for name, value in line.items():
            if not name.endswith("lsn"):
                assert row[name] == value
            else:
                assert _lsn(row[name]) == value
        assert all(row[name] is None for name in row.keys() - line.keys())


def _lsn(number: int | None) -> str | None:
    return None if number is None else f"0x{number >> 32:x}/0x{number & 0xFFFFFFFF:x}"


def _written(words: tuple[str | Path, ...], path: Path) -> Path:
    assert je_tools(*words, "parquet", "--output", path).code in (0, 3)
    return path


def test_parquet_needs_a_file() -> None:
    done = je_tools("count", FIXTURES / "v17-basic" / "env", "--format", "parquet")
    assert (done.code, done.err) == (2, "je-tools: --format parquet needs --output\n")


def test_findings_and_rows_in_one_file(home: Path, tmp_path: Path) -> None:
    done = je_tools("files", home, "--output", tmp_path / "a", "--findings", tmp_path / "a")
    assert done.code == 2
    assert "--output and --findings name the same file" in done.err
    assert je_tools("count", home, "--findings", home / "found").code == 6
    assert not (home / "found").exists()
