"""Messages beside results: hints, counts of omitted findings, and texts that wrap."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.corpus import FIXTURES
from tests.je_tools.dumped import je_tools

TTL, CRASH = FIXTURES / "v15-ttl" / "env", FIXTURES / "v17-crash-txn" / "env"
LATE = ("--now", "2070-01-01")


@pytest.fixture(scope="module")
def hurt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a log without the file that has the data of 730 records."""
    home = tmp_path_factory.mktemp("hurt") / "env"
    home.mkdir()
    shutil.copyfile(FIXTURES / "v8-cleaned" / "env" / "00000003.jdb", home / "00000003.jdb")
    return home


def test_a_record_that_has_expired_is_told_of() -> None:
    words = ("get", TTL, "--db", "expiring", "user00000000", *LATE)
    done = je_tools(*words)
    assert (done.code, done.out) == (4, b"")
    told = "no record of this key in expiring; --show-expired shows an expired one"
    assert done.err == f"je-tools: {told}\n"
    assert je_tools(*words, "--show-expired").code == 0
    nobody = je_tools("get", TTL, "--db", "expiring", "nobody", *LATE)
    assert nobody.err == "je-tools: no record of this key in expiring\n"


@pytest.mark.parametrize(
    ("name", "db", "key", "hint"),
    [
        ("v26-rep-committed/node1", "_jeVlsnMapDb", "1", "long:1"),
        ("v26-rep-committed/node1", "_jeRepGroupDB", "node1", "str:node1"),
        ("v17-crash-txn/env", "people", "757365723030303030303031", "hex:757365723030303030303031"),
    ],
)
def test_another_spelling_of_a_key_is_named(name: str, db: str, key: str, hint: str) -> None:
    done = je_tools("get", FIXTURES / name, "--db", db, key)
    assert (done.code, done.out) == (4, b"")
    assert done.err == f"je-tools: no record of this key in {db}; the database has {hint}\n"
    done = je_tools("get", FIXTURES / name, "--db", db, key, "--history")
    assert (done.code, done.err) == (
        4,
        f"je-tools: no version of this key in {db}; the database has {hint}\n",
    )


def test_what_is_hidden_and_what_is_lost_are_told_apart(hurt: Path) -> None:
    words = ("get", hurt, "--db", "people", "hex:7573*")
    shown = je_tools(*words).out.decode().splitlines()
    assert any(line.split()[1:2] == ["(lost)"] for line in shown[1:])
    hidden = je_tools(*words, "--data", "hide").out.decode().splitlines()
    assert {tuple(line.split()[:2]) for line in hidden[1:]} == {
        ("(hidden)", "(lost)"),
        ("(hidden)", "(hidden)"),
    }


def test_what_to_do_is_said_once(hurt: Path) -> None:
    done = je_tools("export", hurt, "--db", "people")
    lines = done.err.splitlines()
    damage = [line for line in lines if "error: tree-damage at" in line]
    assert len(damage) == 10
    assert sum("ook for a copy of the file in a backup" in line for line in lines) == 1
    assert "je-tools: 90 more of tree-damage; `je-tools verify --tree` reports them" in lines
    assert sum("found 630 more places" in line for line in lines) == 1
    assert len(lines) == 12
    both = je_tools("diff", FIXTURES / "v8-cleaned" / "env", hurt).err.splitlines()
    assert sum("ook for a copy of the file in a backup" in line for line in both) == 1
    assert all(line.startswith(f"je-tools: {hurt}: ") for line in both[:-1])


@pytest.mark.parametrize("verb", ["count", "export"])
def test_a_number_is_an_id_where_it_is_no_name(verb: str) -> None:
    by_name = je_tools(verb, CRASH, "--db", "people")
    assert by_name.code == 0
    assert je_tools(verb, CRASH, "--db", "6") == je_tools(verb, CRASH, "--db", "id:6") == by_name
    done = je_tools(verb, CRASH, "--db", "77")
    assert done.err == "je-tools: --db 77: there is no such database. The log has: people (id:6)\n"


@pytest.mark.parametrize("words", [("count",), ("export", "--db", "people"), ("files",)])
def test_a_dash_is_standard_output(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    verb, *more = words
    assert je_tools(verb, CRASH, *more, "--output", "-") == je_tools(verb, CRASH, *more)
    assert list(tmp_path.iterdir()) == []


def _table(monkeypatch: pytest.MonkeyPatch, width: int, *words: str | Path) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(width))
    lines = je_tools(*words).out.decode().splitlines()
    assert max(map(len, lines)) <= width
    return lines


def test_what_the_engine_does_is_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = _table(monkeypatch, 40, "recover", CRASH)
    first = next(i for i, line in enumerate(lines) if line.startswith("the engine"))
    assert " ".join(" ".join(lines[first : first + 2]).split()) == (
        "the engine opens it, and writes a checkpoint"
    )


def test_reasons_and_paths_are_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    home = FIXTURES / "v17-erase-after" / "env"
    lines = _table(monkeypatch, 80, "space", home, "--recount")
    first = next(i for i, line in enumerate(lines) if line.startswith("00000002"))
    at = lines[first].index("last-file")
    told = " ".join(line[at:] for line in lines[first : first + 4])
    assert " ".join(told.split()) == "last-file, recovery-interval, live-entries, delta-bases"


def test_bytes_of_records_are_called_so(monkeypatch: pytest.MonkeyPatch) -> None:
    head = _table(monkeypatch, 80, "databases", FIXTURES / "v8-dbops" / "env")[0]
    assert "records  node bytes  record bytes" in head
    assert os.environ["COLUMNS"] == "80"
