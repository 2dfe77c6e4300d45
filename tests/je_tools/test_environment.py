"""Opening a log again: only names are looked at, and files that may have changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from je_tools import environment
from je_tools.environment import Environment, open_environment
from tests.builders.logs import LogFile, write_log
from tests.damage.planted_cases import CASES


def log_of(count: int) -> list[LogFile]:
    """Files with an entry each."""
    files = [LogFile(0)]
    files[0].trace(20)
    for _ in range(count - 1):
        files.append(files[-1].follower())
        files[-1].trace(20)
    return files


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files that are opened."""
    names: list[str] = []
    real = environment.Source

    def source(path: Path) -> environment.Source:
        names.append(path.name)
        return real(path)

    monkeypatch.setattr(environment, "Source", source)
    return names


def same(one: Environment, other: Environment) -> bool:
    return (one.files, one.marker, one.folders) == (other.files, other.marker, other.folders)


def test_only_new_files_and_the_last_one_are_opened_again(
    tmp_path: Path, opened: list[str]
) -> None:
    files = log_of(6)
    home = write_log(tmp_path / "env", files[:3])
    before = open_environment([home])
    opened.clear()
    (home / files[2].name).write_bytes(files[2].data + bytes(30))
    write_log(home, files[3:])
    again = open_environment([home], before)
    assert sorted(opened) == [file.name for file in files[2:]]
    assert same(again, open_environment([home]))
    assert again.files[2].size == len(files[2].data) + 30


def test_a_header_that_was_not_whole_is_read_again(tmp_path: Path, opened: list[str]) -> None:
    """A file that is begun, and others behind it, all between two looks."""
    files = log_of(4)
    home = write_log(tmp_path / "env", files)
    (home / files[1].name).write_bytes(files[1].data[:20])
    before = open_environment([home])
    assert not before.files[1].header.good
    opened.clear()
    write_log(home, files)
    again = open_environment([home], before)
    assert sorted(opened) == [files[1].name, files[3].name]
    assert again.files[1].header.good


def test_files_that_were_deleted_are_gone(tmp_path: Path) -> None:
    files = log_of(4)
    home = write_log(tmp_path / "env", files)
    before = open_environment([home])
    (home / files[1].name).unlink()
    again = open_environment([home], before)
    assert [file.file_no for file in again.files] == [0, 2, 3]
    assert again.missing == ((1, 1),)


def test_loose_files_too(tmp_path: Path, opened: list[str]) -> None:
    files = log_of(3)
    home = write_log(tmp_path / "env", files)
    paths = [home / file.name for file in files]
    before = open_environment(paths)
    opened.clear()
    again = open_environment(paths, before)
    assert opened == [files[2].name]
    assert same(again, before)


def test_where_a_log_may_end(tmp_path: Path) -> None:
    """In the last file that has more than a header; of loose files, where the next is not named."""
    files = log_of(4)
    home = write_log(tmp_path / "env", files)
    assert open_environment([home]).ends == {3}
    (home / files[3].name).write_bytes(files[3].data[:38])
    assert open_environment([home]).ends == {2, 3}
    (home / files[3].name).write_bytes(files[3].data[:39])
    assert open_environment([home]).ends == {3}
    paths = [home / files[i].name for i in (0, 1, 3)]
    assert open_environment(paths).ends == {1, 2}
    assert open_environment(paths).missing == ()


def test_places_are_those_of_data_directories_too(tmp_path: Path) -> None:
    make, _ = CASES["data-directories"]
    (home,) = make(tmp_path / "env")
    found = open_environment([home])
    assert found.folders == ("data001", "data002", "data003")
    assert [file.path.parent.name for file in found.files] == [*found.folders, *found.folders[:2]]
    assert [found.places[file.path] for file in found.files] == [0, 1, 2, 3, 4]


def test_a_directory_is_not_a_log_for_its_name(tmp_path: Path) -> None:
    """Nor is what only looks like a data directory one."""
    (file,) = log_of(1)
    home = write_log(tmp_path / "env", [file])
    (home / "00000009.jdb").mkdir()
    (home / "data001").touch()
    found = open_environment([home])
    assert [each.path.name for each in found.files] == [file.name]
    assert found.folders == ()
