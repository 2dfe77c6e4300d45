"""Paths of files in object stores and other remote file systems, written as URIs.

A `RemotePath` is a `Path` whose parts are the scheme, the bucket or host, and the names below it.
So the code that reads logs joins, compares, sorts and pickles it like any other path. Requests to
the file system go to `remote_store`. A `RemotePath` has no `os.fspath`: code that would give it to
the operating system fails instead of reading a local file of that name.
"""

from __future__ import annotations

import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PosixPath
from typing import Any, NoReturn, Protocol
from urllib.parse import unquote

from je_tools.formats.files.remote_store import RemoteStatus, listed, status_of
from je_tools.formats.files.uris import (
    URIError,
    credentials_size,
    is_chain,
    masked_uri,
    split_uri,
)

_LOCAL_SCHEMES = frozenset({"file", "local"})
_DEFAULT_HOSTS = {"hdfs": "default", "memory": "root"}
"""Host for a URI without one: a name that libhdfs knows, or a folder of the file system in
memory."""


class RemotePath(PosixPath):
    """A place that a URI names; see `located`."""

    def __str__(self) -> str:
        scheme, *names = self.parts or ("",)
        return f"{scheme}//{'/'.join(names)}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __fspath__(self) -> NoReturn:
        raise TypeError(f"{self}: not a path of the operating system")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self.parts

    def __hash__(self) -> int:
        return hash(self.parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemotePath) and self.parts == other.parts

    def absolute(self) -> RemotePath:
        """Return the path itself: a URI is absolute."""
        return self

    def resolve(self, strict: bool = False) -> RemotePath:
        """Return the path itself: stores have no links."""
        return self

    def is_symlink(self) -> bool:
        """Return False: stores have no links."""
        return False

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Return kind, size and time of the file; ask the store for them."""
        return _as_stat(status_of(str(self)))

    def exists(self, *, follow_symlinks: bool = True) -> bool:
        """Return whether there is a file or a folder of this name."""
        try:
            self.stat()
        except FileNotFoundError:
            return False
        return True

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Return whether this is a folder: whether names begin with it and a slash."""
        return self.exists() and stat.S_ISDIR(self.stat().st_mode)

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Return whether this is a file."""
        return self.exists() and stat.S_ISREG(self.stat().st_mode)

    def iterdir(self) -> Iterator[RemotePath]:  # type: ignore[override]
        """Yield the paths in this folder."""
        return (entry.path for entry in self.entries())

    def entries(self) -> list[RemoteEntry]:
        """Return files and folders in this folder; ask the store for them, page by page."""
        return [RemoteEntry(self / name, status) for name, status in listed(str(self))]


class RemoteEntry:
    """A file or folder as its folder lists it, with the methods of `os.DirEntry` used here."""

    def __init__(self, path: RemotePath, status: RemoteStatus) -> None:
        self.path = path
        self._status = status

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.name

    def is_dir(self) -> bool:
        """Return whether it is a folder."""
        return self._status.is_folder

    def is_file(self) -> bool:
        """Return whether it is a file."""
        return not self._status.is_folder

    def is_symlink(self) -> bool:
        """Return False: stores have no links."""
        return False

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Return kind, size and time, as listed."""
        return _as_stat(self._status)


class FolderEntry(Protocol):
    """The part of `os.DirEntry` that searches for logs use."""

    @property
    def name(self) -> str:
        """The last part of the path."""

    def is_dir(self) -> bool:
        """Return whether it is a folder."""

    def is_file(self) -> bool:
        """Return whether it is a file."""

    def is_symlink(self) -> bool:
        """Return whether it is a link."""

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Return kind, size and time; for a link, those of its target."""


def _as_stat(status: RemoteStatus) -> os.stat_result:
    """Return a status as the operating system would; the tag stands for the inode."""
    kind = stat.S_IFDIR if status.is_folder else stat.S_IFREG
    modified = int(status.modified or 0)
    inode = zlib.crc32((status.tag or "").encode())
    numbers = (kind | 0o444, inode, 0, 1, 0, 0, status.size, 0, modified, 0)
    more = {
        "st_mtime_ns": modified * 10**9,
        "st_ctime_ns": 0,
        "st_blocks": -(-status.size // 512),
    }
    return os.stat_result(numbers, more)


@contextmanager
def scandir(folder: Path) -> Iterator[Iterator[FolderEntry]]:
    """Yield the entries of a folder, local or remote, without a request for each."""
    if isinstance(folder, RemotePath):
        yield iter(folder.entries())
    else:
        with os.scandir(folder) as entries:
            yield entries


def lexists(path: Path) -> bool:
    """Return whether there is something at a path, local or remote."""
    return path.exists() if isinstance(path, RemotePath) else os.path.lexists(path)


def located(text: str) -> Path:
    """Return the place that a local path or a URI names.

    A `file:` URI is a local path. Other URIs are not percent-decoded: stores name objects so.

    Raises:
        URIError: the URI has credentials or an option, names a chain of file systems, or no place.
    """
    split = split_uri(text)
    if split is None:
        return Path(text)
    scheme, rest = split
    shown = masked_uri(text)
    host, slash, below = rest.partition("/")
    if credentials_size(scheme.rpartition("::")[2], rest):
        raise URIError(
            f"{shown}: a password or a token in a URI is seen by every user of this host: give it "
            "as the store's own tools take it, in their settings or the environment"
        )
    if is_chain(scheme, rest):
        raise URIError(
            f"{shown}: a chain of file systems is not read: name the URI of the store alone; it is "
            "read in ranges, and needs no cache"
        )
    if "?" in rest:
        raise URIError(
            f"{shown}: a URI with '?' is not read: give options and tokens in the settings of the "
            "store's own tools, and name an object with '?' in its name by its folder"
        )
    if scheme in _LOCAL_SCHEMES:
        return _local(shown, host, slash + below)
    host = host or _DEFAULT_HOSTS.get(scheme, "")
    names = below.rstrip("/").split("/") if below.strip("/") else []
    if not host or any(name in ("", ".", "..") for name in names):
        raise URIError(f"{shown}: expected {scheme}://BUCKET/FOLDER, without empty or dotted parts")
    return RemotePath(f"{scheme}:", host, *names)


def _local(shown: str, host: str, path: str) -> Path:
    if host not in ("", "localhost"):
        raise URIError(f"{shown}: expected file:///PATH: a file URI names a file of this host")
    if not path:
        raise URIError(f"{shown}: expected file:///PATH")
    return Path(unquote(path))
