"""Copies that are written to instead of the environment."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from je_tools.errors import RefusedError, StoppedError
from je_tools.log.opening import open_environment
from je_tools.writing import copying
from je_tools.writing.copying import copied
from tests.je_tools.writing.operations import digests, small_log


@pytest.mark.parametrize("by_range", [True, False])
def test_a_copy_is_the_log_and_its_settings(
    by_range: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not by_range:
        monkeypatch.delattr(os, "copy_file_range")
        monkeypatch.setattr(os, "copy_file_range", no_copy, raising=False)
    home = small_log(tmp_path / "env", data_directories=2)
    (home / "je.properties").write_text("je.log.nDataDirectories=2")
    before = digests(home)
    for name in ("je.lck", "je.info.0", "je.stat.csv", "00000000.del"):
        (home / name).write_text("not of the log")
    environment = open_environment([home])
    with (home / "data001" / "00000002.jdb").open("ab") as file:
        file.write(b"written by the engine meanwhile")
    done: list[int] = []
    with copied(environment, tmp_path / "copy", done.append) as folder:
        assert not (tmp_path / "copy").exists()
        assert digests(folder) == before
        inodes = {path.stat().st_ino for path in folder.rglob("*.jdb")}
    assert digests(tmp_path / "copy") == before
    assert sum(done) == environment.size
    assert inodes.isdisjoint({path.stat().st_ino for path in home.rglob("*.jdb")})
    for path in (home / "data001", home / "data001" / "00000000.jdb"):
        other = tmp_path / "copy" / path.relative_to(home)
        assert other.stat().st_mode == path.stat().st_mode


def no_copy(*_: object) -> int:
    raise OSError(38, "no such call")


def test_where_a_copy_must_not_be(tmp_path: Path) -> None:
    environment = open_environment([small_log(tmp_path / "env")])
    (tmp_path / "there").mkdir()
    for name, text in (("there", "exists"), ("env/below", "inside the environment")):
        with pytest.raises(RefusedError, match=text), copied(environment, tmp_path / name):
            pass


def test_no_copy_of_a_file_that_shrank(tmp_path: Path) -> None:
    home = small_log(tmp_path / "env")
    environment = open_environment([home])
    os.truncate(home / "00000001.jdb", 100)
    with pytest.raises(StoppedError, match="shrank"), copied(environment, tmp_path / "copy"):
        pass
    with pytest.raises(StoppedError, match="became shorter"):
        _shrinks(home, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["env", "out"]


def _shrinks(home: Path, out: Path) -> None:
    path = home / "00000001.jdb"
    with path.open("rb") as source, out.open("wb") as target:
        copying._fill(source.fileno(), target, 200, path, None, None)


def test_nothing_is_left_of_a_copy_that_fails(tmp_path: Path) -> None:
    environment = open_environment([small_log(tmp_path / "env")])
    with pytest.raises(ZeroDivisionError), copied(environment, tmp_path / "copy") as folder:
        assert 1 / len(list(folder.glob("nothing")))
    assert [path.name for path in tmp_path.iterdir()] == ["env"]
