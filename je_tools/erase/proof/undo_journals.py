"""Undo journals in a search: they keep bytes of the log in pieces, so a search may miss needles."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from je_tools.formats.files.remote_path import RemotePath
from je_tools.writing.frames import FOLDER
from je_tools.writing.journal_folders import FILE_NAME
from je_tools.writing.journal_reading import read_journal

if TYPE_CHECKING:
    from je_tools.erase.proof.file_tree import FoundFile


def journal_problem(home: Path, file: FoundFile) -> str | None:
    """Return why keys in a file of an undo journal may not be found; None if all are found.

    Args:
        home: home of the environment.
        file: a file in a folder of journals.
    """
    if isinstance(home, RemotePath):
        return _REMOTE
    folders = file.name.split("/")
    if folders[-1] != FILE_NAME or folders[:-2] != [FOLDER] or not folders[1].isdecimal():
        return _UNKNOWN
    try:
        journal = read_journal(home, int(folders[1]))
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    if journal.damage is not None:
        return _UNKNOWN
    saved = any(frame.record == "saved" and frame.blob_size for frame in journal.frames)
    return _SAVED if saved else None


_SAVED = (
    "it keeps bytes of the log in pieces, and what is cut in two between pieces or by a prefix is "
    "not found in it; `je-tools undo ENV_DIR --drop all --apply` removes it"
)
_REMOTE = (
    "it is in an object store, where no undo journal is decoded: what it keeps in pieces is not "
    "found"
)
_UNKNOWN = "it is no undo journal that can be read, and what it keeps in pieces is not found"
