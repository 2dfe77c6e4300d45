"""Places of logs: the environments below paths and patterns, and those of them to read."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from je_tools.audit.discover import EnvironmentKind, Fleet, FoundEnvironment, UnreadPath, find_fleet
from je_tools.audit.opening import open_found
from je_tools.errors import InputError, UsageError
from je_tools.formats.files.remote_path import RemotePath, lexists, located
from je_tools.formats.files.uris import URIError
from je_tools.log.file_names import is_jdb_name
from je_tools.spark.damage import SKIP_HINT

if TYPE_CHECKING:
    from je_tools.log.environment import Environment

_OPENERS = 16
"""Number of threads that open environments; each mostly waits for the file system."""


_OTHERS = {
    EnvironmentKind.JE: (
        EnvironmentKind.IGNITE,
        "there are stores of Apache Ignite, which the formats ignitewal and ignitepages read",
    ),
    EnvironmentKind.IGNITE: (
        EnvironmentKind.JE,
        "there are logs of JE, which the formats jelog, jerecords, jefindings and jevlsn read",
    ),
}
"""For each kind of environment, the other kind, and a text on it and the formats that read it."""


def _fleet_of(roots: Sequence[Path], kind: EnvironmentKind) -> Fleet:
    """Find the environments of a kind.

    Raises:
        InputError: there are none; the text names the formats for those of the other kind.
    """
    try:
        return find_fleet(roots, [kind])
    except InputError as error:
        other, what = _OTHERS[kind]
        with suppress(InputError):
            if find_fleet(roots, [other]).environments:
                error.args = (f"{error}; {what}",)
        raise


class Log(Struct, frozen=True):
    """An environment, and its name in the column `env`."""

    env: str
    environment: Environment

    @property
    def size(self) -> int:
        """Total bytes of all files."""
        return self.environment.size


class FoundLogs(Struct, frozen=True):
    """Environments to read, and directories and environments that cannot be opened."""

    logs: tuple[Log, ...]
    problems: tuple[UnreadPath, ...]


class LogPlaces(Struct, frozen=True):
    """Places of logs, as a query names them.

    Attributes:
        names: paths and patterns, as the user wrote them.
        envs: names and patterns of the environments to read; empty for all.
        skips: leave out what cannot be read, instead of failing.
    """

    names: tuple[str, ...]
    envs: tuple[str, ...] = ()
    skips: bool = False

    def roots(self) -> list[Path]:
        """Return the paths that the names stand for.

        Raises:
            UsageError: a name is a URI that names no place.
            InputError: there is no such file or directory, or an object store cannot be read.
        """
        try:
            return [path for name in self.names for path in _expanded(name)]
        except OSError as error:
            raise InputError(f"{error.filename}: {error.strerror}") from error

    def search(self, kind: EnvironmentKind) -> tuple[list[FoundEnvironment], list[UnreadPath]]:
        """Find the environments of a kind, and directories that cannot be searched.

        Their names are the paths below the roots.

        Raises:
            UsageError: no environment has one of the names that were asked for.
            InputError: there is no such directory, or no environment in it.
        """
        fleet = _fleet_of(self.roots(), kind)
        every = fleet.environments
        wanted = [each for each in every if self._is_wanted(each.name)]
        problems = [each for each in fleet.problems if self._is_wanted(each.env)]
        if self.envs and not wanted and not problems:
            raise UsageError(
                f"option env: {', '.join(self.envs)}: none of {len(every)} "
                f"environments, which are {_listed([each.name for each in every])}"
            )
        return wanted, problems

    def open(self) -> FoundLogs:
        """Find and open the environments; see `search`."""
        wanted, problems = self.search(EnvironmentKind.JE)
        with ThreadPoolExecutor(_OPENERS) as pool:
            opened = list(zip(wanted, pool.map(open_found, wanted), strict=True))
        problems += [each for _, each in opened if isinstance(each, UnreadPath)]
        logs = (Log(found.name, e) for found, e in opened if not isinstance(e, UnreadPath))
        return FoundLogs(tuple(logs), tuple(problems))

    def readable(self) -> tuple[Log, ...]:
        """Return the environments to read; see `open`.

        Raises:
            InputError: something cannot be read, and nothing may be left out.
        """
        found = self.open()
        self.check([*found.problems, *_unreadable_files(found.logs)])
        return found.logs

    def check(self, problems: Sequence[UnreadPath], hint: str = SKIP_HINT) -> None:
        """Check that everything can be read, unless it may be left out.

        Args:
            problems: what cannot be read.
            hint: next step.

        Raises:
            InputError: something cannot be read.
        """
        if problems and not self.skips:
            first, count = problems[0], len(problems)
            more = f" (and {count - 1:,} more)" if count > 1 else ""
            raise InputError(f"{_text(first)}{more}. {hint}")

    def _is_wanted(self, env: str) -> bool:
        return not self.envs or any(env == name or fnmatchcase(env, name) for name in self.envs)


def _text(problem: UnreadPath) -> str:
    is_named = problem.reason.startswith(problem.env)
    return problem.reason if is_named else f"{problem.env}: {problem.reason}"


def _listed(names: Sequence[str], most: int = 5) -> str:
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _unreadable_files(logs: Sequence[Log]) -> Iterator[UnreadPath]:
    for log in logs:
        for file in log.environment.unreadable:
            yield UnreadPath(log.env, f"{file.path.name}: {file.reason}")


def _expanded(name: str) -> list[Path]:
    """Return the path of this name, or the directories and log files that match it as a pattern."""
    path = _placed(name)
    if lexists(path):
        return [path]
    if glob.has_magic(str(path)):
        matching: Sequence[Path]
        if isinstance(path, RemotePath):
            matching = _matching_remote(path)
        else:
            matching = _matching_here(str(path))
        found = [each for each in matching if is_jdb_name(each.name) or each.is_dir()]
        if found:
            return found
        raise InputError(f"{name}: no directory and no log file matches")
    raise InputError(f"{path}: no such file or directory")


def _matching_here(pattern: str) -> list[Path]:
    # Path.glob would also match hidden directories, such as the .snapshot of a file server.
    return list(map(Path, sorted(glob.glob(pattern, recursive=True))))  # noqa: PTH207


def _matching_remote(pattern: RemotePath) -> list[RemotePath]:
    """Return what matches in an object store; only folders that match so far are listed."""
    if "**" in pattern.parts:
        raise UsageError(
            f"{pattern}: ** is not matched in an object store; name the folder above it: "
            "everything below a folder is searched"
        )
    found = [RemotePath(*pattern.parts[:2])]
    for part in pattern.parts[2:]:
        if glob.has_magic(part):
            listed = (path for folder in found if folder.is_dir() for path in folder.iterdir())
            found = sorted(path for path in listed if _is_match(path.name, part))
        else:
            found = [each for folder in found if lexists(each := folder / part)]
    return found


def _is_match(name: str, pattern: str) -> bool:
    """Return whether a pattern matches a name; a hidden one only if the pattern says so."""
    is_hidden = name.startswith(".") and not pattern.startswith(".")
    return not is_hidden and fnmatchcase(name, pattern)


def _placed(name: str) -> Path:
    """Return the place of a name, which may be a URI.

    Spark writes the location of a table as a URL without escapes.
    """
    # After two slashes comes a host, whose files are elsewhere.
    if re.match("file:/(?!/[^/])", name):
        plain = re.sub("^file:/+", "/", name)
        return Path(plain if os.path.lexists(plain) else unquote(urlsplit(name).path) or plain)
    try:
        return located(name)
    except URIError as error:
        raise UsageError(str(error)) from None
