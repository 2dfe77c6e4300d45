"""Control files say which file an erasure works on, also to those who must wait for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from je_tools.erase.control_files import (
    ErasureControl,
    interrupted_names,
    protect_files,
    protected_names,
    release_files,
    wait_until_left,
    working_names,
)
from je_tools.errors import RefusedError, UsageError
from je_tools.log.log_files import LogFile
from je_tools.log.opening import open_environment
from je_tools.writing.disk import Disk
from tests.builders.trees import simple

NAME = "00000000.jdb"
FOLDER = ".je-tools-erase"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return simple({b"key": b"data"}).write(tmp_path / "env")


def first_file(home: Path) -> LogFile:
    return open_environment([home]).files[0]


def test_whoever_protects_a_file_waits_until_it_is_left(home: Path) -> None:
    control = ErasureControl(home, Disk())
    assert not control.is_protected(first_file(home))
    assert working_names(home) == {NAME}
    protect_files(home, [NAME], Disk())
    with pytest.raises(RefusedError, match="still works on"):
        wait_until_left(home, [NAME], lambda: True, 0.01)
    assert control.is_protected(first_file(home))
    wait_until_left(home, [NAME], lambda: True, 0.01)
    assert protected_names(home) == {NAME}


def test_a_second_erasure_does_not_remove_the_note_of_the_first(home: Path) -> None:
    control = ErasureControl(home, Disk())
    control.is_protected(first_file(home))
    other = ErasureControl(home, Disk())
    other.clear([])
    other.end()
    assert working_names(home) == {NAME}


def test_the_note_of_a_dead_erasure_means_nothing(home: Path) -> None:
    (home / FOLDER).mkdir()
    note = home / FOLDER / f"{NAME}.working"
    note.touch()
    assert working_names(home) == set()
    wait_until_left(home, [NAME], lambda: True, 0.01)
    control = ErasureControl(home, Disk())
    assert interrupted_names(home) == {NAME}
    control.clear([NAME])
    assert note.exists()
    control.clear([])
    assert not note.exists()
    assert not control.is_protected(first_file(home))
    assert working_names(home) == {NAME}


def test_the_note_of_a_failed_erasure_stays(home: Path) -> None:
    control = ErasureControl(home, Disk())

    def fail() -> None:
        with control:
            control.is_protected(first_file(home))
            raise RefusedError("the disk failed")

    with pytest.raises(RefusedError):
        fail()
    assert working_names(home) == set()
    assert interrupted_names(home) == {NAME}
    with ErasureControl(home, Disk()) as again:
        again.is_protected(first_file(home))
    assert interrupted_names(home) == set()


def test_nothing_is_followed_out_of_the_environment(home: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    foreign = elsewhere / f"{NAME}.working"
    foreign.touch()
    (home / FOLDER).symlink_to(elsewhere)
    control = ErasureControl(home, Disk())
    for call in (
        lambda: control.clear([]),
        lambda: control.is_protected(first_file(home)),
        lambda: protect_files(home, [NAME], Disk()),
        lambda: working_names(home),
    ):
        with pytest.raises(RefusedError, match="symbolic link"):
            call()
    assert list(elsewhere.iterdir()) == [foreign]


def test_only_protected_files_are_released(home: Path) -> None:
    protect_files(home, [NAME], Disk())
    with pytest.raises(UsageError, match="the file is not protected"):
        release_files(home, [NAME, "00000001.jdb"], Disk())
    assert protected_names(home) == {NAME}
    release_files(home, [NAME], Disk())
    assert not (home / FOLDER).exists()
