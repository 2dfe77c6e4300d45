"""Operations on small logs, like those of commands that write."""

from __future__ import annotations

import errno
import hashlib
import os
import random
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from je_tools.log.opening import open_environment
from je_tools.writing import disk as disk_module
from je_tools.writing.disk import Disk
from je_tools.writing.file_reads import read_at
from je_tools.writing.session import Session
from je_tools.writing.undo import clear_remains, list_undos
from tests.builders.logs import LogFile, write_log
from tests.builders.power_cuts import Recorder


def small_log(folder: Path, *, data_directories: int = 0) -> Path:
    """Write three files with a torn tail, and one that was only begun."""
    files = [LogFile(0)]
    for sizes in ((40, 500, 60), (900, 30, 30, 1000), (100, 2000, 50)):
        for size in sizes:
            files[-1].trace(size)
        files.append(files[-1].follower())
    del files[-1]
    files[-1].data += bytes(700) + b"torn"
    files.append(files[-1].follower())
    home = write_log(folder, files)
    for i in range(data_directories):
        (home / f"data{i + 1:03d}").mkdir()
    for file in files if data_directories else ():
        below = home / f"data{file.no % data_directories + 1:03d}"
        (home / file.name).rename(below / file.name)
    return home


def digests(home: Path) -> dict[str, str]:
    """Return digests of the environment's files, journals included, without the lock file."""
    return {
        path.relative_to(home).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(home.rglob("*"))
        if path.is_file() and path.name != "je.lck"
    }


def without_journals(home: Path) -> dict[str, str]:
    """Return the `digests` without those of journals."""
    return {name: digest for name, digest in digests(home).items() if "je-tools" not in name}


def log_of(home: Path) -> dict[str, bytes]:
    """Return the log files by name, in log order."""
    files = sorted(home.rglob("*.jdb"), key=lambda path: path.name)
    return {path.name: path.read_bytes() for path in files}


def begun_file(no: int) -> bytes:
    """Return a file header and entries after it."""
    file = LogFile(no)
    for size in (300, 40, 1400, 10):
        file.trace(size)
    return bytes(file.data)


def _appended(session: Session, file_no: int, offset: int, count: int, seed: int) -> int:
    for i in range(count):
        data = random.Random(f"{seed}/{i}").randbytes(700 + 100 * i)
        session.append(file_no, offset, data)
        offset += len(data)
    return offset


def checkpoint(session: Session) -> None:
    """Cut the torn tail, append, and continue in the begun file and in a new one."""
    third, fourth = session.environment.files[2:]
    end = third.size - 704
    session.cut(third.file_no, end)
    _appended(session, third.file_no, end, 3, 1)
    data = begun_file(fourth.file_no)
    session.append(fourth.file_no, 0, data)
    _appended(session, fourth.file_no, len(data), 2, 2)
    session.append(fourth.file_no + 1, 0, begun_file(fourth.file_no + 1))


def rollback(session: Session) -> None:
    """Set a file aside, cut the tail, append, make entries invisible, and append again."""
    first, second, third, fourth = session.environment.files
    session.set_aside(fourth.file_no)
    end = third.size - 704
    session.cut(third.file_no, end)
    end = _appended(session, third.file_no, end, 2, 3)
    session.sync()
    for file in (first, second):
        for at in (60, file.size // 2, file.size - 5):
            old = read_at(file.path, at, 1)
            session.flip_bits(file.file_no, at, old, bytes([old[0] ^ 0x10]))
    _appended(session, third.file_no, end, 2, 4)


def earlier_end(session: Session) -> None:
    """Remove files, cut the one before, and continue there and in a file of a removed number."""
    first, second, third, fourth = session.environment.files
    session.remove(fourth.file_no)
    session.remove(third.file_no)
    session.cut(second.file_no, 900)
    end = _appended(session, second.file_no, 900, 2, 5)
    session.sync()
    old = read_at(first.path, 333, 2)
    session.flip_bits(first.file_no, 333, old, old[::-1])
    _appended(session, second.file_no, end, 1, 6)
    session.append(third.file_no, 0, begun_file(third.file_no))


def begun_again(session: Session) -> None:
    """Cut a file to its header, then begin it anew, which cuts it once more."""
    third, fourth = session.environment.files[2:]
    session.remove(fourth.file_no)
    session.cut(third.file_no, 38)
    data = begun_file(third.file_no)
    session.append(third.file_no, 0, data)
    _appended(session, third.file_no, len(data), 4, 7)


OPERATIONS: dict[str, Callable[[Session], None]] = {
    "checkpoint": checkpoint,
    "rollback": rollback,
    "earlier-end": earlier_end,
    "begun-again": begun_again,
}

TAKES_AWAY = ("earlier-end", "begun-again")
"""Operations that cut the log back."""


def operate(home: Path, name: str, disk: Disk | None = None) -> None:
    """Do one of the operations."""
    takes_away = name in TAKES_AWAY
    environment = open_environment([home])
    with Session(
        environment, name, None, disk=disk or Recorder(), takes_away=takes_away
    ) as session:
        OPERATIONS[name](session)
        session.finish()


def write_more(home: Path) -> None:
    """Append something in a separate operation."""
    environment = open_environment([home])
    last = environment.files[-1]
    with Session(environment, "later", None, disk=Recorder()) as session:
        session.append(last.file_no, last.size, b"x" * 100)
        session.finish()


def journal_of(home: Path) -> Path:
    """Return the path of the first undo journal."""
    return home / ".je-tools-undo" / "000001" / "journal"


def spoil(path: Path, offset: int, data: bytes = b"XX") -> None:
    """Overwrite bytes, but keep the modification time."""
    times = path.stat().st_mtime_ns
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)
    os.utime(path, ns=(times, times))


def others_files(patch: pytest.MonkeyPatch, *, has_unnamed_files: bool = True) -> None:
    """Make this process neither the owner of any file nor able to give files away.

    Args:
        patch: The test's monkeypatch.
        has_unnamed_files: True if the file system has files that get their name later.
    """
    real_stat, real_open = os.fstat, os.open

    def give(*_: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    def other(number: int) -> os.stat_result:
        info = real_stat(number)
        return os.stat_result((*info[:4], info.st_uid + 1, *info[5:]))

    def refuse(path: Path | str, flags: int, *rest: Any, **named: Any) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP), str(path))
        return real_open(path, flags, *rest, **named)

    opened = real_open if has_unnamed_files else refuse
    changed = {"fchown": give, "fstat": other, "open": opened}
    patch.setattr(disk_module, "os", types.SimpleNamespace(**{**vars(os), **changed}))


def put_back(home: Path, disk: Disk | None = None) -> None:
    """Put back the newest journal."""
    with disk or Recorder() as used:
        for undo in list_undos(home)[-1:]:
            undo.check()
            undo.apply(used)
        clear_remains(home, used)
