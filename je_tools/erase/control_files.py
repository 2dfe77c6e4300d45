"""Control files of a running erasure: which file it works on, and which files it must leave.

They are empty files in a folder of the environment, which the engine ignores: `NAME.working` and
`NAME.protected`. A running erasure checks them before each batch. It keeps `NAME.working` locked by
flock, which the system releases when the process ends. The unlocked `NAME.working` of a dead
erasure keeps no backup waiting, but it names a file whose bytes may not be on the disk.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from je_tools.errors import RefusedError, UsageError
from je_tools.log.file_names import is_jdb_name
from je_tools.writing.journal_folders import real_folder
from je_tools.writing.redo_folder import FOLDER
from je_tools.writing.refusing import refusing

if TYPE_CHECKING:
    from je_tools.log.log_files import LogFile
    from je_tools.writing.disk import Disk

_PROTECTED, _WORKING = ".protected", ".working"
_POLL_S = 0.05
_LOCK_S = 5.0


def protected_names(home: Path) -> frozenset[str]:
    """Return the names of the files that an erasure leaves as they are.

    Raises:
        RefusedError: the folder cannot be read.
    """
    return _names(home, _PROTECTED)


def working_names(home: Path) -> frozenset[str]:
    """Return the name of the file that an erasure works on, as a set of at most one name.

    Raises:
        RefusedError: the folder cannot be read.
    """
    return frozenset(name for name in _names(home, _WORKING) if _is_locked(home, name))


def interrupted_names(home: Path) -> frozenset[str]:
    """Return the files on which erasures worked when they died or failed.

    After a failed fsync, reads return the written bytes although the disk may not have them. So the
    erased entries of these files have to be overwritten once more.

    Raises:
        RefusedError: the folder cannot be read.
    """
    return _names(home, _WORKING) - working_names(home)


def protect_files(home: Path, names: Collection[str], disk: Disk) -> None:
    """Protect files from erasures, durably.

    Raises:
        UsageError: a name is not that of a log file.
        RefusedError: a control file cannot be written.
    """
    for name in names:
        if not is_jdb_name(name):
            raise UsageError(f"{name}: expected the name of a log file, such as 0000001f.jdb")
    for name in names:
        _create(home, name + _PROTECTED, disk)
    with refusing():
        disk.sync_folder(_folder(home))


def release_files(home: Path, names: Collection[str], disk: Disk) -> None:
    """End the protection of files from erasures.

    Raises:
        UsageError: one of them is not protected.
        RefusedError: a control file cannot be removed.
    """
    others = set(names) - protected_names(home)
    if others:
        raise UsageError(f"{min(others)}: the file is not protected")
    for name in names:
        _remove(home, name + _PROTECTED, disk)


def wait_until_left(
    home: Path, names: Collection[str], is_running: Callable[[], bool], seconds: float
) -> None:
    """Wait until no erasure works on one of some files.

    Args:
        home: directory of the environment.
        names: names of the files.
        is_running: returns True while a process holds the lock of the environment.
        seconds: longest time to wait.

    Raises:
        RefusedError: the time is over.
    """
    until = time.monotonic() + seconds
    while is_running() and (left := working_names(home) & set(names)):
        if time.monotonic() > until:
            raise RefusedError(
                f"{home}: an erasure still works on {min(left)} after {seconds:g} s; do not copy "
                "that file yet"
            )
        time.sleep(_POLL_S)


class ErasureControl:
    """The control files of an erasure that runs, while its environment is locked."""

    def __init__(self, home: Path, disk: Disk) -> None:
        self._home = home
        self._disk = disk
        self._working: str | None = None
        self._number = -1

    def __enter__(self) -> ErasureControl:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Remove the control file; after an error, keep it and only release its lock."""
        if kind is None:
            self.end()
        elif self._working is not None:
            os.close(self._number)
            self._working = None

    def clear(self, left: Iterable[str]) -> None:
        """Remove the control files of dead erasures whose files are done.

        Args:
            left: names of the files that are not done.

        Raises:
            RefusedError: a control file cannot be read or removed.
        """
        for name in interrupted_names(self._home).difference(left):
            _remove(self._home, name + _WORKING, self._disk)

    def is_protected(self, file: LogFile) -> bool:
        """Return True if a file must stay as it is; else note that the erasure works on it.

        Raises:
            RefusedError: the control files cannot be read or written.
        """
        name = file.path.name
        # Begin before the check: a command that protects the file later waits for the work to end.
        if self._working != name:
            self.end()
            self._begin(name)
        if (_folder(self._home) / (name + _PROTECTED)).exists():
            self.end()
            return True
        return False

    def end(self) -> None:
        """Note that the erasure works on no file.

        Raises:
            RefusedError: a control file cannot be removed.
        """
        if self._working is not None:
            _remove(self._home, self._working + _WORKING, self._disk)
            os.close(self._number)
            self._working = None

    def _begin(self, name: str) -> None:
        _create(self._home, name + _WORKING, self._disk)
        with refusing():
            self._number = os.open(_folder(self._home) / (name + _WORKING), _FOR_LOCK)
            self._working = name
        _lock(self._number, name)


_FOR_LOCK = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW


def _lock(number: int, name: str) -> None:
    """Lock a control file, which other programs lock for a moment to check it.

    Raises:
        RefusedError: another program keeps it locked.
    """
    until = time.monotonic() + _LOCK_S
    while True:
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                raise RefusedError(f"{name}{_WORKING}: another program has locked it") from None
            time.sleep(_POLL_S)
        except OSError:
            # The file system has no locks. Then other programs treat the file as locked.
            return
        else:
            return


def _is_locked(home: Path, name: str) -> bool:
    """Return True if a running erasure has locked the control file of a log file."""
    with refusing():
        try:
            number = os.open(_folder(home) / (name + _WORKING), _FOR_LOCK)
        except FileNotFoundError:
            return False
        except OSError as error:
            if error.errno == errno.ELOOP:
                return False
            raise
        try:
            fcntl.flock(number, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(number)
    return False


def _folder(home: Path) -> Path:
    """Return the folder of control files.

    Raises:
        RefusedError: something else has its name, such as a symbolic link.
    """
    return real_folder(home / FOLDER, "erasures")


def _names(home: Path, suffix: str) -> frozenset[str]:
    with refusing():
        try:
            found = [path.name for path in _folder(home).iterdir() if not path.is_dir()]
        except FileNotFoundError:
            return frozenset()
    return frozenset(
        name.removesuffix(suffix)
        for name in found
        if name.endswith(suffix) and is_jdb_name(name.removesuffix(suffix))
    )


def _create(home: Path, name: str, disk: Disk) -> None:
    """Create a control file, unless it exists."""
    folder = _folder(home)
    with refusing(), disk:
        if not folder.is_dir():
            disk.mkdir(folder, home.stat())
        with suppress(FileExistsError):
            disk.create(folder / name, next(home.glob("*.jdb"), home).stat())


def _remove(home: Path, name: str, disk: Disk) -> None:
    """Remove a control file, and the folder if it was the last."""
    folder = _folder(home)
    with refusing(), suppress(FileNotFoundError):
        disk.unlink(folder / name)
    with suppress(OSError):
        disk.rmdir(folder)
