"""Stamps of files: sizes, identities and times, by which a later change is detected."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.writing.refusing import refusing

if TYPE_CHECKING:
    from je_tools.log.environment import Environment


class FileStamp(Struct, frozen=True):
    """The state of a file, by which a later change is detected.

    Attributes:
        size: size in bytes.
        device, inode: identity of the file.
        modified_ns: modification time, in nanoseconds since 1970.
    """

    size: int
    device: int
    inode: int
    modified_ns: int


def stamp_files(environment: Environment) -> dict[Path, FileStamp]:
    """Return the stamps of the files of a log. Call it before the log is read, with its lock held.

    Raises:
        RefusedError: a file no longer exists.
    """
    with refusing():
        return {file.path: stamp_of(file.path) for file in environment.files}


def stamp_of(path: Path) -> FileStamp:
    """Return the stamp of a file.

    Raises:
        OSError: there is no such file.
    """
    info = path.stat()
    return FileStamp(info.st_size, info.st_dev, info.st_ino, info.st_mtime_ns)
