"""`db-dump` and `db-recover` with the options that the engine's tools have."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from je_tools.commands.main import dump_tool, recover_tool
from tests.corpus import FIXTURES
from tests.je_tools.dumped import Done, je_tools, rows_of

HOME = FIXTURES / "v17-basic" / "env"


def db_dump(*words: str | Path) -> Done:
    arguments = [str(word) for word in words]
    return je_tools(*arguments, command=dump_tool(arguments))


def db_recover(*words: str | Path) -> Done:
    arguments = [str(word) for word in words]
    return je_tools(*arguments, command=recover_tool(arguments))


def test_records_are_printed_as_by_dbdump() -> None:
    assert db_dump("-h", HOME, "-s", "people") == je_tools("export", HOME, "--db", "people")
    printed = je_tools("export", HOME, "--db", "people", "--print")
    assert db_dump("-h", HOME, "-s", "people", "-p", "-v") == printed


def test_databases_are_listed() -> None:
    """DbDump -l prints names, each on a line of its own."""
    done = db_dump("-h", HOME, "-l")
    rows = rows_of(je_tools("databases", HOME, "--format", "jsonl").out)
    assert (done.code, done.err) == (0, "")
    assert done.out.decode().splitlines() == [row["db"] for row in rows]


def test_a_list_of_names_reports_damage(tmp_path: Path) -> None:
    home = shutil.copytree(HOME, tmp_path / "env")
    (home / "00000009.jdb").mkdir()
    done = db_dump("-h", home, "-l")
    assert done.code == 3
    assert "unreadable-file" in done.err


def test_into_a_file(tmp_path: Path) -> None:
    done = db_dump("-h", HOME, "-s", "people", "-f", tmp_path / "people.dump")
    assert (done.code, done.out) == (0, b"")
    written = (tmp_path / "people.dump").read_bytes()
    assert written == je_tools("export", HOME, "--db", "people").out


def test_salvage(tmp_path: Path) -> None:
    assert db_dump("-h", HOME, "-r").code == 2
    assert db_dump("-h", HOME, "-R", "-d", tmp_path / "records").code == 0
    assert any(path.name.startswith("people") for path in (tmp_path / "records").iterdir())
    assert db_dump("-h", HOME, "-r", "-p", "-d", tmp_path / "printed").code == 0
    assert b"format=print" in (tmp_path / "printed" / "people.dump").read_bytes()


@pytest.mark.parametrize("words", [("-l", "-f", "out"), ("-r", "-f", "out"), ("-l", "-d", "out")])
def test_an_output_that_would_not_be_written(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert db_dump("-h", HOME, *words).code == 2
    assert list(tmp_path.iterdir()) == []


def test_recovery_is_shown() -> None:
    assert db_recover("-h", HOME) == je_tools("recover", HOME)
    assert db_recover("-h", HOME, "-c", "-v").code == 0
    assert db_recover("-h", HOME, "-e", "-f") == db_recover("-h", HOME)


def test_a_local_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Etc/GMT-2")
    time.tzset()
    try:
        done = db_recover("-h", HOME, "-t", "203001010000.30")
    finally:
        monkeypatch.undo()
        time.tzset()
    assert done == je_tools("recover", HOME, "--to-time", "2029-12-31T22:00:30")
    assert db_recover("-h", HOME, "-t", "yesterday").code == 2


@pytest.mark.parametrize("words", [("-h", HOME), ("-h", HOME, "-s", "a", "-l")])
def test_one_thing_at_a_time(words: tuple[str | Path, ...]) -> None:
    assert db_dump(*words).code == 2


def test_the_version_needs_no_home() -> None:
    assert b"je-tools" in db_dump("-V").out or b"db-dump" in db_dump("-V").out
    assert db_recover("-V").code == 0


def test_without_a_home_it_is_our_command() -> None:
    assert b"Usage: db-dump" in db_dump("-h").out
    assert db_dump(HOME, "--limit", "1") == je_tools("dump", HOME, "--limit", "1")
    assert db_recover(HOME) == je_tools("recover", HOME)
