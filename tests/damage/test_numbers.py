"""Files whose names or headers do not tell which number they have: never guessed in silence."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.corpus import FIXTURES
from tests.je_tools.dumped import je_tools

ONE, OTHER = (FIXTURES / name / "env" / "00000000.jdb" for name in ("v26-basic", "v26-dbops"))


def with_twin(home: Path, name: str) -> tuple[Path, Path]:
    """An environment with a second file of number 0, of another log."""
    paths = home / ONE.name, home / name
    paths[1].parent.mkdir(parents=True)
    for source, path in zip((ONE, OTHER), paths, strict=True):
        shutil.copyfile(source, path)
    return paths


@pytest.mark.parametrize(
    "command",
    [
        ("salvage", "--output"),
        ("export", "--all", "--output"),
        ("recover",),
        ("count",),
        ("databases",),
        ("space",),
        ("missing",),
        ("diff", FIXTURES / "v26-basic" / "env"),
        ("diff", FIXTURES / "v26-basic" / "env", "--show", "files"),
    ],
    ids=lambda command: f"{command[0]} {command[-1]}" if "diff" in command else command[0],
)
def test_two_files_of_one_number_are_not_read_as_one_log(
    command: tuple[str | Path, ...], tmp_path: Path
) -> None:
    one, other = with_twin(tmp_path / "env", "data001/00000000.jdb")
    where = [tmp_path / "out"] if command[-1] == "--output" else []
    done = je_tools(command[0], tmp_path / "env", *command[1:], *where)
    assert (done.code, done.out) == (4, b"")
    assert f"{one} and {other} both are file 0x0 of the log" in done.err
    assert "`je-tools salvage FILE --output DIR` reads each by itself" in done.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["00000000.jdb.1", "00000000.JDB"])
def test_names_may_differ_in_what_is_no_number(name: str, tmp_path: Path) -> None:
    home = tmp_path / "env"
    home.mkdir()
    shutil.copyfile(ONE, home / ONE.name)
    shutil.copyfile(OTHER, home / name)
    done = je_tools("salvage", home, "--output", tmp_path / "out")
    assert done.code == 4
    for path in (home / ONE.name, home / name):
        assert je_tools("salvage", path, "--output", tmp_path / f"out {path.name}").code == 0
