"""Folders of undo journals, and the log files that were moved there."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from je_tools.errors import RefusedError
from je_tools.log.file_names import is_data_directory_name
from je_tools.writing.frames import (
    FOLDER,
    REMOVED,
)

if TYPE_CHECKING:
    from je_tools.writing.disk import Disk

FILE_NAME = "journal"
BEGUN = ".new"
_DROPPED = ".dropped"
_NAME = re.compile(r"([0-9]{6,})(\.new|\.dropped)?")


def make_folder(disk: Disk, folder: Path) -> None:
    """Create the folder of a journal, and the folder around it, if they do not exist."""
    like = folder.parent.parent.stat()
    for each in (folder.parent, folder):
        if not each.is_dir():
            disk.mkdir(each, like)
        disk.sync_folder(each.parent)


def clear_begun(home: Path, disk: Disk) -> None:
    """Remove journals whose creation was interrupted, before any change of the log.

    Raises:
        OSError: one cannot be removed.
        RefusedError: as `journal_numbers`.
    """
    outer = home / FOLDER
    for name in listed_folders(home):
        if name.endswith(BEGUN):
            remove_folder(outer / name, disk)
    if outer.is_dir() and not names_in(outer):
        disk.rmdir(outer)
        disk.sync_folder(home)


def remove_folder(folder: Path, disk: Disk) -> None:
    """Remove the files in a folder, and the folder if it has no subfolders.

    Raises:
        OSError: it cannot be removed.
    """
    if folder.is_symlink() or not folder.is_dir():
        return
    for path in sorted(folder.iterdir()):
        if path.is_symlink() or not path.is_dir():
            disk.unlink(path)
    if not names_in(folder):
        disk.rmdir(folder)
    disk.sync_folder(folder.parent)


def log_folders(home: Path) -> list[Path]:
    """Return the home of an environment and its data directories."""
    below = (path for path in home.iterdir() if is_data_directory_name(path.name))
    return [home, *sorted(path for path in below if path.is_dir())]


def has_folder(home: Path) -> bool:
    """Return True if an environment has a folder of journals, even an empty one."""
    return any(os.path.lexists(folder / FOLDER) for folder in log_folders(home))


def journal_folder(home: Path, number: int) -> Path:
    """Return the folder of a journal.

    Args:
        home: home of the environment; or a data directory, for the folder of the files that were
            taken from there.
        number: number of the journal.
    """
    return home / FOLDER / f"{number:06d}"


def journal_numbers(home: Path) -> list[int]:
    """Return the numbers of the journals of an environment, in order.

    They include lost journals, of which only files in data directories are left.

    Raises:
        RefusedError: something other than a folder, such as a link, has the name of a journal.
    """
    names = listed_folders(home)
    found = {number for name, number in names.items() if name.isdecimal()}
    dropped = {number for name, number in names.items() if name.endswith(_DROPPED)}
    for folder in log_folders(home)[1:]:
        for name, number in listed_folders(folder).items():
            if name.isdecimal() and number not in dropped and names_in(folder / FOLDER / name):
                found.add(number)
    return sorted(found)


def taken_numbers(home: Path) -> list[int]:
    """Return the numbers that no new journal may have, since folders with them exist."""
    return [number for folder in log_folders(home) for number in listed_folders(folder).values()]


def check_folders(home: Path) -> None:
    """Make sure that everything with the name of a journal's folder is a folder.

    Raises:
        RefusedError: as `journal_numbers`.
    """
    for folder in log_folders(home):
        listed_folders(folder)


def dropped_numbers(home: Path) -> list[int]:
    """Return the numbers of journals whose removal has begun.

    Raises:
        RefusedError: as `journal_numbers`.
    """
    return [number for name, number in listed_folders(home).items() if name.endswith(_DROPPED)]


def dropped_folder(home: Path, number: int) -> Path:
    """Return the path of a journal's folder during its removal."""
    return home / FOLDER / f"{number:06d}{_DROPPED}"


def names_in(folder: Path) -> list[str]:
    """Return the names in a folder, sorted; none if there is no such folder."""
    try:
        return sorted(path.name for path in folder.iterdir())
    except FileNotFoundError:
        return []


def listed_folders(home: Path) -> dict[str, int]:
    """Return the numbers of the journal folders in a home or data directory, by folder name.

    Raises:
        RefusedError: one is no folder, so that changes in it would happen elsewhere.
    """
    outer = home / FOLDER
    found = {}
    for name in names_in(real_folder(outer)):
        match = _NAME.fullmatch(name)
        # Accept a number only in the form that `journal_folder` gives it.
        if match is not None and match[1] == f"{int(match[1]):06d}":
            real_folder(outer / name)
            found[name] = int(match[1])
    return found


def real_folder(path: Path, purpose: str = "undo journals") -> Path:
    """Return a path after checking that it is a folder or does not exist.

    Args:
        path: the path.
        purpose: what the folder is for, in words.

    Raises:
        RefusedError: it is a link, or no folder.
    """
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        what = "a symbolic link" if path.is_symlink() else "something else"
        raise RefusedError(
            f"{path}: expected a folder for {purpose}, found {what}; move it away, or put the "
            "folder itself there"
        )
    return path


def removed_path(path: Path, number: int) -> Path:
    """Return the path to which a log file is moved when it is taken out of the log.

    It lies below the folder of the file, so that a rename copies nothing.
    """
    return journal_folder(path.parent, number) / f"{path.name}{REMOVED}"


def place_of(removed: Path) -> Path:
    """Return the original path of a file at `removed_path`."""
    return removed.parent.parent.parent / removed.name.removesuffix(REMOVED)


def removed_files(home: Path, number: int) -> list[Path]:
    """Return the files beside a journal: those that were taken out of the log."""
    return [
        folder / name
        for folder in (journal_folder(each, number) for each in log_folders(home))
        for name in names_in(folder)
        if folder / name != journal_folder(home, number) / FILE_NAME
    ]
