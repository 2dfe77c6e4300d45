"""Search for environments below some roots: all directories that hold .jdb files.

A directory that cannot be searched is reported as a problem, and the search goes on.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from heapq import heappop, heappush
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from je_tools.audit.reasons import why_unread
from je_tools.core.escaping import clean_text
from je_tools.errors import InputError
from je_tools.log.environment import Environment
from je_tools.log.file_names import is_data_directory_name, is_jdb_name
from je_tools.log.opening import open_environment
from je_tools.pages.shown import distinct

_OPENERS = 16
"""Number of threads that open environments; each mostly waits for the file system."""


class UnreadPath(Struct, frozen=True):
    """A path that could not be read, for a finding: `env` is the path."""

    env: str
    reason: str


class Fleet(Struct, frozen=True):
    """Environments found below the roots.

    Attributes:
        environments: sorted by path, and opened under their absolute paths.
        names: unique names of the environments in the tables.
        problems: directories that could not be searched, environments that could not be opened.
    """

    environments: tuple[Environment, ...]
    names: tuple[str, ...]
    problems: tuple[UnreadPath, ...]


def find_fleet(roots: Sequence[Path]) -> Fleet:
    """Find and open every environment below the roots; log files given as roots form one a folder.

    A directory that is reached twice, by links or by roots that overlap, counts once, under its
    shortest name.

    Raises:
        InputError: a root does not exist.
    """
    search = _RootSearch()
    for root in roots:
        if not os.path.lexists(root):
            raise InputError(f"{root}: there is no such file or directory")
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
        else:
            loose.setdefault(root.parent, {})[root] = None
    search.run()
    wanted = sorted([*((path,) for path in search.homes), *map(tuple, loose.values())])
    with ThreadPoolExecutor(_OPENERS) as pool:
        opened = list(zip(wanted, pool.map(_open, wanted), strict=True))
    found = [(paths, each) for paths, each in opened if isinstance(each, Environment)]
    problems = [*search.problems, *(each for _, each in opened if isinstance(each, UnreadPath))]
    shown = [*(_name_of(paths) for paths, _ in found), *(each.env for each in problems)]
    names = tuple(distinct(map(clean_text, shown), " ({})"))
    of_problems = zip(problems, names[len(found) :], strict=True)
    return Fleet(
        tuple(environment for _, environment in found),
        names[: len(found)],
        tuple(replace(problem, env=name) for problem, name in of_problems),
    )


class _RootSearch(Struct):
    """Search for directories that hold logs.

    Directories with fewer parts in their path come first, then those with fewer links in it. So a
    place with several names gets the shortest one.
    """

    homes: list[Path] = field(default_factory=list)
    problems: list[UnreadPath] = field(default_factory=list)
    _seen: set[tuple[int, int]] = field(default_factory=set)
    _waiting: list[tuple[int, int, str]] = field(default_factory=list)

    def add(self, root: Path) -> None:
        """Add a directory to search."""
        heappush(self._waiting, (len(root.parts), 0, str(root)))

    def run(self) -> None:
        """Search all directories and everything below them."""
        while self._waiting:
            part_count, link_count, name = heappop(self._waiting)
            folder = Path(name)
            try:
                status = folder.stat()
                if (status.st_dev, status.st_ino) in self._seen:
                    continue
                self._seen.add((status.st_dev, status.st_ino))
                for below, is_link in self._look_at(folder):
                    place = (part_count + 1, link_count + is_link, str(below))
                    heappush(self._waiting, place)
            except OSError as error:
                self.add_problem(folder, error)

    def add_problem(self, path: Path, error: OSError) -> None:
        self.problems.append(UnreadPath(str(path), str(error.strerror)))

    def _look_at(self, folder: Path) -> list[tuple[Path, bool]]:
        """Record the folder if it holds a log; return the folders below that may hold others.

        Each comes with True if it is a link.
        """
        with os.scandir(folder) as entries:
            names = [(entry.name, _is_folder(entry), _is_link(entry)) for entry in entries]
        below = [(folder / name, is_link) for name, is_folder, is_link in names if is_folder]
        data = [path for path, _ in below if is_data_directory_name(path.name)]
        is_home = any(is_jdb_name(name) for name, is_folder, _ in names if not is_folder)
        if is_home or any(_holds_log(path) for path in data):
            self.homes.append(folder)
            # Data directories are this environment's, not environments of their own.
            return [each for each in below if each[0] not in data]
        return below


def _holds_log(folder: Path) -> bool:
    try:
        return any(is_jdb_name(path.name) for path in folder.iterdir())
    except OSError:
        # The error is reported when the environment is opened or the folder is searched.
        return False


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Return True for a folder, or if the type is unknown: then the search reports why."""
    try:
        return entry.is_dir()
    except OSError as error:
        return error.errno != errno.ELOOP


def _is_link(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_symlink()
    except OSError:
        return False


def _open(paths: tuple[Path, ...]) -> Environment | UnreadPath:
    try:
        # Executors have working directories of their own.
        return open_environment([path.absolute() for path in paths], keep_going=True)
    except OSError as error:
        return UnreadPath(_name_of(paths), str(error.strerror))
    except Exception as error:
        return UnreadPath(_name_of(paths), why_unread(error))


def _name_of(paths: tuple[Path, ...]) -> str:
    return str(paths[0] if len(paths) == 1 else paths[0].parent)
