"""`checkpoint --apply` and `recover --apply`: logs that need nothing, and logs that change."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.corpus import Environment, environments, marked_if_another
from tests.engine.crashes import make_crash, read_source, write_crash
from tests.je_tools.dumped import je_tools
from tests.je_tools.writing.operations import digests

WRITTEN = [each for each in environments() if each.name.startswith(("v8-", "v17-"))]
CRASHES = (1, pytest.param(3, marks=pytest.mark.exhaustive))
"""Number of crashed copies of each environment."""

each_written = pytest.mark.parametrize(
    "written",
    [pytest.param(each, id=each.name, marks=marked_if_another(each)) for each in WRITTEN],
)


def crashed(written: Environment, crashes: int, folder: Path) -> list[Path]:
    """Return a copy of an environment, and others that have crashed."""
    homes = [Path(shutil.copytree(written.home, folder / "whole"))]
    source = read_source(written.home)
    for number in range(crashes):
        crash = make_crash(source, random.Random(f"{written.name}/{number}"))
        write_crash(source, crash, folder / f"linked-{number}")
        # The links are to files of the original, which must not be written to.
        homes.append(Path(shutil.copytree(folder / f"linked-{number}", folder / f"{number}")))
    return homes


def times(home: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in home.glob("*.jdb")}


@pytest.mark.parametrize("crashes", CRASHES)
@each_written
def test_the_second_writes_nothing(written: Environment, crashes: int, tmp_path: Path) -> None:
    for home in crashed(written, crashes, tmp_path):
        found = digests(home)
        done = je_tools("recover", "--apply", home)
        if done.code in (4, 6):
            assert digests(home) == found
            continue
        # The code is 3 if Commits after damage are lost.
        assert done.code == 3 * ("lost-tail" in done.err), done.err
        before, told = (digests(home), times(home)), done.err
        for verb in ("checkpoint", "recover"):
            done = je_tools(verb, "--apply", home)
            assert (done.code, done.err) == (0, ""), verb
            assert (digests(home), times(home)) == before, verb
        if not told:
            continue
        # Once the journals are dropped, no new one is made.
        assert je_tools("undo", "--drop", "all", "--apply", home).code == 0
        rest = digests(home)
        assert not any("je-tools" in name for name in rest)
        assert je_tools("checkpoint", "--apply", home).code == 0
        assert (digests(home), times(home)) == (rest, before[1])
        assert not list(home.glob(".je-tools*"))


def append(home: Path) -> None:
    with (home / "00000000.jdb").open("ab") as file:
        file.write(bytes(100))


def change(home: Path) -> None:
    path = home / "00000000.jdb"
    path.write_bytes(path.read_bytes())


def begin(home: Path) -> None:
    (home / "00000001.jdb").write_bytes(b"")


@pytest.mark.parametrize("meddle", [append, change, begin])
def test_a_log_that_changes_before_it_is_written(
    meddle: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy, or an engine on another machine, takes no lock."""
    (written,) = (each for each in WRITTEN if each.name == "v17-crash-txn")
    home = Path(shutil.copytree(written.home, tmp_path / "env"))
    left: dict[str, str] = {}

    def tell(*_: object) -> None:
        meddle(home)
        left.update(digests(home))

    monkeypatch.setattr("je_tools.commands.recover._write_plan", tell)
    done = je_tools("recover", "--apply", home)
    assert done.code == 6
    assert "when the log was read; run the command again; nothing was changed\n" in done.err
    assert digests(home) == left
    assert not list(home.glob(".je-tools*"))
