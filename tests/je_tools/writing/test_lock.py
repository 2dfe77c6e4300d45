"""The engine's lock as fcntl shows it, held or inspected; other tests ask the engine itself."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import subprocess
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from je_tools.errors import InputError, RefusedError
from je_tools.writing.disk import Disk, can_be_like
from je_tools.writing.lock import EnvironmentLock, Holder, LockMode, find_holders
from tests.je_tools.writing.operations import others_files

HOLD = """
import fcntl, sys
file = open(sys.argv[1], "a+b")
fcntl.lockf(file, int(sys.argv[2]) | fcntl.LOCK_NB, 1, int(sys.argv[3]))
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def held(home: Path, kind: int, start: int) -> Iterator[int]:
    """Hold a byte in another process as Java would; yield its pid."""
    command = [sys.executable, "-c", HOLD, home / "je.lck", str(kind), str(start)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process.pid
        process.kill()


def modes(found: tuple[Holder, ...]) -> list[tuple[LockMode, int | None]]:
    return [(each.mode, each.pid) for each in found]


def test_a_lock_that_is_held_is_refused(home: Path) -> None:
    with held(home, fcntl.LOCK_EX, 0) as pid:
        assert modes(find_holders(home)) == [(LockMode.READ_WRITE, pid)]
        with pytest.raises(RefusedError, match=rf"process {pid} \(.*\) has the environment open"):
            EnvironmentLock(home).__enter__()
    with EnvironmentLock(home) as lock:
        assert lock.is_held
        assert lock.readers == ()
    assert not lock.is_held


def test_readers_are_told_of_and_keep_nobody_from_writing(home: Path) -> None:
    with held(home, fcntl.LOCK_SH, 1) as one, held(home, fcntl.LOCK_SH, 1) as other:
        with EnvironmentLock(home) as lock:
            assert {each.pid for each in lock.readers} == {one, other}
        assert {mode for mode, _ in modes(find_holders(home))} == {LockMode.READ_ONLY}
        assert {pid for _, pid in modes(find_holders(home))} == {one, other}
    with held(home, fcntl.LOCK_EX, 1) as pid:
        assert modes(find_holders(home)) == [(LockMode.NO_READERS, pid)]


def test_the_lock_outlives_what_else_opens_the_file(home: Path) -> None:
    """A lock of the process would end when any descriptor of the file is closed."""
    with EnvironmentLock(home):
        (home / "je.lck").read_bytes()
        assert modes(find_holders(home)) == [(LockMode.READ_WRITE, os.getpid())]
        with pytest.raises(RefusedError, match=rf"process {os.getpid()} "):
            EnvironmentLock(home).__enter__()
        with pytest.raises(AssertionError), held(home, fcntl.LOCK_EX, 0):
            pass
    assert find_holders(home) == ()


def test_looking_writes_and_locks_nothing(home: Path) -> None:
    assert find_holders(home) == ()
    assert not (home / "je.lck").exists()


def test_a_new_lock_file_is_as_its_neighbours(home: Path) -> None:
    for path in home.iterdir():
        path.chmod(0o640)
        if os.geteuid() == 0:
            os.chown(path, 4711, 4712)
    with EnvironmentLock(home):
        made, other = (home / "je.lck").stat(), (home / "00000000.jdb").stat()
    for name in ("st_uid", "st_gid", "st_mode"):
        assert getattr(made, name) == getattr(other, name)
    assert made.st_size == 0


@pytest.mark.parametrize("is_there_again", [False, True])
def test_a_lock_file_that_is_replaced_meanwhile_is_not_the_lock(
    is_there_again: bool, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, replaced = fcntl.fcntl, []

    def replace(number: int, command: int, argument: bytes) -> bytes:
        if command == fcntl.F_OFD_SETLK and not replaced:
            replaced.append((home / "je.lck").rename(home / "gone"))
            if is_there_again:
                (home / "je.lck").touch()
        return real(number, command, argument)

    monkeypatch.setattr(fcntl, "fcntl", replace)
    with EnvironmentLock(home):
        assert modes(find_holders(home)) == [(LockMode.READ_WRITE, os.getpid())]


def test_processes_that_cannot_be_seen(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For another pid namespace the system reports the lock, but no process."""
    nothing = re.compile("never")
    monkeypatch.setattr("je_tools.writing.lock._LOCK", nothing)
    with EnvironmentLock(home):
        (holder,) = find_holders(home)
    assert holder == Holder(LockMode.READ_WRITE, None, None)
    assert "not visible from here" in holder.text


def test_a_lock_file_that_cannot_be_opened(home: Path) -> None:
    (home / "je.lck").symlink_to(home / "je.lck")
    with pytest.raises(InputError, match=r"je\.lck: Too many levels"):
        find_holders(home)
    with pytest.raises(RefusedError, match="cannot lock the file"):
        EnvironmentLock(home).__enter__()


@pytest.mark.parametrize("has_unnamed_files", [True, False])
def test_no_lock_file_that_the_owner_could_not_open(
    has_unnamed_files: bool, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A member of the group may create files, but not give them to the owner of the others."""
    others_files(monkeypatch, has_unnamed_files=has_unnamed_files)
    before = sorted(home.iterdir())
    with pytest.raises(RefusedError, match=r"files belong to user .*, but new ones would not"):
        EnvironmentLock(home).__enter__()
    assert sorted(home.iterdir()) == before
    disk = Disk()
    with pytest.raises(PermissionError):
        disk.create(home / "new", (home / "00000000.jdb").stat())
    with pytest.raises(PermissionError):
        disk.mkdir(home / "new", home.stat())
    assert sorted(home.iterdir()) == before
    # The lock file exists and can be opened, so the lock does not prevent writing.
    (home / "je.lck").touch()
    with EnvironmentLock(home) as lock:
        assert lock.is_held


def test_where_nothing_can_be_made_that_is_told(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, *_: object) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    opened = types.SimpleNamespace(**{**vars(os), "open": refuse})
    monkeypatch.setattr("je_tools.writing.disk.os", opened)
    with pytest.raises(OSError, match=f"Read-only file system: '{home}'"):
        can_be_like(home, home.stat())
    with pytest.raises(RefusedError, match=r"je\.lck: cannot lock the file: Read-only file system"):
        EnvironmentLock(home).__enter__()
    with pytest.raises(FileNotFoundError):
        (home / "je.lck").stat()
