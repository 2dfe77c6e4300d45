"""Unfinished outputs: files and directories beside the path that they get when they are complete.

The name of an unfinished output follows from its path, so the next run that writes there finds what
a killed one has left, and removes it. A lock shows whether it is still being written.
"""

from __future__ import annotations

import fcntl
import os
import stat
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from je_tools.output.files.refusals import refusing

FILE_MODE, FOLDER_MODE = 0o600, 0o700
"""Permissions of outputs: they hold records. The umask can take away more."""


def public_mode() -> int:
    """Return the permissions of a file that holds no records: those that the umask leaves."""
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask


def private_file(path: str, flags: int) -> int:
    """Open a file as `open` asks its opener, with FILE_MODE if it is new."""
    return os.open(path, flags, FILE_MODE)


@contextmanager
def unfinished_file(path: Path) -> Iterator[Path]:
    """Yield the path of a new file beside `path`, which is removed at the end if it is left.

    Raises:
        RefusedError: it cannot be made.
    """
    with _beside(path, "f", _make_file) as beside:
        yield beside


@contextmanager
def unfinished_folder(path: Path) -> Iterator[Path]:
    """Yield a new directory beside `path`, which is removed at the end if it is left.

    Raises:
        RefusedError: it cannot be made.
    """
    with _beside(path, "d", _make_folder) as beside:
        yield beside


@contextmanager
def _beside(path: Path, kind: str, make: Callable[[Path], int]) -> Iterator[Path]:
    with refusing(path):
        beside, lock = _made(path, kind, make)
    try:
        yield beside
    finally:
        with suppress(OSError):
            _remove(beside)
        os.close(lock)


def _make_file(beside: Path) -> int:
    return private_file(str(beside), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC)


def _make_folder(beside: Path) -> int:
    beside.mkdir(FOLDER_MODE)
    return os.open(beside, os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC)


def _made(path: Path, kind: str, make: Callable[[Path], int]) -> tuple[Path, int]:
    """Return a new output under the name for `path`, or any other, and a descriptor that locks it.

    Another run may be writing to the same path; the first one to finish gets it.
    """
    beside = _named(path, f"{zlib.crc32(os.fsencode(path.name)):08x}{kind}")
    _remove_abandoned(beside)
    while True:
        with suppress(FileExistsError):
            lock = make(beside)
            with suppress(OSError):  # a file system without locks
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(beside, lock):
                return beside, lock
            # Another run found it between its making and the lock.
            os.close(lock)
        beside = _named(path, os.urandom(8).hex())


def _named(path: Path, text: str) -> Path:
    # Kept short, so that the name is valid on every file system on which that of `path` is.
    return path.with_name(f".je-tools-{text}.part")


def _remove_abandoned(beside: Path) -> None:
    """Remove what a killed run has left, unless it is in use, or somebody else's."""
    try:
        lock = os.open(beside, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return
    with suppress(OSError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(lock).st_uid == os.geteuid() and _is_at(beside, lock):
            _remove(beside)
    os.close(lock)


def _is_at(path: Path, number: int) -> bool:
    """Return True if a path leads to an open file or directory."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return os.path.samestat(found, os.fstat(number))


def _remove(path: Path) -> None:
    try:
        is_folder = stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return
    if is_folder:
        import shutil

        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
