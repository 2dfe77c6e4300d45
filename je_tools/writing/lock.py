"""The engine's lock on an environment: taking it for writing, and finding its holders.

An engine that writes locks byte 0 of je.lck while its environment is open. Engines that read share
a lock on byte 1. Java's file locks are those of fcntl. This module takes locks of an open file
description: they conflict with those, and are not lost when other code in this process closes the
file.

Source: FileManager.lockEnvironment, checkEnvHomePermissions, JE 7.5.11; fcntl(2), proc_locks(5).
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Self

from msgspec import Struct

from je_tools.core.escaping import printable, quoted
from je_tools.errors import InputError, NoLogError, RefusedError
from je_tools.writing.disk import Disk, can_be_like

FILE_NAME = "je.lck"

_FLOCK = struct.Struct("hhqqi4x")
"""`struct flock` of 64-bit Linux: type, whence, start, length, pid."""

_WRITER, _READER = 0, 1
_UNHELD = {errno.EACCES, errno.EAGAIN}


class LockMode(StrEnum):
    """Kinds of holders of the lock."""

    READ_WRITE = "read-write"
    """An engine that has the environment open to write, or a command of je-tools that writes."""
    READ_ONLY = "read-only"
    """An engine that has the environment open to read."""
    NO_READERS = "no-readers"
    """An engine that is about to remove files, and keeps readers out."""


class Holder(Struct, frozen=True):
    """A process that holds a part of the lock.

    Attributes:
        mode: kind of the holder.
        pid: process id; None if the system does not report it.
        command: command line or name of the process; None if the system does not report it.
    """

    mode: LockMode
    pid: int | None
    command: str | None

    @property
    def text(self) -> str:
        """Description of the holder in words."""
        if self.pid is None:
            return "a process that is not visible from here (of another user or container)"
        return f"process {self.pid}" + (f" ({self.command})" if self.command else "")


def find_holders(home: Path, name: str = FILE_NAME) -> tuple[Holder, ...]:
    """Return the holders of a directory's lock without taking it; none if it has no lock file.

    The pid of a holder in another pid namespace (a container) is None.

    Raises:
        InputError: the lock file cannot be opened.
    """
    try:
        number = os.open(home / name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise InputError(f"{home / name}: {error.strerror}") from error
    try:
        return _holders(number)
    finally:
        os.close(number)


class FileLock(ABC):
    """A lock on byte 0 of a file of an engine, held from `__enter__` to `__exit__`.

    Do not fork while it is held: a child would keep holding it. Children started by `subprocess`
    do not, since the file is closed in them.

    Attributes:
        path: path of the file.
        others: processes that held other parts of the file when the lock was taken.
    """

    def __init__(self, path: Path, disk: Disk | None = None) -> None:
        """Prepare the lock without taking it.

        Args:
            path: path of the file.
            disk: disk on which a missing lock file is created.
        """
        self.path = path
        self.others: tuple[Holder, ...] = ()
        self._disk = disk or Disk()
        self._number: int | None = None

    def __enter__(self) -> Self:
        """Take the lock.

        Raises:
            RefusedError: another process holds it, or it cannot be taken.
        """
        try:
            while self._number is None:
                self._number = self._try_to_take()
        except OSError as error:
            raise RefusedError(f"{self.path}: cannot lock the file: {error.strerror}") from error
        held = _holders(self._number)
        self.others = tuple(each for each in held if each.mode is not LockMode.READ_WRITE)
        return self

    def __exit__(self, *_: object) -> None:
        number, self._number = self._number, None
        if number is not None:
            os.close(number)

    @property
    def is_held(self) -> bool:
        """True if the lock is held now."""
        return self._number is not None

    @abstractmethod
    def stat_for_new_file(self) -> os.stat_result:
        """Return the status of a file whose owner, group and mode a new lock file gets."""

    @abstractmethod
    def refusal(self, holders: str) -> RefusedError:
        """Return the error for a lock that is held.

        Args:
            holders: the processes, in words.
        """

    def _try_to_take(self) -> int | None:
        """Lock the file and return its descriptor; return None if it was replaced meanwhile."""
        number = self._open_or_create()
        try:
            fcntl.fcntl(number, fcntl.F_OFD_SETLK, _flock(fcntl.F_WRLCK, _WRITER))
            if os.path.samestat(os.fstat(number), self.path.stat()):
                return number
        except FileNotFoundError:
            pass
        except OSError as error:
            found = _holders(number) if error.errno in _UNHELD else ()
            os.close(number)
            if error.errno in _UNHELD:
                writers = [each.text for each in found if each.mode is LockMode.READ_WRITE]
                raise self.refusal(" and ".join(writers) or "another process") from error
            raise
        os.close(number)
        return None

    def _open_or_create(self) -> int:
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK
        try:
            return os.open(self.path, flags)
        except FileNotFoundError:
            # The engine never removes the lock file, so it must be able to open this one.
            like = self.stat_for_new_file()
            check_new_files(self.path.parent, like)
            with suppress(FileExistsError), self._disk:
                self._disk.create(self.path, like)
            return os.open(self.path, flags)


class EnvironmentLock(FileLock):
    """The lock of an engine that has an environment open for writing.

    Attributes:
        home: home of the environment.
        can_copy: True if the command can write to a copy instead.
    """

    def __init__(
        self,
        home: Path,
        disk: Disk | None = None,
        *,
        instead: str | None = None,
    ) -> None:
        """Prepare the lock without taking it.

        Args:
            home: home of the environment.
            disk: disk on which a missing lock file is created.
            instead: advice for a user who is refused; None for a command that can write to a copy,
                which is then the advice.
        """
        super().__init__(home / FILE_NAME, disk)
        self.home = home
        self._instead = instead or "stop that first, or write to a copy (--output DIR)"
        self.can_copy = instead is None

    @property
    def readers(self) -> tuple[Holder, ...]:
        """Holders that had the environment open to read when the lock was taken."""
        return self.others

    def stat_for_new_file(self) -> os.stat_result:
        """Return the status of a log file."""
        return _log_file_stat(self.home)

    def refusal(self, holders: str) -> RefusedError:
        """Return the error for an environment that is open for writing."""
        return RefusedError(
            f"{self.path}: {holders} has the environment open for writing; {self._instead}. "
            f"`je-tools lock {quoted(str(self.home))}` shows who holds the lock"
        )


def check_new_files(home: Path, like: os.stat_result) -> None:
    """Make sure that new files can have the owner of the existing ones.

    Args:
        home: folder in which a trial file is created and removed.
        like: status of a file of the environment.

    Raises:
        RefusedError: they would have another owner, which can keep the engine from starting.
        OSError: no file can be created at all.
    """
    if not can_be_like(home, like):
        raise RefusedError(
            f"{home}: its files belong to user {like.st_uid}, but new ones would not: run the "
            "command as that user"
        )


def _log_file_stat(home: Path) -> os.stat_result:
    """Return the status of a log file, whose owner, group and mode a new file gets.

    A link without a target or a directory may have the name of a log file.
    """
    with os.scandir(home) as entries:
        found = sorted(home / each.name for each in entries if each.name.endswith(".jdb"))
    found = found or sorted(home.glob("data[0-9][0-9][0-9]/*.jdb"))
    for path in reversed(found):
        with suppress(OSError):
            like = path.stat()
            if stat.S_ISREG(like.st_mode):
                return like
    raise NoLogError(f"{home}: the directory has no .jdb files", home)


def _flock(kind: int, start: int) -> bytes:
    return _FLOCK.pack(kind, os.SEEK_SET, start, 1, 0)


class _Conflict(Struct, frozen=True):
    """A conflicting lock.

    Attributes:
        is_exclusive: True for a write lock.
        pid: id of the process that holds it; None if the system does not report it.
    """

    is_exclusive: bool
    pid: int | None


def _conflict(number: int, start: int) -> _Conflict | None:
    """Return a lock that conflicts with a write lock on a byte; None if there is none."""
    asked = _flock(fcntl.F_WRLCK, start)
    kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(number, fcntl.F_OFD_GETLK, asked))
    if kind == fcntl.F_UNLCK:
        return None
    return _Conflict(kind == fcntl.F_WRLCK, pid if pid > 0 else None)


def _holders(number: int) -> tuple[Holder, ...]:
    """Return the holders of an open lock file other than this descriptor."""
    conflicts = {start: _conflict(number, start) for start in (_WRITER, _READER)}
    # Listing the locks reads the open files of all processes: 30 us for each.
    listed = set(_listed(number)) if any(conflicts.values()) else set()
    found: set[tuple[LockMode, int | None]] = set()
    for start, conflict in conflicts.items():
        if conflict is None:
            continue
        kinds = {(kind, pid) for kind, pid, at in listed if at == start}
        if not kinds:
            kinds = {(conflict.is_exclusive, conflict.pid)}
        found |= {(_mode(start, is_exclusive), pid) for is_exclusive, pid in kinds}
    ordered = sorted(found, key=lambda each: (list(LockMode).index(each[0]), each[1] or 0))
    return tuple(Holder(mode, pid, _command(pid)) for mode, pid in ordered)


def _mode(start: int, is_exclusive: bool) -> LockMode:
    if start == _WRITER:
        return LockMode.READ_WRITE
    return LockMode.NO_READERS if is_exclusive else LockMode.READ_ONLY


_LOCK = re.compile(
    r"\d+: (?P<kind>POSIX|OFDLCK) +\S+ +(?P<mode>READ|WRITE) +(?P<pid>-?\d+) "
    r"(?P<file>[0-9a-f]+:[0-9a-f]+:\d+) (?P<start>\d+) (?P<stop>\d+|EOF)"
)
"""A lock in /proc/locks or fdinfo; the line of a waiting process has `->` and does not match."""


def _listed(number: int) -> Iterator[tuple[bool, int | None, int]]:
    """Yield the locks on a file in /proc/locks: True if exclusive, pid, byte.

    A lock of an open file description has no pid there, so the fdinfo of all processes is searched.
    """
    info = os.fstat(number)
    file = f"{os.major(info.st_dev):02x}:{os.minor(info.st_dev):02x}:{info.st_ino}"
    for lock in _locks(Path("/proc/locks")):
        if lock["file"] != file:
            continue
        is_exclusive = lock["mode"] == "WRITE"
        pid = int(lock["pid"])
        pids: list[int | None] = [pid if pid > 0 else None]
        if lock["kind"] == "OFDLCK":
            pids = list(_owners(file, lock["mode"], lock["start"])) or [None]
        for each in pids:
            for byte in (_WRITER, _READER):
                if _covers(lock, byte):
                    yield is_exclusive, each, byte


def _covers(lock: re.Match[str], byte: int) -> bool:
    return int(lock["start"]) <= byte and (lock["stop"] == "EOF" or byte <= int(lock["stop"]))


def _locks(path: Path) -> Iterator[re.Match[str]]:
    with suppress(OSError):
        for line in path.read_text(encoding="ascii", errors="replace").splitlines():
            match = _LOCK.fullmatch(line.removeprefix("lock:").strip())
            if match is not None:
                yield match


def _owners(file: str, mode: str, start: str) -> Iterator[int]:
    """Yield the ids of visible processes that hold such a lock by an open file description."""
    for process in Path("/proc").iterdir():
        if not process.name.isdecimal():
            continue
        with suppress(OSError):
            for info in (process / "fdinfo").iterdir():
                if any(
                    (lock["kind"], lock["file"], lock["mode"], lock["start"])
                    == ("OFDLCK", file, mode, start)
                    for lock in _locks(info)
                ):
                    yield int(process.name)
                    break


def _command(pid: int | None) -> str | None:
    """Return the command line of a process, or its name; None if neither can be read."""
    if pid is None:
        return None
    with suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "backslashreplace")
        if words:
            return printable(" ".join(words.rstrip("\0").split("\0")))
        return printable(Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip())
    return None
