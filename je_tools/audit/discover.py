"""Search for environments below some roots: directories with .jdb files, and stores of Ignite.

A directory that cannot be searched is reported as a problem, and the search continues. No file is
opened: executors do that. So a store is recognised by the names of its files alone.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Collection, Sequence
from contextlib import suppress
from enum import StrEnum
from heapq import heappop, heappush
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from je_tools.core.escaping import clean_text
from je_tools.core.ordered import map_in_order
from je_tools.errors import InputError
from je_tools.formats.files.remote_path import FolderEntry, RemotePath, lexists, scandir
from je_tools.ignite.store import STORE_FOLDERS, holds_store, store_size
from je_tools.log.file_names import home_of, is_data_directory_name, is_jdb_name
from je_tools.pages.shown import distinct

_LISTERS = 16
"""Number of threads that list directories; each mostly waits for the file system."""


class UnreadPath(Struct, frozen=True):
    """A path that could not be read, for a finding: `env` is the path."""

    env: str
    reason: str


class EnvironmentKind(StrEnum):
    """Kind of an environment, as the tables name it."""

    JE = "je"
    """An environment of Berkeley DB Java Edition."""
    IGNITE = "ignite"
    """A persistent store of Apache Ignite."""


_SOUGHT = {
    EnvironmentKind.JE: (
        ".jdb files",
        "an environment's home, the directory that holds the .jdb files",
    ),
    EnvironmentKind.IGNITE: ("store of Ignite", "the work directory of a node of Ignite"),
}
"""Names in errors: the thing sought, and a thing to name instead."""


class FoundEnvironment(Struct, frozen=True):
    """An environment that was found, and is not yet opened.

    Attributes:
        name: its unique name in the tables.
        paths: absolute path of its home, or of its log files if these were named one by one; of a
            store, the directory that `ignite` takes.
        size: bytes of its log files, of a store also of its pages; files that could not be examined
            count as empty.
        folders: absolute paths of all directories with its files, also those that links lead to.
        kind: what it is.
    """

    name: str
    paths: tuple[Path, ...]
    size: int
    folders: tuple[Path, ...]
    kind: EnvironmentKind = EnvironmentKind.JE

    @property
    def local_places(self) -> list[Path]:
        """Folders and paths on this host."""
        places = (*self.folders, *self.paths)
        return [each for each in places if not isinstance(each, RemotePath)]


class Fleet(Struct, frozen=True):
    """Environments found below the roots.

    Attributes:
        environments: sorted by path.
        problems: directories that could not be searched.
    """

    environments: tuple[FoundEnvironment, ...]
    problems: tuple[UnreadPath, ...]


def find_fleet(
    roots: Sequence[Path], kinds: Collection[EnvironmentKind] = (EnvironmentKind.JE,)
) -> Fleet:
    """Find the environments of some kinds below the roots.

    Roots that are .jdb files form one environment for each folder.
    A directory that is reached twice, by links or by roots that overlap, counts once, under its
    shortest name.

    Raises:
        InputError: a root does not exist, its object store does not say, or nothing is below the
            roots.
    """
    search = _RootSearch(frozenset(kinds))
    for root in roots:
        check_root(root)
    # Each once, in the order given.
    loose: dict[Path, dict[Path, None]] = {}
    for root in roots:
        try:
            is_folder = stat.S_ISDIR(root.stat().st_mode)
        except OSError as error:
            search.add_problem(root, error)
            continue
        if is_folder:
            search.add(root)
        elif EnvironmentKind.JE in search.kinds:
            loose.setdefault(home_of(root), {})[root] = None
    search.run()
    logs = [*((path,) for path in search.homes), *map(tuple, loose.values())]
    stores = [(path,) for path in search.stores]
    wanted = sorted(
        [
            *((paths, EnvironmentKind.JE) for paths in logs),
            *((paths, EnvironmentKind.IGNITE) for paths in stores),
        ]
    )
    if not wanted and not search.problems:
        none, instead = zip(*(_SOUGHT[each] for each in kinds), strict=True)
        raise InputError(
            f"{', '.join(map(str, roots))}: no {' and no '.join(none)} here or below. "
            f"Name {', '.join(instead)}, or one above it"
        )
    return _fleet(wanted, search.problems)


def check_root(root: Path) -> None:
    """Check that there is something at a root.

    Raises:
        InputError: there is nothing, or its object store gives an error, which the text names.
    """
    try:
        exists = lexists(root)
    except OSError as error:
        raise InputError(f"{root}: {error.strerror}") from error
    if not exists:
        raise InputError(f"{root}: there is no such file or directory")


def _fleet(
    wanted: Sequence[tuple[tuple[Path, ...], EnvironmentKind]], problems: list[UnreadPath]
) -> Fleet:
    """Return a fleet of some paths, with names and sizes."""
    listed = list(map_in_order(_sizes_of, wanted, _LISTERS))
    shown = [*(_name_of(paths) for paths, _ in wanted), *(each.env for each in problems)]
    names = list(distinct(map(clean_text, shown), " ({})"))
    of_problems = zip(problems, names[len(wanted) :], strict=True)
    found = zip(names, wanted, listed, strict=False)
    return Fleet(
        tuple(
            # Executors have working directories of their own.
            FoundEnvironment(name, _absolute(paths), size, _absolute(folders), kind)
            for name, (paths, kind), (size, folders) in found
        ),
        tuple(replace(problem, env=name) for problem, name in of_problems),
    )


class _RootSearch(Struct):
    """Search for directories that hold logs, and for those of stores.

    Directories with fewer parts in their path come first, then those with fewer links in it. So a
    place with several names gets the shortest one.
    """

    kinds: frozenset[EnvironmentKind]
    homes: list[Path] = field(default_factory=list)
    stores: list[Path] = field(default_factory=list)
    problems: list[UnreadPath] = field(default_factory=list)
    _seen: set[object] = field(default_factory=set)
    _waiting: list[tuple[int, int, str, Path]] = field(default_factory=list)

    def add(self, root: Path) -> None:
        """Add a directory to search."""
        heappush(self._waiting, (len(root.parts), 0, str(root), root))

    def run(self) -> None:
        """Search all directories and everything below them."""
        while self._waiting:
            part_count, link_count, _, folder = heappop(self._waiting)
            try:
                identity = _identity(folder)
                if identity in self._seen:
                    continue
                self._seen.add(identity)
                for below, is_link in self._look_at(folder):
                    place = (part_count + 1, link_count + is_link, str(below), below)
                    heappush(self._waiting, place)
            except OSError as error:
                self.add_problem(folder, error)
        self._seen.clear()

    def add_problem(self, path: Path, error: OSError) -> None:
        self.problems.append(UnreadPath(str(path), str(error.strerror)))

    def _look_at(self, folder: Path) -> list[tuple[Path, bool]]:
        """Record the folder if it holds a log; return the folders below that may hold others.

        Each comes with True if it is a link.
        """
        # A folder may have very many files: only what is below counts.
        below: list[tuple[Path, bool]] = []
        is_home = False
        with scandir(folder) as entries:
            for entry in entries:
                if _is_folder(entry):
                    below.append((folder / entry.name, _is_link(entry)))
                else:
                    is_home = is_home or is_jdb_name(entry.name)
        if EnvironmentKind.IGNITE in self.kinds and STORE_FOLDERS.intersection(
            path.name for path, _ in below
        ):
            self._look_for_store(folder)
        data = [path for path, _ in below if is_data_directory_name(path.name)]
        if is_home or any(_holds_log(path) for path in data):
            if EnvironmentKind.JE in self.kinds:
                self.homes.append(folder)
            # Data directories are this environment's, not environments of their own.
            return [each for each in below if each[0] not in data]
        return below

    def _look_for_store(self, folder: Path) -> None:
        """Record the folder if it is a store, and not a part of one."""
        if not set(self.stores).isdisjoint(folder.parents) or not holds_store(folder):
            return
        if isinstance(folder, RemotePath):
            reason = "a store of Ignite; copy it to a file system, where such stores are read"
            self.problems.append(UnreadPath(str(folder), reason))
        else:
            self.stores.append(folder)


def _identity(folder: Path) -> object:
    """Return a value that all names of a folder share; in an object store it has one name."""
    if isinstance(folder, RemotePath):
        return folder
    status = folder.stat()
    # One number takes less memory than two in a tuple.
    return status.st_dev << 64 | status.st_ino


def _holds_log(folder: Path) -> bool:
    try:
        return any(is_jdb_name(path.name) for path in folder.iterdir())
    except OSError:
        # The error is reported when the environment is opened or the folder is searched.
        return False


def _is_folder(entry: FolderEntry) -> bool:
    """Return True for a folder, or if the type is unknown: then the search reports why."""
    try:
        return entry.is_dir()
    except OSError as error:
        return error.errno != errno.ELOOP


def _is_link(entry: FolderEntry) -> bool:
    try:
        return entry.is_symlink()
    except OSError:
        return False


def _sizes_of(wanted: tuple[tuple[Path, ...], EnvironmentKind]) -> tuple[int, tuple[Path, ...]]:
    """Return the bytes of the files of an environment, and the directories that hold them."""
    paths, kind = wanted
    return (store_size(paths[0]), paths) if kind is EnvironmentKind.IGNITE else _listed(paths)


def _listed(paths: tuple[Path, ...]) -> tuple[int, tuple[Path, ...]]:
    """Return the bytes of the log files of an environment, and the directories that hold them."""
    links: list[Path] = []
    if len(paths) > 1 or not paths[0].is_dir():
        folders = list(dict.fromkeys(path.parent for path in paths))
        links += (path for path in paths if path.is_symlink())
        size = sum(map(_size, paths))
    else:
        folders, size = [paths[0], *_data_folders(paths[0])], 0
        for folder in folders:
            with suppress(OSError), scandir(folder) as entries:
                for entry in entries:
                    if is_jdb_name(entry.name):
                        size += _size(entry)
                        links += [folder / entry.name] if _is_link(entry) else []
    linked: dict[Path, None] = {}
    for path in links:
        # A link that leads to nothing must not add its folder, such as /, to the environment.
        with suppress(OSError):
            linked[Path(os.path.realpath(path, strict=True)).parent] = None
    return size, (*folders, *linked)


def _absolute(paths: tuple[Path, ...]) -> tuple[Path, ...]:
    return tuple(path.absolute() for path in paths)


def _data_folders(home: Path) -> list[Path]:
    try:
        return [path for path in home.iterdir() if is_data_directory_name(path.name)]
    except OSError:
        return []


def _size(file: Path | FolderEntry) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0


def _name_of(paths: tuple[Path, ...]) -> str:
    return str(paths[0] if len(paths) == 1 else home_of(paths[0]))
