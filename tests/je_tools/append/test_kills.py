"""Commands that append, killed or interrupted at calls of the disk."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest

from tests.builders.forked import Forked
from tests.builders.power_cuts import Recorder
from tests.builders.signals import run_signalled
from tests.je_tools.append.appending import OPERATIONS, apply
from tests.je_tools.append.test_append import member
from tests.je_tools.writing.operations import digests

WORDS = {
    "reset": ("group", "reset", "--apply", "--node-name", "node2"),
    "rollback": ("vlsn", "rollback", "--apply", "--to", "1224"),
    "truncation": ("journal", "truncate", "--apply", "--above", "790"),
}
KILLS = (3, pytest.param(12, marks=pytest.mark.exhaustive))
"""Approximate numbers of calls at which a command is killed."""

each_command = pytest.mark.parametrize("name", WORDS)


def calls_of(name: str, folder: Path) -> int:
    """Return the number of calls of the disk."""
    disk = Recorder()
    apply(OPERATIONS[name].copy(folder), OPERATIONS[name].make(), disk)
    return len(disk.calls)


@pytest.mark.parametrize("kills", KILLS)
@each_command
def test_kills(name: str, kills: int, forked: Forked, tmp_path: Path) -> None:
    """Recovery continues with what SIGKILL leaves, and undo completes after it was killed too."""
    count = calls_of(name, tmp_path / "counted")
    for at in range(1, count, max(count // kills, 1)):
        home = OPERATIONS[name].copy(tmp_path / f"{at}")
        before = digests(home)
        code, said = run_signalled(forked, at, signal.SIGKILL, *WORDS[name], home)
        assert (code, said) == (-signal.SIGKILL, "")
        assert not member(home).refusals
        run_signalled(forked, at // 2, signal.SIGKILL, "undo", "--apply", home)
        code, said = run_signalled(forked, 999, signal.SIGKILL, "undo", "--apply", home)
        assert code == 0, said
        assert digests(home) == before, at
        shutil.rmtree(home)


@each_command
def test_what_is_told_when_it_is_interrupted(name: str, forked: Forked, tmp_path: Path) -> None:
    """The message states the log's state and the way to undo."""
    verb = " ".join(WORDS[name][:2])
    met = set()
    count = calls_of(name, tmp_path / "counted")
    for at in (2, count - 2):
        home = OPERATIONS[name].copy(tmp_path / f"{at}")
        log = (home / "00000000.jdb").read_bytes()
        code, said = run_signalled(forked, at, signal.SIGINT, *WORDS[name], home)
        assert code == 130, said
        if said == "interrupted; nothing was changed\n":
            assert (home / "00000000.jdb").read_bytes() == log
            met.add("nothing")
        else:
            assert said == (
                f"interrupted; the {verb} is not finished, and the log is as after a crash, from "
                f"which the engine recovers. `je-tools undo {home} --apply` reverts it\n"
            )
            met.add("unfinished")
    assert met == {"nothing", "unfinished"}
