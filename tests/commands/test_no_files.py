"""Directories, pipes and links named like log files, which the engine takes for log files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from je_tools.errors import EXIT_DAMAGE, EXIT_REFUSED
from tests.corpus import FIXTURES
from tests.je_tools.dumped import je_tools

NEXT = "00000001.jdb"


def a_link(path: Path) -> None:
    path.symlink_to(path.parent.parent / "unmounted" / NEXT)


KINDS: dict[str, Callable[[Path], None]] = {
    "directory": Path.mkdir,
    "pipe": os.mkfifo,
    "link": a_link,
}


@pytest.fixture(params=list(KINDS))
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a log whose next file is something else."""
    home = tmp_path / "env"
    shutil.copytree(FIXTURES / "v17-crash-txn" / "env", home)
    KINDS[request.param](home / NEXT)
    return home


@pytest.mark.parametrize(
    "words",
    [("verify",), ("verify", "--tree"), ("summary",), ("files",), ("recover",), ("count",)],
    ids="-".join,
)
def test_every_command_reports_it(words: tuple[str, ...], home: Path) -> None:
    done = je_tools(words[0], home, *words[1:])
    assert done.code == EXIT_DAMAGE
    told = done.out.decode() + done.err
    assert told.count("unreadable-file") >= 1
    assert told.count(f"unreadable-file  at {NEXT}") <= 1


def test_recover_does_not_say_that_the_engine_opens_it(home: Path) -> None:
    assert b"opens it" not in je_tools("recover", home).out


@pytest.mark.parametrize("verb", ["checkpoint", "recover"])
def test_nothing_is_written(verb: str, home: Path) -> None:
    before = sorted(path.name for path in home.iterdir())
    done = je_tools(verb, home, "--apply")
    assert done.code == EXIT_REFUSED
    assert NEXT in done.err
    assert sorted(path.name for path in home.iterdir()) == before
