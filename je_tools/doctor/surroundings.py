"""The surroundings of a log: its lock, files put aside, je.properties, and the disk."""

from __future__ import annotations

import pwd
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from je_tools.checkpoint.directories import check_layout
from je_tools.core.properties import read_settings
from je_tools.doctor.facts import Surroundings
from je_tools.errors import InputError, RefusedError
from je_tools.formats.files.remote_path import RemotePath
from je_tools.log.file_names import is_data_directory_name, is_jdb_name, log_file_no
from je_tools.space.usage import FileRole, disk_use
from je_tools.writing.interrupted import check_not_interrupted
from je_tools.writing.journal_folders import journal_numbers
from je_tools.writing.lock import find_holders
from je_tools.writing.redo_folder import is_unfinished
from je_tools.writing.refusing import refusing

if TYPE_CHECKING:
    from je_tools.log.environment import Environment
    from je_tools.writing.lock import Holder

_DEPTH = 3
_FOUND_MAX = 5
"""Depth below a directory, and number of directories with log files that are named."""

_SEEN_MAX = 2_000
"""Maximum number of directories that are listed in the search."""


def examine_surroundings(home: Path, environment: Environment | None) -> Surroundings:
    """Return what lies beside a log, and who uses it; nothing is changed, and no lock taken.

    What cannot be examined is described instead of raising an error. In an object store, the lock,
    the owner and the free space cannot be seen, and undo journals are not read.

    Args:
        home: the directory.
        environment: its log; None if it has none.
    """
    is_remote = isinstance(home, RemotePath)
    holders, lock_problem = ((), None) if is_remote else _lock(home)
    interrupted, undo_count = (None, 0) if is_remote else _journals(home)
    settings = read_settings(home)
    refused = [*settings.refused, *_layout(environment)]
    sizes = {FileRole.ACTIVE: environment.size if environment is not None else 0}
    return Surroundings(
        holders=holders,
        lock_problem=lock_problem,
        put_aside=tuple(sorted(_put_aside(home))),
        is_marked=environment is not None and environment.marker is not None,
        interrupted=interrupted,
        is_erased_in_part=is_unfinished(home),
        undo_count=undo_count,
        refused_settings=tuple(refused),
        settings_problem=settings.unreadable,
        disk=disk_use(home, settings, sizes),
        logs_below=() if environment is not None else tuple(logs_below(home)),
        owner=None if is_remote else _owner(home),
    )


def _lock(home: Path) -> tuple[tuple[Holder, ...], str | None]:
    """Return who holds the lock, or the reason why that is unknown."""
    try:
        return find_holders(home), None
    except InputError as error:
        return (), str(error)


def _journals(home: Path) -> tuple[str | None, int]:
    """Return the description of an interrupted operation, and the number of undo journals."""
    count = 0
    try:
        count = len(journal_numbers(home))
        with refusing():
            check_not_interrupted(home)
    except (RefusedError, OSError) as error:
        return str(error).removeprefix(f"{home}: "), count
    return None, count


def _layout(environment: Environment | None) -> Iterator[str]:
    """Yield the reason why the engine would not find the files in their directories."""
    if environment is None:
        return
    with suppress(OSError):
        try:
            check_layout(environment)
        except RefusedError as error:
            yield str(error).removeprefix(f"{environment.name}: ")


def _put_aside(home: Path) -> Iterator[str]:
    """Yield the names of log files that are put aside, in the home and its data directories."""
    with suppress(OSError):
        for path in sorted(home.iterdir()):
            name = path.name
            if log_file_no(path) is not None and not is_jdb_name(name):
                yield name
            elif is_data_directory_name(name) and path.is_dir():
                yield from (f"{name}/{below}" for below in _put_aside(path))


def logs_below(home: Path) -> list[str]:
    """Return directories below this one that hold log files, the nearest first."""
    found: list[str] = []
    level, seen = [home], 0
    for _ in range(_DEPTH):
        below: list[Path] = []
        for folder in level:
            with suppress(OSError):
                below += sorted(path for path in folder.iterdir() if _is_folder(path))
        for folder in below:
            seen += 1
            if seen > _SEEN_MAX or len(found) == _FOUND_MAX:
                return found
            with suppress(OSError):
                if any(is_jdb_name(path.name) for path in folder.iterdir()):
                    found.append(str(folder))
        level = [folder for folder in below if str(folder) not in found]
    return found


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink() and not path.name.startswith(".")


def _owner(home: Path) -> str | None:
    try:
        number = home.stat().st_uid
    except OSError:
        return None
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)
