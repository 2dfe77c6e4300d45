"""The files below a directory: every regular file, and the names of everything else.

The directory may lie in an object store, which has no links. Links to files and to data directories
are followed, as the engine follows them. Links to other directories are not followed, since they
may lead anywhere.
"""

from __future__ import annotations

import os
import stat
from enum import StrEnum
from pathlib import Path

from msgspec import Struct, field

from je_tools.errors import InputError, UsageError
from je_tools.formats.files.remote_path import FolderEntry, RemotePath, scandir
from je_tools.log.file_names import is_data_directory_name, is_jdb_name, log_file_no
from je_tools.writing.frames import FOLDER, REMOVED


class SearchedKind(StrEnum):
    """Kind of a file, by its name and place."""

    LOG = "log"
    """A log file, in the home or a data directory."""
    PUT_ASIDE = "put aside"
    """A log file with the suffix `.bad`, `.del` or `.bup`, or in an undo journal."""
    ELSEWHERE = "log elsewhere"
    """A log file in another directory: that of another environment, or a copy."""
    JOURNAL = "undo journal"
    OTHER = "other"


_LOGS = (SearchedKind.LOG, SearchedKind.PUT_ASIDE, SearchedKind.ELSEWHERE)


class FoundFile(Struct, frozen=True):
    """A regular file.

    Attributes:
        path: its path.
        name: its path below the directory, as the file system has it.
        kind: its kind.
        size, mtime_ns, ctime_ns: as they were when it was listed.
        link_count: number of its hard links.
        block_size: bytes that the file system has given it.
        device, inode: its identity.
    """

    path: Path
    name: str
    kind: SearchedKind
    size: int
    mtime_ns: int
    ctime_ns: int
    link_count: int
    block_size: int
    device: int
    inode: int

    @property
    def is_log(self) -> bool:
        """True if it has the name of a log file, in use, put aside or elsewhere."""
        return self.kind in _LOGS


class NotRead(Struct, frozen=True):
    """Something below the directory that is not read.

    Attributes:
        name: its path below the directory.
        reason: what it is, or why it cannot be read.
        may_hold: True if it may hold data.
    """

    name: str
    reason: str
    may_hold: bool


class FileTree(Struct):
    """Files and names below a directory.

    Attributes:
        home: the directory.
        files: regular files, in the order of their names. A file with several links is listed once.
        not_read: everything else that is not a directory.
        names: all names below the directory, and the targets of links.
    """

    home: Path
    files: list[FoundFile] = field(default_factory=list)
    not_read: list[NotRead] = field(default_factory=list)
    names: list[str] = field(default_factory=list)


def list_tree(home: Path) -> FileTree:
    """List everything below a directory.

    A directory that cannot be listed is in `not_read`.

    Raises:
        UsageError: it is a file.
        InputError: it does not exist or cannot be listed.
    """
    try:
        if not stat.S_ISDIR(home.stat().st_mode):
            raise UsageError(
                f"{home}: expected an environment directory, found a file: name the directory "
                "that holds it"
            )
        next(home.iterdir(), None)
    except OSError as error:
        raise InputError(f"{home}: {error.strerror}") from error
    lister = _Lister(FileTree(home))
    lister.add_folder(home, "")
    tree = lister.tree
    tree.files.sort(key=lambda each: each.name)
    tree.not_read.sort(key=lambda each: each.name)
    return tree


class _Lister:
    """Lister of one directory; it visits each directory and each file once."""

    def __init__(self, tree: FileTree) -> None:
        self.tree = tree
        self._seen: set[object] = set()

    def add_folder(self, top: Path, top_name: str) -> None:
        """Add a directory and those below it."""
        waiting = [(top, top_name)]
        while waiting:
            folder, name = waiting.pop()
            try:
                if self._is_known(folder, folder.stat()):
                    continue
                with scandir(folder) as entries:
                    found = sorted(entries, key=lambda each: each.name)
            except OSError as error:
                self._refuse(name, f"a directory that cannot be listed: {error.strerror}")
                continue
            for entry in found:
                below = f"{name}/{entry.name}" if name else entry.name
                self.tree.names.append(below)
                if self._add(folder / entry.name, below, entry):
                    waiting.append((folder / entry.name, below))

    def _add(self, path: Path, name: str, entry: FolderEntry) -> bool:
        """Add a file, or something that is not read; return True for a directory to list."""
        try:
            status = entry.stat(follow_symlinks=False)
            is_link = stat.S_ISLNK(status.st_mode)
            if is_link:
                self.tree.names.append(str(path.readlink()))
                status = path.stat()
        except FileNotFoundError:
            reason = "a link to nothing, or it has just vanished"
            self._refuse(name, reason, may_hold=_has_name_of_log(name))
            return False
        except OSError as error:
            self._refuse(name, f"{error.strerror}")
            return False
        if stat.S_ISDIR(status.st_mode):
            if not is_link or is_data_directory_name(path.name):
                return True
            self._refuse(name, "a link to a directory, which is not followed")
        elif not stat.S_ISREG(status.st_mode):
            is_device = stat.S_ISBLK(status.st_mode) or stat.S_ISCHR(status.st_mode)
            may_hold = is_device or _has_name_of_log(name)
            self._refuse(name, "a pipe, a socket or a device", may_hold=may_hold)
        elif not self._is_known(path, status):
            self.tree.files.append(_found(path, name, status))
        return False

    def _is_known(self, path: Path, status: os.stat_result) -> bool:
        is_remote = isinstance(path, RemotePath)
        identity = path if is_remote else (status.st_dev, status.st_ino)
        if identity in self._seen:
            return True
        self._seen.add(identity)
        return False

    def _refuse(self, name: str, reason: str, *, may_hold: bool = True) -> None:
        self.tree.not_read.append(NotRead(name, reason, may_hold))


def _found(path: Path, name: str, status: os.stat_result) -> FoundFile:
    return FoundFile(
        path=path,
        name=name,
        kind=_kind_of(name),
        size=status.st_size,
        mtime_ns=status.st_mtime_ns,
        ctime_ns=status.st_ctime_ns,
        link_count=status.st_nlink,
        block_size=status.st_blocks * 512,
        device=status.st_dev,
        inode=status.st_ino,
    )


def _kind_of(name: str) -> SearchedKind:
    *folders, last = name.split("/")
    if log_file_no(Path(last.removesuffix(REMOVED))) is None:
        return SearchedKind.JOURNAL if FOLDER in folders else SearchedKind.OTHER
    if not is_jdb_name(last) or FOLDER in folders:
        return SearchedKind.PUT_ASIDE
    is_home = not folders or (len(folders) == 1 and is_data_directory_name(folders[0]))
    return SearchedKind.LOG if is_home else SearchedKind.ELSEWHERE


def _has_name_of_log(name: str) -> bool:
    """Return True if a log file, or a data directory, should be in this place."""
    last = name.rpartition("/")[2]
    return log_file_no(Path(last)) is not None or is_data_directory_name(last)
