"""Finds every environment below some roots: any directory that holds .jdb files.

Whatever keeps a directory from being looked into is told as a problem, and the search goes on.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from je_tools.environment import (
    Environment,
    is_data_directory_name,
    is_jdb_name,
    open_environment,
)
from je_tools.errors import InputError, JeToolsError
from je_tools.plain import clean_text

_OPENERS = 16
"""Threads that open environments: each waits for the file system most of the time."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What could not be read, as a finding will say: `env` is the path."""

    env: str
    reason: str


@dataclass(frozen=True, slots=True)
class Fleet:
    """What was found below the roots.

    Attributes:
        environments: opened, by path.
        names: of the environments in the tables; each has one of its own.
        problems: directories that could not be looked into, environments that could not be opened.
    """

    environments: tuple[Environment, ...]
    names: tuple[str, ...]
    problems: tuple[Problem, ...]

    @property
    def size(self) -> int:
        """Bytes of all log files."""
        return sum(environment.size for environment in self.environments)


def find_fleet(roots: Sequence[Path]) -> Fleet:
    """Find and open every environment below the roots; log files named as roots are one a folder.

    A directory that is reached twice, by links or by roots that overlap, counts once.

    Raises:
        InputError: a root is not there.
    """
    search = _Search()
    for root in roots:
        if not os.path.lexists(root):
            raise InputError(f"{root}: no such file or directory")
    loose: dict[Path, list[Path]] = {}
    for root in roots:
        if root.is_dir():
            search.look_into(root)
        else:
            loose.setdefault(root.parent, []).append(root)
    wanted = [*((path,) for path in search.homes), *map(tuple, loose.values())]
    with ThreadPoolExecutor(_OPENERS) as pool:
        opened = list(pool.map(_open, sorted(wanted)))
    environments = [each for each in opened if isinstance(each, Environment)]
    problems = [each for each in opened if isinstance(each, Problem)]
    names = tuple(_names_apart(environments))
    return Fleet(tuple(environments), names, (*search.problems, *problems))


@dataclass
class _Search:
    """Directories that hold logs, and what could not be looked into."""

    homes: list[Path] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    _seen: set[tuple[int, int]] = field(default_factory=set)

    def look_into(self, root: Path) -> None:
        waiting = [root]
        while waiting:
            folder = waiting.pop()
            try:
                status = folder.stat()
                if (status.st_dev, status.st_ino) in self._seen:
                    continue
                self._seen.add((status.st_dev, status.st_ino))
                waiting += self._look_at(folder)
            except OSError as error:
                self.problems.append(Problem(clean_text(str(folder)), str(error.strerror)))

    def _look_at(self, folder: Path) -> list[Path]:
        """Take the folder if it holds a log; the folders below it that may hold others."""
        with os.scandir(folder) as entries:
            names = [(entry.name, entry.is_dir()) for entry in entries]
        below = [folder / name for name, is_folder in sorted(names, reverse=True) if is_folder]
        data = [path for path in below if is_data_directory_name(path.name)]
        is_home = any(is_jdb_name(name) for name, is_folder in names if not is_folder)
        if is_home or any(_holds_log(path) for path in data):
            self.homes.append(folder)
            # They are this environment's, not environments of their own.
            return [path for path in below if path not in data]
        return below


def _holds_log(folder: Path) -> bool:
    try:
        return any(is_jdb_name(path.name) for path in folder.iterdir())
    except OSError:
        # It will be told when the environment is opened, or when the folder is looked into.
        return False


def _open(paths: tuple[Path, ...]) -> Environment | Problem:
    try:
        return open_environment(paths)
    except JeToolsError as error:
        name = paths[0] if len(paths) == 1 else paths[0].parent
        return Problem(clean_text(str(name)), clean_text(str(error)))


def _names_apart(environments: list[Environment]) -> Iterator[str]:
    """Names as text; paths that differ only in bytes that are not text must not become one."""
    seen: Counter[str] = Counter()
    for environment in environments:
        name = clean_text(environment.name)
        seen[name] += 1
        yield name if seen[name] == 1 else f"{name} ({seen[name]})"
