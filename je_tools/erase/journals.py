"""Undo journals of an environment that is erased.

A journal holds bytes of the log, and its undo would take the log back past the checkpoint on which
the erasure rests. So there must be none when entries are overwritten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from je_tools.core.escaping import quoted
from je_tools.errors import RefusedError
from je_tools.writing.interrupted import check_whole
from je_tools.writing.journal_folders import journal_numbers
from je_tools.writing.redo_folder import is_unfinished
from je_tools.writing.undo import clear_remains, list_undos

if TYPE_CHECKING:
    from pathlib import Path

    from je_tools.writing.disk import Disk


def check_no_journals(home: Path) -> None:
    """Check that an environment has no undo journals, finished or not.

    Raises:
        RefusedError: it has one.
    """
    check_whole(home)
    numbers = journal_numbers(home)
    if numbers:
        raise RefusedError(
            f"{home}: undo journal {numbers[-1]} holds bytes of the log, and its undo would take "
            "the log back to nodes that are erased. "
            f"`je-tools undo {quoted(str(home))} --drop all --apply` removes the journals; nothing "
            "can be undone then"
        )


def drop_journal(home: Path, number: int | None, disk: Disk) -> None:
    """Remove an undo journal; None for none.

    Raises:
        RefusedError: it cannot be removed.
    """
    for undo in list_undos(home):
        if undo.number == number:
            undo.drop(disk)
    clear_remains(home, disk)


def stopped_text(home: Path, erased_count: int) -> str:
    """Return the state of a log whose erasure has stopped, in words to end a message with.

    Args:
        home: home of the environment.
        erased_count: number of files that are erased.
    """
    if is_unfinished(home):
        return (
            f"; {erased_count:,} files are erased, and one in part: "
            f"`je-tools erase resume {quoted(str(home))} --apply` completes that"
        )
    return (
        f"; {erased_count:,} files are erased, and the engine opens the log as it is: "
        f"run `je-tools erase run {quoted(str(home))} --apply` again to go on"
    )
