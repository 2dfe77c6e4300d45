"""Rules for verbs of `vlsn` that only read: no leaks, bars, closed directories, cut files."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from je_tools.commands import _progress
from je_tools.commands.vlsn import VERBS
from je_tools.commands.vlsn import command as verbs
from je_tools.errors import EXIT_DAMAGE, EXIT_INPUT, EXIT_OK, EXIT_STOPPED
from je_tools.formats.files.image import Image
from tests.corpus import FIXTURES
from tests.je_tools.dumped import je_tools
from tests.je_tools.vlsn.indexes import copy_of

NODE = FIXTURES / "v26-rep-committed" / "node1"
OTHER = FIXTURES / "v26-rep-committed" / "node2"
SECRETS = re.compile(rb'user00|"rev":|757365723030|dXNlcjAw')

LINES: dict[str, tuple[str, ...]] = {
    "show": ("show", "ENV"),
    "show map": ("show", "ENV", "--map", "777"),
    "show stream": ("show", "ENV", "--stream", "--rolled-back"),
    "check": ("check", "ENV"),
    "compare": ("compare", "ENV", str(OTHER)),
}
FORMATS = ("table", "json", "jsonl", "csv")


def words(name: str, home: Path) -> list[str]:
    return ["vlsn", *(str(home) if word == "ENV" else word for word in LINES[name])]


def is_reader(verb: str) -> bool:
    """Return True for a verb that only reads; the others have tests of their own."""
    command = verbs.get_command(click.Context(verbs), verb)
    assert command is not None
    return not any("--apply" in parameter.opts for parameter in command.params)


def test_every_verb_that_only_reads_is_here() -> None:
    assert {line[0] for line in LINES.values()} == set(filter(is_reader, VERBS))


@pytest.mark.parametrize("name", LINES)
def test_no_record_is_shown(name: str, tmp_path: Path) -> None:
    """One log is whole, and the other has a damaged record in the middle."""
    hurt = copy_of(NODE, tmp_path / "env")
    path = hurt / "00000000.jdb"
    data = bytearray(path.read_bytes())
    data[60_000:60_400] = bytes(400)
    path.write_bytes(data)
    codes = set()
    for home in (NODE, hurt):
        for form in FORMATS:
            done = je_tools(*words(name, home), "--format", form)
            codes.add(done.code)
            assert not SECRETS.search(done.out + done.err.encode()), (home, form)
    assert codes <= {0, 2, EXIT_DAMAGE, EXIT_INPUT}
    assert 0 in codes


@pytest.mark.parametrize("name", LINES)
def test_damage_is_not_passed_over(name: str, tmp_path: Path) -> None:
    """The engine cuts this log off at the damage, with Commits after it."""
    home = copy_of(NODE, tmp_path / "env")
    path = home / "00000000.jdb"
    data = bytearray(path.read_bytes())
    data[120_000] ^= 0xFF
    path.write_bytes(data)
    assert je_tools(*words(name, home)).code == EXIT_DAMAGE


@pytest.mark.parametrize("name", LINES)
def test_a_bar_goes_when_all_is_done(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    timers: list[Any] = []

    class Clock:
        daemon = False

        def __init__(self, _delay: float, ring: Any) -> None:
            self.ring, self.is_cancelled = ring, False
            timers.append(self)

        def start(self) -> None:
            pass

        def cancel(self) -> None:
            self.is_cancelled = True

    real = _progress.is_terminal
    monkeypatch.setattr(_progress, "Timer", Clock)
    monkeypatch.setattr(_progress, "is_terminal", lambda each: each is sys.stderr or real(each))
    assert je_tools(*words(name, NODE)).code == 0
    assert timers
    assert all(timer.is_cancelled for timer in timers)


@pytest.mark.parametrize("name", LINES)
def test_a_directory_that_does_not_exist(name: str, tmp_path: Path) -> None:
    done = je_tools(*words(name, tmp_path / "nowhere"))
    assert done.code == EXIT_INPUT
    assert "nowhere" in done.err


@pytest.mark.parametrize("name", sorted(set(LINES) - {"show stream"}))
def test_a_file_that_is_cut_under_a_command(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, out = copy_of(NODE, tmp_path / "env"), tmp_path / "out"
    path = home / "00000000.jdb"
    made = Image.__init__

    def make(self: Image, parts: Any, *rest: Any) -> None:
        made(self, parts, *rest)
        if any(part.path == path for part in parts):
            os.truncate(path, 4096)

    monkeypatch.setattr(Image, "__init__", make)
    done = je_tools(*words(name, home), "--output", out)
    assert done.code == EXIT_STOPPED, done.err
    assert "00000000.jdb" in done.err
    assert not out.exists()


@pytest.mark.parametrize("name", LINES)
def test_nothing_is_written_to_the_environment(name: str, tmp_path: Path) -> None:
    home = Path(shutil.copytree(NODE, tmp_path / "env"))
    before = {each.name: each.read_bytes() for each in home.iterdir()}
    home.chmod(0o555)
    try:
        assert je_tools(*words(name, home)).code == 0
    finally:
        home.chmod(0o755)
    assert {each.name: each.read_bytes() for each in home.iterdir()} == before


@pytest.mark.parametrize(
    "words",
    [
        ("vlsn", "show"),
        ("vlsn", "show", "--stream"),
        ("vlsn", "check"),
        ("vlsn", "rebuild"),
        ("vlsn", "rollback", "--to", "1224"),
        ("group", "show"),
        ("undo",),
    ],
)
def test_the_metadata_directory_of_a_front_end_will_do(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    copy_of(FIXTURES / "v17-rep-uncommitted-before" / "node1", tmp_path / "meta" / "bdb")
    done = je_tools(*words, tmp_path / "meta")
    assert done.code == EXIT_OK, done.err
    same = je_tools(*words, tmp_path / "meta" / "bdb")
    assert (done.out, done.err) == (same.out, same.err)
