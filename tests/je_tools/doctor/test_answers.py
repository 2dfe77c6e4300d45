"""Answers of `doctor` that no other command gives: what lies around a log, and what to do next."""

from __future__ import annotations

import io
import json
import os
import shlex
import shutil
import stat
from pathlib import Path
from typing import Any

import pytest

from je_tools.commands.main import COMMANDS
from je_tools.doctor.examination import diagnosed
from je_tools.doctor.log_scan import scan_log
from je_tools.doctor.recovered import DiagnosisOptions, Examiners
from je_tools.doctor.replication import examine_replication
from je_tools.log.opening import open_environment
from je_tools.log.scan import Scanner
from je_tools.output.views.doctor_tables import write_page
from tests.corpus import FIXTURES
from tests.damage.closed import DENIED, close
from tests.damage.running import states
from tests.je_tools.dumped import Done, Row, je_tools, rows_of
from tests.je_tools.writing.operations import small_log

BASIC = FIXTURES / "v17-basic" / "env"
CRASHED = FIXTURES / "v17-crash-txn" / "env"
FILES = FIXTURES / "v17-erase-after" / "env"
SECRET = "user0000"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return shutil.copytree(FILES, tmp_path / "env")


def doctor(home: Path, *options: str | Path) -> tuple[Done, list[Row]]:
    done = je_tools("doctor", home, "--format", "jsonl", *options)
    return done, rows_of(done.out)


def section(rows: list[Row], name: str) -> list[Row]:
    return [row for row in rows if row["section"] == name]


def condition(rows: list[Row], name: str) -> tuple[str, str]:
    (row,) = (row for row in section(rows, "condition") if row["name"] == name)
    return row["state"], row["text"]


def commands(rows: list[Row]) -> list[str]:
    return [row["command"] for row in section(rows, "step")]


def hurt(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)


def test_it_is_the_first_command() -> None:
    assert next(iter(COMMANDS)) == "doctor"


def test_nothing_is_changed(home: Path, tmp_path: Path) -> None:
    hurt(home / "00000002.jdb", 40_000)
    before = states(home)
    for options in ((), ("--tree",), ("--html", tmp_path / "page.html")):
        assert doctor(home, *options)[0].code == 3
    assert states(home) == before


def test_no_such_directory(tmp_path: Path) -> None:
    done = je_tools("doctor", tmp_path / "nothing")
    assert (done.code, done.out) == (4, b"")
    assert done.err == f"je-tools: {tmp_path / 'nothing'}: no such file or directory\n"


def test_a_file_is_no_environment(home: Path) -> None:
    done = je_tools("doctor", home / "00000001.jdb")
    assert done.code == 2
    assert "name the directory that holds it" in done.err


def test_a_directory_above_the_log(home: Path) -> None:
    done, rows = doctor(home.parent)
    assert (done.code, rows[0]["outcome"]) == (4, "no-log")
    assert rows[0]["verdict"].startswith("There is no log here")
    assert commands(rows) == [f"je-tools doctor {home}", f"ls -la {home.parent}"]


def test_a_directory_in_which_all_files_were_put_aside(home: Path) -> None:
    for path in sorted(home.glob("*.jdb")):
        path.rename(path.with_suffix(".bad"))
    done, rows = doctor(home)
    assert done.code == 4
    assert "only files that were put aside" in rows[0]["verdict"]
    listed = "put aside: 00000000.bad, 00000001.bad, 00000002.bad"
    assert condition(rows, "markers") == ("note", listed)


def test_a_directory_that_may_not_be_listed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.scandir

    def scandir(path: Any) -> Any:
        if Path(path) == home:
            raise PermissionError(13, DENIED, str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    done, rows = doctor(home)
    assert done.code == 4
    assert rows[0]["verdict"] == (
        f"Nothing is known about the log: the system does not allow reading it ({DENIED})"
    )
    assert commands(rows)[0] == f"ls -ld {home}"
    assert commands(rows)[1].endswith(f" je-tools doctor {home}")


def test_a_file_that_cannot_be_opened(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    close(monkeypatch, home / "00000001.jdb")
    done, rows = doctor(home)
    assert (done.code, rows[0]["outcome"]) == (3, "refuses")
    assert f"00000001.jdb cannot be read ({DENIED})" in rows[0]["verdict"]
    assert any(command.startswith("sudo -u ") for command in commands(rows))


def test_an_interrupted_operation_comes_first(tmp_path: Path) -> None:
    home = small_log(tmp_path / "env")
    folder = home / ".je-tools-undo"
    folder.write_text("no folder")
    done, rows = doctor(home)
    assert (done.code, rows[0]["outcome"]) == (3, "unsafe")
    assert rows[0]["verdict"].startswith("Do not open it: ")
    steps = commands(rows)
    assert steps[0].startswith("cp -a ")
    assert steps[1:] == [f"je-tools undo {home}", f"je-tools undo {home} --apply"]


def test_a_file_put_aside_is_named_if_its_number_is_missing(home: Path) -> None:
    (home / "00000001.jdb").rename(home / "00000001.bad")
    (home / "00000009.del").touch()
    _, rows = doctor(home)
    assert f"ls -l {home}/00000001.bad" in commands(rows)
    assert not any("00000009" in command for command in commands(rows))


def test_the_commands_begin_with_a_copy_and_end_with_the_change(tmp_path: Path) -> None:
    home = shutil.copytree(CRASHED, tmp_path / "it's here")
    (tmp_path / "it's here.copy").mkdir()
    hurt(home / "00000000.jdb", 270_000)
    done, rows = doctor(home)
    word = shlex.quote(str(home))
    assert (done.code, rows[0]["outcome"]) == (3, "loses")
    assert commands(rows) == [
        f"cp -a {word} {shlex.quote(f'{home}.copy-2')}",
        f"je-tools explain 0x0/0x41ea0 --env {word}",
        f"je-tools recover {word}",
        f"je-tools salvage {word} --output {shlex.quote(f'{home}.salvaged')}",
        f"je-tools recover {word} --apply --output {shlex.quote(f'{home}.recovered')}",
        f"je-tools recover {word} --apply",
    ]
    assert [row["changes"] for row in section(rows, "step")] == [False] * 5 + [True]


def test_a_copy_needs_room(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hurt(home / "00000002.jdb", 40_000)
    real = os.statvfs(home)
    size = sum(path.stat().st_size for path in home.glob("*.jdb"))
    blocks = size // real.f_frsize

    class Full:
        f_bavail, f_frsize = blocks, real.f_frsize

    monkeypatch.setattr(os, "statvfs", lambda _: Full)
    _, rows = doctor(home)
    (copy,) = (row for row in section(rows, "step") if row["command"].startswith("cp "))
    assert copy["command"] == f"cp -a {home} /other/disk/env"
    assert f"this disk has {blocks * real.f_frsize:,} free" in copy["why"]


def test_a_member_of_a_group_is_not_told_to_cut_off_commits(tmp_path: Path) -> None:
    node = FIXTURES / "v17-rep-uncommitted-before" / "node1"
    home = shutil.copytree(node, tmp_path / "node1")
    hurt(home / "00000000.jdb", 100_000)
    _, rows = doctor(home)
    assert rows[0]["outcome"] == "loses"
    assert not any("--apply" in command for command in commands(rows))


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((), "nothing was counted, but the log is not whole: more may be lost"),
        (("--tree",), "so the damage is in entries that no record needs"),
    ],
)
def test_damage_that_no_record_needs(
    words: tuple[str, ...], text: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Commit is damaged: only the B-trees show that all records are there."""
    monkeypatch.setenv("COLUMNS", "200")
    rows = je_tools("dump", home, "--type", "Commit", "--limit", "1", "--format", "jsonl").out
    hurt(home / "00000000.jdb", int(json.loads(rows)["lsn"].partition("/")[2], 16) + 20)
    done = je_tools("doctor", home, *words)
    assert done.code == 3
    assert text in done.out.decode()


def test_a_disk_limit_comes_first(home: Path) -> None:
    (home / "je.properties").write_text(f"je.freeDisk={1 << 60}\n")
    done, rows = doctor(home)
    assert (done.code, rows[0]["outcome"]) == (0, "opens")
    assert commands(rows)[:2] == [f"je-tools space {home}", f"df -h {home}"]
    assert "Nothing has to be done" not in je_tools("doctor", home).out.decode()
    (home / "je.properties").write_text("je.freeDisk=0\n")
    assert "Nothing has to be done" in je_tools("doctor", home).out.decode()


@pytest.mark.parametrize("form", ["table", "jsonl", "json", "html"])
def test_keys_are_masked(form: str, home: Path, tmp_path: Path) -> None:
    """Findings of trees name lost keys."""
    (home / "00000002.jdb").unlink()
    page = tmp_path / "page.html"
    options = ["--html", page] if form == "html" else ["--format", form]
    texts = []
    for mode in ("show", "hide"):
        done = je_tools("doctor", home, "--tree", "--data", mode, *options)
        assert done.code == 3
        texts.append(page.read_text() if form == "html" else done.out.decode())
        page.unlink(missing_ok=True)
    assert SECRET.encode().hex() in texts[0]
    assert SECRET.encode().hex() not in texts[1]
    assert SECRET not in texts[1]


def test_one_object_has_all_rows(home: Path) -> None:
    (home / "00000001.jdb").unlink()
    _, rows = doctor(home)
    whole = json.loads(je_tools("doctor", home, "--format", "json").out)
    for row in rows:
        name = row.pop("section")
        # The free space of the disk changes all the time.
        if name == "verdict":
            assert row.items() <= whole.items()
        elif name != "space" and row.get("name") != "disk":
            assert row == whole[name] or row in whole[name]
    assert whole["loss"] is None
    assert len(whole["findings"]) == sum("code" in row for row in rows)


@pytest.mark.parametrize("width", [24, 40, 80])
def test_a_narrow_terminal_is_not_overrun(
    width: int, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands are one line each, so that they can be pasted."""
    (home / "00000001.jdb").unlink()
    monkeypatch.setenv("COLUMNS", str(width))
    lines = je_tools("doctor", home).out.decode().splitlines()
    assert not any("\x1b" in line for line in lines)
    long = [line for line in lines if len(line) > max(width, 24)]
    assert all(str(home) in line for line in long)


class Terminal(io.BytesIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("hurts", "style"), [(True, b"\x1b[1;31mThe engine"), (False, b"\x1b[1;32m")]
)
def test_only_a_terminal_gets_colours(
    hurts: bool, style: bytes, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    if hurts:
        (home / "00000001.jdb").unlink()
    scanner = Scanner(threads=1, wide=True)
    environment = open_environment([home])
    examiners = Examiners(scan_log, examine_replication, lambda *_: None, lambda *_: None)
    with diagnosed(home, environment, scanner, DiagnosisOptions(0), examiners) as (diagnosis, _):
        terminal, file = Terminal(), io.BytesIO()
        write_page(diagnosis, terminal, 80)
        write_page(diagnosis, file, None)
    assert terminal.getvalue().startswith(style)
    assert b"\x1b" not in file.getvalue()


def test_a_page_lists_some_findings_and_rows_all(home: Path) -> None:
    data = bytearray((home / "00000000.jdb").read_bytes())
    for offset in range(10_000, 900_000, 9_000):
        data[offset] ^= 1
    (home / "00000000.jdb").write_bytes(data)
    _, rows = doctor(home)
    assert len(section(rows, "findings")) > 90
    text = je_tools("doctor", home).out.decode()
    assert text.count("error damaged-entry at") == 3
    assert "more of damaged-entry; --format jsonl lists all" in text
    assert len(text.splitlines()) < 100


def test_the_page_is_a_new_file_outside_the_environment(home: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert je_tools("doctor", home, "--html", page, "--output", page).code == 2
    assert je_tools("doctor", home, "--html", home / "page.html").code == 6
    assert not page.exists()
    assert je_tools("doctor", home, "--html", page).code == 0
    assert stat.S_ISREG(page.stat().st_mode)
    assert je_tools("doctor", home, "--html", page).code == 6


def test_a_search_that_fails_is_no_clean_answer(home: Path, tmp_path: Path) -> None:
    """The search needs no temporary files here, but refuses a directory for them inside the log."""
    (home / "00000002.jdb").unlink()
    (home / "inside").mkdir()
    done, rows = doctor(home, "--tmp", home / "inside")
    assert "the B-trees were not searched: " in done.err
    assert rows[0]["verdict"].endswith("B-trees not checked")
    assert doctor(home, "--tmp", tmp_path)[0].code == 3


def test_exit_zero(home: Path) -> None:
    (home / "00000001.jdb").unlink()
    assert doctor(home, "--exit-zero")[0].code == 0
