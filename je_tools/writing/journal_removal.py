"""Removal of undo journals, which an interruption may leave unfinished."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from je_tools.writing.frames import FOLDER
from je_tools.writing.journal_folders import (
    check_folders,
    clear_begun,
    dropped_folder,
    dropped_numbers,
    journal_folder,
    make_folder,
    remove_folder,
)

if TYPE_CHECKING:
    from je_tools.writing.disk import Disk


def remove_journal(home: Path, number: int, disk: Disk, others: Sequence[Path]) -> None:
    """Rename a journal, then remove it, so that an interruption leaves no partial journal.

    Args:
        home: folder around that of the journals.
        number: number of the journal.
        disk: disk to write to.
        others: data directories, in which files of the journals may lie.
    """
    folder = journal_folder(home, number)
    dropped = dropped_folder(home, number)
    # An earlier removal may have left this folder, if the user restored the journal since.
    remove_folder(dropped, disk)
    if not folder.is_dir():
        # Of a lost journal, only its files in other folders are left.
        make_folder(disk, folder)
    disk.rename(folder, dropped)
    disk.sync_folder(folder.parent)
    clear_journals(home, disk, others)


def clear_journals(home: Path, disk: Disk, others: Sequence[Path]) -> None:
    """Finish interrupted removals of journals, and remove empty folders; see `remove_journal`.

    Raises:
        OSError: a file or folder cannot be removed.
        RefusedError: as `journal_numbers`.
    """
    check_folders(home)
    clear_begun(home, disk)
    folders = [folder for folder in others if (folder / FOLDER).is_dir()]
    for number in dropped_numbers(home):
        if not journal_folder(home, number).exists():
            # The folder that marks the removal as unfinished goes last.
            for folder in folders:
                remove_folder(journal_folder(folder, number), disk)
        remove_folder(dropped_folder(home, number), disk)
    for folder in [home, *folders]:
        if (folder / FOLDER).is_dir() and not any((folder / FOLDER).iterdir()):
            disk.rmdir(folder / FOLDER)
            disk.sync_folder(folder)
