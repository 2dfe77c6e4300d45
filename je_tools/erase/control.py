"""Control of a running erasure: which file it works on, and which files it must leave.

Both are empty files in a folder of the environment, which the engine ignores: `NAME.working` and
`NAME.protected`. A running erasure looks there before each batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from je_tools.errors import RefusedError, UsageError
from je_tools.log.file_names import is_jdb_name
from je_tools.writing.redo_folder import FOLDER
from je_tools.writing.refusing import refusing

if TYPE_CHECKING:
    from je_tools.log.log_files import LogFile
    from je_tools.writing.disk import Disk

_PROTECTED, _WORKING = ".protected", ".working"
_POLL_S = 0.05


def protected_names(home: Path) -> frozenset[str]:
    """Return the names of the files that an erasure leaves as they are.

    Raises:
        RefusedError: the folder cannot be read.
    """
    return _names(home, _PROTECTED)


def working_names(home: Path) -> frozenset[str]:
    """Return the file that an erasure works on, or worked on when it died; as a set of names.

    Raises:
        RefusedError: the folder cannot be read.
    """
    return _names(home, _WORKING)


def protect_files(home: Path, names: Collection[str], disk: Disk) -> None:
    """Add files to those that an erasure leaves as they are. Durable on return.

    Raises:
        UsageError: a name is not that of a log file.
        RefusedError: it cannot be noted.
    """
    for name in names:
        if not is_jdb_name(name):
            raise UsageError(f"{name}: expected the name of a log file, as 0000001f.jdb")
    for name in names:
        _create(home, name + _PROTECTED, disk)
    with refusing():
        disk.sync_folder(home / FOLDER)


def release_files(home: Path, names: Collection[str], disk: Disk) -> None:
    """Remove files from those that an erasure leaves as they are.

    Raises:
        RefusedError: it cannot be noted.
    """
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

    def is_protected(self, file: LogFile) -> bool:
        """Return True if a file must stay as it is; else note that the erasure works on it.

        Raises:
            RefusedError: the control files cannot be read or written.
        """
        name = file.path.name
        # The file is noted first: whoever protects it afterwards waits for its end.
        if self._working != name:
            self.end()
            _create(self._home, name + _WORKING, self._disk)
            self._working = name
        if (self._home / FOLDER / (name + _PROTECTED)).exists():
            self.end()
            return True
        return False

    def end(self) -> None:
        """Note that the erasure works on no file.

        Raises:
            RefusedError: it cannot be noted.
        """
        for name in working_names(self._home):
            _remove(self._home, name + _WORKING, self._disk)
        self._working = None


def _names(home: Path, suffix: str) -> frozenset[str]:
    with refusing():
        try:
            found = [path.name for path in (home / FOLDER).iterdir()]
        except FileNotFoundError:
            return frozenset()
    return frozenset(
        name.removesuffix(suffix)
        for name in found
        if name.endswith(suffix) and is_jdb_name(name.removesuffix(suffix))
    )


def _create(home: Path, name: str, disk: Disk) -> None:
    """Create a control file, unless it exists."""
    folder = home / FOLDER
    with refusing(), disk:
        if not folder.is_dir():
            disk.mkdir(folder, home.stat())
        with suppress(FileExistsError):
            disk.create(folder / name, next(home.glob("*.jdb"), home).stat())


def _remove(home: Path, name: str, disk: Disk) -> None:
    """Remove a control file, and the folder if it was the last."""
    folder = home / FOLDER
    with refusing(), suppress(FileNotFoundError):
        disk.unlink(folder / name)
    with suppress(OSError):
        disk.rmdir(folder)
