"""A writable copy of an environment.

If the file system supports it, each file of the copy shares its bytes with the original until
either is written to. It is never a link to the original.

Source: ioctl_ficlone(2), copy_file_range(2).
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from je_tools.core.properties import FILE_NAME
from je_tools.errors import InputError, StoppedError
from je_tools.log.sources import reopened
from je_tools.output.files.outputs import PartPath, fsync_file, open_directory, open_part

if TYPE_CHECKING:
    from je_tools.core.pace import Pace
    from je_tools.log.environment import Environment

_FICLONE = 0x40049409
_PIECE = 16 << 20


@contextmanager
def copied(
    environment: Environment,
    target: Path,
    progress: Callable[[int], None] | None = None,
    pace: Pace | None = None,
) -> Iterator[Path]:
    """Copy the log files and je.properties, each up to its size when it was opened.

    Yields the folder of the copy. It is renamed to `target` when the body ends, and removed if the
    body fails. Files get the mode of the originals and, if that is allowed, their owner.

    Args:
        environment: a whole environment.
        target: path of the copy, which does not exist.
        progress: called with the number of bytes copied since the last call.
        pace: limit of bytes per second; None for none.

    Raises:
        RefusedError: `target` exists, lies inside the environment, or cannot be written.
        StoppedError: a file became shorter or vanished meanwhile.
        InputError: a file cannot be read.
    """
    home = Path(environment.name)
    with open_directory(target, environment) as folder:
        for name in environment.folders:
            (folder / name).mkdir()
            _copy_mode_and_owner(folder / name, (home / name).stat())
        for file in environment.files:
            name = str(file.path.relative_to(home))
            part = PartPath(folder / name, target / name)
            _copy(file.path, part, file.size, progress, pace)
        properties = home / FILE_NAME
        if properties.is_file():
            size = properties.stat().st_size
            _copy(properties, PartPath(folder / FILE_NAME, target / FILE_NAME), size, None, pace)
        _copy_mode_and_owner(folder, home.stat())
        yield folder
        for each in (folder, *(folder / name for name in environment.folders)):
            _fsync_names(each)


def _copy(
    path: Path,
    target: PartPath,
    size: int,
    progress: Callable[[int], None] | None,
    pace: Pace | None,
) -> None:
    with reopened(path, size), path.open("rb") as source, open_part(target) as out:
        _fill(source.fileno(), out, size, path, progress, pace)
    fsync_file(target)
    info = path.stat()
    _copy_mode_and_owner(target.written, info)
    os.utime(target.written, ns=(info.st_atime_ns, info.st_mtime_ns))


def _fill(
    source: int,
    out: BinaryIO,
    size: int,
    path: Path,
    progress: Callable[[int], None] | None,
    pace: Pace | None,
) -> None:
    """Copy the first `size` bytes of a file.

    Raises:
        StoppedError: the file is shorter.
        InputError: the file cannot be read.
        RefusedError: the copy cannot be written.
    """
    target, at = out.fileno(), 0
    with suppress(OSError):
        fcntl.ioctl(target, _FICLONE, source)
        at = min(os.fstat(target).st_size, size)
        os.ftruncate(target, size)
    most = _PIECE if pace is None else min(_PIECE, pace.range_size)
    while at < size:
        if pace is not None:
            pace.wait(min(most, size - at))
        done = _copy_range(source, out, min(most, size - at), at, path)
        if not done:
            raise StoppedError(
                f"{path}: the file became shorter than {size:,} bytes while it was "
                "read: run the command again"
            )
        at += done
        if progress is not None:
            progress(done)


def _copy_range(source: int, out: BinaryIO, size: int, offset: int, path: Path) -> int:
    with suppress(OSError):
        done = os.copy_file_range(source, out.fileno(), size, offset, offset)
        if done:
            return done
    try:
        data = os.pread(source, size, offset)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    out.seek(offset)
    return out.write(data)


def _fsync_names(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _copy_mode_and_owner(path: Path, like: os.stat_result) -> None:
    """Give a file the mode and, if that is allowed, the owner of another."""
    have = path.stat()
    if (have.st_uid, have.st_gid) != (like.st_uid, like.st_gid):
        with suppress(PermissionError):
            os.chown(path, like.st_uid, like.st_gid)
    path.chmod(like.st_mode & 0o7777)
