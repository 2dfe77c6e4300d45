"""Finds every environment below some roots: any directory that holds .jdb files.

Whatever keeps a directory from being looked into is told as a problem, and the search goes on.
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
from je_tools.audit.shown import distinct
from je_tools.environment import (
    Environment,
    is_data_directory_name,
    is_jdb_name,
    open_environment,
)
from je_tools.errors import InputError
from je_tools.plain import clean_text

_OPENERS = 16
"""Threads that open environments: each waits for the file system most of the time."""


class Problem(Struct, frozen=True):
    """What could not be read, as a finding will say: `env` is the path."""

    env: str
    reason: str


class Fleet(Struct, frozen=True):
    """What was found below the roots.

    Attributes:
        environments: by path, opened under their absolute ones.
        names: of the environments in the tables; each has one of its own.
        problems: directories that could not be looked into, environments that could not be opened.
    """

    environments: tuple[Environment, ...]
    names: tuple[str, ...]
    problems: tuple[Problem, ...]


def find_fleet(roots: Sequence[Path]) -> Fleet:
    """Find and open every environment below the roots; log files named as roots are one a folder.

    A directory that is reached twice, by links or by roots that overlap, counts once, under the
    shortest of its names.

    Raises:
        InputError: a root is not there.
    """
    search = _Search()
    for root in roots:
        if not os.path.lexists(root):
            raise InputError(f"{root}: no such file or directory")
    # Each once, in the order in which they were named.
    loose: dict[Path, dict[Path, None]] = {}
    for root in roots:
        try:
            is_folder = stat.S_ISDIR(root.stat().st_mode)
        except OSError as error:
            search.tell(root, error)
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
    problems = [*search.problems, *(each for _, each in opened if isinstance(each, Problem))]
    spelled = [*(_name_of(paths) for paths, _ in found), *(each.env for each in problems)]
    names = tuple(distinct(map(clean_text, spelled), " ({})"))
    of_problems = zip(problems, names[len(found) :], strict=True)
    return Fleet(
        tuple(environment for _, environment in found),
        names[: len(found)],
        tuple(replace(problem, env=name) for problem, name in of_problems),
    )


class _Search(Struct):
    """Directories that hold logs, and what could not be looked into.

    Those whose names have the fewest parts are looked into first, of these the ones with fewer
    links in them: a place that several names lead to has the shortest one.
    """

    homes: list[Path] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    _seen: set[tuple[int, int]] = field(default_factory=set)
    _waiting: list[tuple[int, int, str]] = field(default_factory=list)

    def add(self, root: Path) -> None:
        """A directory below which is looked."""
        heappush(self._waiting, (len(root.parts), 0, str(root)))

    def run(self) -> None:
        """Look into all, and into what is below."""
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
                self.tell(folder, error)

    def tell(self, path: Path, error: OSError) -> None:
        self.problems.append(Problem(str(path), str(error.strerror)))

    def _look_at(self, folder: Path) -> list[tuple[Path, bool]]:
        """Take the folder if it holds a log; the folders below it that may hold others.

        With each goes whether it is a link.
        """
        with os.scandir(folder) as entries:
            names = [(entry.name, _is_folder(entry), _is_link(entry)) for entry in entries]
        below = [(folder / name, is_link) for name, is_folder, is_link in names if is_folder]
        data = [path for path, _ in below if is_data_directory_name(path.name)]
        is_home = any(is_jdb_name(name) for name, is_folder, _ in names if not is_folder)
        if is_home or any(_holds_log(path) for path in data):
            self.homes.append(folder)
            # They are this environment's, not environments of their own.
            return [each for each in below if each[0] not in data]
        return below


def _holds_log(folder: Path) -> bool:
    try:
        return any(is_jdb_name(path.name) for path in folder.iterdir())
    except OSError:
        # It will be told when the environment is opened, or when the folder is looked into.
        return False


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether a name is a folder's; of what cannot be told, looking into it will tell why."""
    try:
        return entry.is_dir()
    except OSError as error:
        return error.errno != errno.ELOOP


def _is_link(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_symlink()
    except OSError:
        return False


def _open(paths: tuple[Path, ...]) -> Environment | Problem:
    try:
        # Executors have working directories of their own.
        return open_environment([path.absolute() for path in paths], keep_going=True)
    except OSError as error:
        return Problem(_name_of(paths), str(error.strerror))
    except Exception as error:
        return Problem(_name_of(paths), why_unread(error))


def _name_of(paths: tuple[Path, ...]) -> str:
    return str(paths[0] if len(paths) == 1 else paths[0].parent)
