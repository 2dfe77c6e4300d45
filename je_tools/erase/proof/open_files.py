"""Deleted files that a process still has open: their bytes stay until it closes them.

Source: proc_pid_fd(5).
"""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import Struct

_PROC = Path("/proc")
_MARK = " (deleted)"


class DeletedFiles(Struct):
    """Deleted files below a directory that are still open.

    Attributes:
        open_files: process id and size of each.
        unseen_count: processes whose files this user may not see.
    """

    open_files: list[tuple[int, int]]
    unseen_count: int


def deleted_files(home: Path) -> DeletedFiles:
    """Return the deleted files below a directory that some process has open."""
    found = DeletedFiles([], 0)
    below = f"{home.resolve()}/"
    try:
        numbers = sorted(int(each.name) for each in _PROC.iterdir() if each.name.isdecimal())
    except OSError:
        return DeletedFiles([], 1)
    for number in numbers:
        # A busy host has 10,000s of open files, and paths of pathlib take twice the time of texts.
        folder = f"{_PROC}/{number}/fd/"
        try:
            links = os.listdir(folder)  # noqa: PTH208
        except FileNotFoundError:
            continue
        except OSError:
            found.unseen_count += 1
            continue
        for link in links:
            try:
                target = os.readlink(folder + link)  # noqa: PTH115
                if target.startswith(below) and target.endswith(_MARK):
                    found.open_files.append((number, Path(folder, link).stat().st_size))
            except OSError:
                continue
    return found
