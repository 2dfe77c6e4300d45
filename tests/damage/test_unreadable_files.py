"""Files that the system does not open: reported, and no reason to stop."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from je_tools.commands.main import COMMANDS
from je_tools.log.opening import open_environment
from tests.corpus import FIXTURES
from tests.damage.closed import DENIED, close, close_directory
from tests.je_tools.dumped import Done, je_tools, rows_of

GOES_ON = (("missing",), ("salvage", "--format", "jsonl"))

MORE: dict[str, tuple[str, ...]] = {
    "get": ("key", "--db", "primary"),
    "export": ("--db", "primary"),
    "diff": (str(FIXTURES / "v17-erase-after" / "env"),),
    "salvage": ("--output", "OUT"),
    "audit": ("--output", "OUT"),
}
"""Further arguments that commands need."""

GROUPS = {"audit", "erase", "group", "ignite", "vlsn"}
ERASING = {"erase plan", "erase run", "erase status", "erase resume"}
READERS = ("dump", "summary", "verify", "files", "recover", "databases", "count", "export", "get")
READERS += ("diff", "space")
"""Commands other than those of `GOES_ON` that read a log without a file of it."""


def arguments_of(verb: str, home: Path, tmp_path: Path) -> list[str]:
    """Return the arguments of a command that reads an environment."""
    if verb == "explain":
        return [verb, "0x1/0x26", "--env", str(home)]
    more = (str(tmp_path / word) if word == "OUT" else word for word in MORE.get(verb, ()))
    return [*verb.split(), str(home), *more]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return shutil.copytree(FIXTURES / "v17-erase-after" / "env", tmp_path / "env")


def report_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "report.jsonl").read_text().splitlines()]


def salvage(home: Path, folder: Path, *more: str | Path) -> Done:
    return je_tools("salvage", *more, home, "--output", folder, "--format", "jsonl")


def test_missing_takes_a_file_that_cannot_be_opened_for_missing(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = home / "00000001.jdb"
    gone = shutil.copytree(home, home.parent / "gone" / "env")
    (gone / closed.name).unlink()
    close(monkeypatch, closed)
    done = je_tools("missing", home, "--format", "jsonl")
    assert done.code == 3
    assert f"error: unreadable-file at 00000001.jdb; found {DENIED}" in done.err
    rows, others = rows_of(done.out), rows_of(je_tools("missing", gone, "--format", "jsonl").out)
    file = next(row for row in rows if row["section"] == "file" and row["file_no"] == 1)
    assert (file["state"], file["reason"]) == ("unreadable", DENIED)
    # One file is reported as unreadable, the other as missing.
    apart = ("file", "findings")
    lost = [[row for row in some if row["section"] not in apart] for some in (rows, others)]
    assert lost[0] == lost[1] != []


def test_salvage_goes_on_without_a_file_that_cannot_be_opened(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = home / "00000001.jdb"
    size = closed.stat().st_size
    gone = shutil.copytree(home, tmp_path / "gone" / "env")
    (gone / closed.name).unlink()
    close(monkeypatch, closed)
    done = salvage(home, tmp_path / "a")
    salvage(gone, tmp_path / "b")
    assert done.code == 3
    assert f"error: unreadable-file at 00000001.jdb; found {DENIED}" in done.err
    assert (
        "1 file is missing or cannot be opened; `je-tools missing` lists what is lost" in done.err
    )
    assert f"unreadable-file: 1 gap, {size:,} bytes" in done.out.decode()
    (gap,) = (row for row in report_of(tmp_path / "a") if row.get("gap") == "unreadable-file")
    assert (gap["first_file"], gap["bytes"], gap["reason"]) == (1, size, DENIED)
    records = [
        {
            path.name: path.read_bytes()
            for path in folder.glob("*.jsonl")
            if path.name != "report.jsonl"
        }
        for folder in (tmp_path / "a", tmp_path / "b")
    ]
    assert records[0] == records[1]


def test_an_end_that_a_file_may_hold_is_not_known(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last bytes read are no torn tail of the log: an unread file follows them."""
    *_, before, last = sorted(home.glob("*.jdb"))
    before.write_bytes(before.read_bytes()[:-3])
    close(monkeypatch, last)
    salvage(home, tmp_path / "out")
    kinds = [row["gap"] for row in report_of(tmp_path / "out") if row["kind"] == "gap"]
    assert kinds[-2:] == ["end-of-file", "unreadable-file"]


def test_named_files_of_which_one_cannot_be_opened(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = sorted(home.glob("*.jdb"))[:2]
    close(monkeypatch, paths[0])
    done = salvage(paths[1], tmp_path / "out", paths[0])
    assert done.code == 3
    assert "unreadable-file" in done.err


@pytest.mark.parametrize("command", GOES_ON, ids=lambda command: command[0])
def test_nothing_goes_on_without_a_single_file(
    command: tuple[str, ...], home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = sorted(home.glob("*.jdb"))
    close(monkeypatch, *paths)
    done = je_tools(*command, home, "--output", tmp_path / "out")
    assert done.code == 4
    assert done.err in {f"je-tools: {path}: {DENIED}\n" for path in paths}


def test_a_marker_counts_whoever_may_read_it(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    marker = home / "7fffffff.jdb"
    marker.write_bytes(b"")
    close(monkeypatch, marker)
    environment = open_environment([home], keep_going=True)
    assert environment.marker is not None
    assert environment.unreadable == ()


@pytest.mark.parametrize("verb", sorted(set(COMMANDS) - GROUPS | ERASING))
def test_a_directory_that_may_not_be_listed(
    verb: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    close_directory(monkeypatch, home)
    done = je_tools(*arguments_of(verb, home, tmp_path))
    assert (done.code, done.err) == (4, f"je-tools: {home}: {DENIED}\n")
    assert not (tmp_path / "OUT").exists()


@pytest.mark.parametrize("verb", READERS)
def test_commands_that_only_read_go_on_without_a_file(
    verb: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    close(monkeypatch, home / "00000001.jdb")
    done = je_tools(*arguments_of(verb, home, tmp_path))
    assert done.code == 3
    assert "unreadable-file" in done.err + done.out.decode()


@pytest.mark.parametrize("words", [("checkpoint",), ("recover", "--apply")], ids="-".join)
def test_nothing_is_written_to_a_log_with_a_closed_file(
    words: tuple[str, ...], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = home / "00000001.jdb"
    close(monkeypatch, closed)
    done = je_tools(words[0], home, *words[1:])
    assert (done.code, done.err) == (4, f"je-tools: {closed}: {DENIED}\n")


TOO_LARGE = "bytes, but offsets in a log have 32 bits: no engine writes a file of more than 4 GiB"


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("verb", sorted({*READERS, "missing", "salvage"}))
def test_a_file_above_4_gib_is_not_read(verb: str, number: int, home: Path, tmp_path: Path) -> None:
    """A sparse file would take hours, so this test ends only if nothing reads it."""
    os.truncate(home / f"0000000{number}.jdb", 1 << 43)
    done = je_tools(*arguments_of(verb, home, tmp_path))
    assert done.code == 3
    told = done.err + done.out.decode()
    if "read without 00000002.jdb" in told:
        return
    assert "unreadable-file" in told
    if verb not in ("summary", "diff"):
        assert "of more than 4 GiB" in " ".join(told.split())


def test_a_database_whose_name_a_closed_file_may_hold(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The names are in the last file: a wrong option cannot be told from a name not read."""
    close(monkeypatch, home / "00000002.jdb")
    done = je_tools("count", home, "--db", "primary")
    assert (done.code, done.out) == (3, b"")
    assert "the log was read without 00000002.jdb, which may hold its name" in done.err


@pytest.mark.parametrize("words", [("checkpoint",), ("recover", "--apply")], ids="-".join)
def test_nothing_is_written_to_a_log_with_a_file_above_4_gib(
    words: tuple[str, ...], home: Path
) -> None:
    large = home / "00000002.jdb"
    os.truncate(large, (1 << 32) + 1)
    done = je_tools(words[0], home, *words[1:])
    assert (done.code, done.err) == (4, f"je-tools: {large}: 4,294,967,297 {TOO_LARGE}\n")
    assert large.stat().st_size == (1 << 32) + 1


def test_a_limited_dump_reports_a_closed_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    close(monkeypatch, home / "00000001.jdb")
    done = je_tools("dump", home, "--limit", "1")
    assert done.code == 3
    assert "unreadable-file at 00000001.jdb" in done.err


def test_an_entry_in_a_closed_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = home / "00000001.jdb"
    close(monkeypatch, closed)
    done = je_tools("explain", "0x1/0x26", "--env", home)
    assert (done.code, done.err) == (4, f"je-tools: {closed}: {DENIED}\n")
    assert je_tools("explain", "0x0/0x26", "--env", home).code == 0


@pytest.mark.parametrize("side", [0, 1])
def test_a_copy_that_cannot_be_read_is_not_whole(
    side: int, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the file, the copy would have been called whole: the cleaner may have removed it."""
    copy = shutil.copytree(home, tmp_path / "copy")
    close(monkeypatch, (home, copy)[side] / "00000001.jdb")
    done = je_tools("diff", home, copy, "--show", "files", "--format", "jsonl")
    assert done.code == 3
    *rows, found = rows_of(done.out)
    assert (found["section"], found["code"]) == ("findings", "unreadable-file")
    states = {row["file_no"]: row["state"] for row in rows}
    assert states == {0: "same", 1: "unreadable", 2: "same"}
