"""Checks that the files of a log are regular files with no other name."""

from __future__ import annotations

from pathlib import Path
from stat import S_ISLNK, S_ISREG

from je_tools.errors import RefusedError
from je_tools.log.file_names import is_jdb_name
from je_tools.writing.journal_folders import log_folders


def check_own_file(path: Path, instead: str = "") -> None:
    """Make sure that a file to be changed in place is a regular file without another hard link.

    Args:
        path: path of the file.
        instead: advice for the user, besides making a copy of the file.

    Raises:
        RefusedError: it is a link or no regular file, or has another hard link.
        OSError: there is no such file.
    """
    check_no_link(path, instead)
    if path.lstat().st_nlink > 1:
        raise RefusedError(
            f"{path}: the file has another hard link, as in a backup of hard links, which would "
            f"change with it; {instead}first replace the file with a copy of itself (cp -p "
            "and mv)"
        )


def check_no_link(path: Path, instead: str = "") -> None:
    """Make sure that a path is a regular file, not a symbolic link.

    Args:
        path: path of the file.
        instead: as for `check_own_file`.

    Raises:
        RefusedError: it is a link, or no regular file.
        OSError: there is no such file.
    """
    mode = path.lstat().st_mode
    if S_ISLNK(mode):
        raise RefusedError(
            f"{path}: expected a regular file, found a symbolic link, whose target would be "
            f"changed or lost; {instead}run the command on the directory of the target"
        )
    if not S_ISREG(mode):
        raise RefusedError(f"{path}: expected a regular file, found something else")


def log_paths(home: Path) -> list[Path]:
    """Return the paths of all log files in a home and its data directories.

    Raises:
        RefusedError: a path with the name of a log file is no file.
    """
    paths = [
        path
        for folder in log_folders(home)
        for path in sorted(folder.iterdir())
        if is_jdb_name(path.name)
    ]
    for path in paths:
        if not path.is_file():
            what = "leads nowhere" if path.is_symlink() else "is not a file"
            raise RefusedError(
                f"{path}: expected a log file, but the path {what}: the engine does not open a "
                "log with such a path; move it away"
            )
    return paths
