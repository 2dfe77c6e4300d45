"""The only module that changes a disk, so that tests can record, refuse and interrupt changes.

Each method is one step. After a crash the step is done or not begun, but a write may be done in
part, by sectors of 512 bytes. Nothing is durable until `sync` (bytes and size of a file) or
`sync_folder` (names in a folder) returns.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

SECTOR = 512
"""Number of bytes that a device writes as a whole or not at all."""

_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


class Disk:
    """Changes of files and folders.

    A changed file stays open until `close`, since the system reports a failed write to the device
    only to processes that have the file open.
    """

    def __init__(self) -> None:
        self._open: dict[Path, int] = {}

    def __enter__(self) -> Disk:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def create(self, path: Path, like: os.stat_result) -> None:
        """Create an empty file with the owner, group and mode of another.

        If the file system supports it, the file has them before it gets its name, since a file of
        another owner would stop the engine. If it cannot have them, no file is left.

        Raises:
            OSError: it cannot be created; FileExistsError if it exists.
        """
        with _named(path):
            number = _create_with_owner(path, like)
            if number is None:
                if not can_be_like(path.parent, like):
                    raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
                number = os.open(path, _NEW, 0o600)
                _copy_owner_and_mode(number, like)
            self._open[path] = number

    def write(self, path: Path, offset: int, data: bytes | memoryview) -> None:
        """Write bytes at an offset, also past the end."""
        with _named(path):
            number = self._number(path)
            rest = memoryview(data)
            while rest:
                done = os.pwrite(number, rest, offset)
                rest = rest[done:]
                offset += done

    def truncate(self, path: Path, size: int) -> None:
        """Truncate a file."""
        with _named(path):
            os.ftruncate(self._number(path), size)

    def sync(self, path: Path) -> None:
        """Make the bytes and the size of a file durable."""
        with _named(path):
            os.fsync(self._number(path))

    def set_times(self, path: Path, modified_ns: int) -> None:
        """Set the access and modification times of a file."""
        with _named(path):
            os.utime(path, ns=(modified_ns, modified_ns))

    def rename(self, path: Path, target: Path) -> None:
        """Rename a file or folder.

        Raises:
            FileExistsError: the new name exists.
        """
        for each in [path, *(one for one in self._open if one.is_relative_to(path))]:
            self._release(each)
        with _named(path):
            if os.path.lexists(target):
                raise FileExistsError(errno.EEXIST, "exists", str(target))
            path.rename(target)

    def unlink(self, path: Path) -> None:
        """Remove a file."""
        self._release(path)
        with _named(path):
            path.unlink()

    def mkdir(self, path: Path, like: os.stat_result) -> None:
        """Create a folder with the owner, group and mode of another."""
        with _named(path):
            path.mkdir(mode=0o700)
            number = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                _copy_owner_and_mode(number, like)
            except OSError:
                with suppress(OSError):
                    path.rmdir()
                raise
            finally:
                os.close(number)

    def rmdir(self, path: Path) -> None:
        """Remove an empty folder."""
        with _named(path):
            path.rmdir()

    def sync_folder(self, path: Path) -> None:
        """Make the names in a folder durable."""
        with _named(path):
            number = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(number)
            finally:
                os.close(number)

    def close(self) -> None:
        """Close all files."""
        for path in list(self._open):
            self._release(path)

    def _number(self, path: Path) -> int:
        if path not in self._open:
            self._open[path] = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        return self._open[path]

    def _release(self, path: Path) -> None:
        number = self._open.pop(path, None)
        if number is not None:
            with suppress(OSError):
                os.close(number)


def can_be_like(folder: Path, like: os.stat_result) -> bool:
    """Return True if a new file in a folder can have the owner of another; leave no file there.

    Raises:
        OSError: no file can be created there.
    """
    try:
        number = os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError:
        path = folder / f".je-tools-{os.urandom(8).hex()}"
        try:
            number = os.open(path, _NEW, 0o600)
            path.unlink()
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(folder)) from error
    try:
        _copy_owner_and_mode(number, like)
    except PermissionError:
        return False
    finally:
        os.close(number)
    return True


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Convert errors of a descriptor into errors that name the file."""
    try:
        yield
    except OSError as error:
        if error.filename is not None and not str(error.filename).startswith("/proc/"):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def _create_with_owner(path: Path, like: os.stat_result) -> int | None:
    """Create a file that gets its name once it has its owner.

    Returns:
        Its descriptor; None if the file system or the system's rules do not allow that.

    Raises:
        FileExistsError: the name exists.
    """
    try:
        number = os.open(path.parent, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError:
        return None
    try:
        _copy_owner_and_mode(number, like)
        os.link(f"/proc/self/fd/{number}", path, follow_symlinks=True)
    except FileExistsError:
        os.close(number)
        raise
    except OSError:
        os.close(number)
        return None
    return number


def _copy_owner_and_mode(number: int, like: os.stat_result) -> None:
    """Give a new file or folder the owner, group and mode of another.

    Raises:
        OSError: it cannot have that owner or mode.
    """
    have = os.fstat(number)
    if have.st_uid != like.st_uid:
        os.fchown(number, like.st_uid, like.st_gid)
    elif have.st_gid != like.st_gid:
        # The group may differ, since the engine runs as the owner. Only members can set a group.
        with suppress(PermissionError):
            os.fchown(number, -1, like.st_gid)
    os.fchmod(number, stat.S_IMODE(like.st_mode))
