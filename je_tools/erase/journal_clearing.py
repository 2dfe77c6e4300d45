"""Clear the undo journals of an environment before entries of it are overwritten.

A journal holds bytes of the log, and its undo would return the log to before the checkpoint on
which the erasure relies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from je_tools.core.escaping import counted, quoted
from je_tools.errors import RefusedError
from je_tools.operations.names import CHECKPOINT, DELETION, PROGRESS
from je_tools.writing.interrupted import check_whole
from je_tools.writing.journal_folders import has_folder
from je_tools.writing.redo_folder import is_unfinished
from je_tools.writing.refusing import refusing
from je_tools.writing.undo import clear_remains, list_undos
from je_tools.writing.undo_steps import UndoState

if TYPE_CHECKING:
    from pathlib import Path

    from je_tools.erase.options import ErasureOptions
    from je_tools.writing.disk import Disk
    from je_tools.writing.undo import Undo

_OWN = frozenset({DELETION, CHECKPOINT, PROGRESS})


def clear_own_journals(home: Path, disk: Disk) -> None:
    """Remove the undo journals of an erasure that was interrupted. The environment is locked.

    An unfinished step is undone, unless something else has been written since. Undoing it cannot
    bring back an erased node: no entry is overwritten before the journals of earlier steps are
    removed.

    Raises:
        RefusedError: a journal cannot be read, undone or removed.
    """
    with refusing():
        if not has_folder(home):
            return
    for undo in reversed(list_undos(home)):
        if undo.operation not in _OWN or undo.damage is not None:
            break
        if undo.state is UndoState.FINISHED and undo.operation != PROGRESS:
            undo.drop(disk)
        elif _is_last(undo):
            undo.apply(disk)
        else:
            undo.drop(disk)
    clear_remains(home, disk)


def _is_last(undo: Undo) -> bool:
    """Return True if nothing has been written since an operation."""
    try:
        undo.check(any_time=True)
    except RefusedError:
        return False
    return True


def check_no_journals(home: Path) -> None:
    """Check that an environment has no undo journals, finished or not.

    Raises:
        RefusedError: it has one.
    """
    check_whole(home)
    text = journals_text(home)
    if text is not None:
        raise RefusedError(f"{home}: {text}")


def journals_text(home: Path, *, with_own: bool = True) -> str | None:
    """Return a text on the undo journals that prevent an erasure; None if there are none.

    Args:
        home: home of the environment.
        with_own: False to leave out those that `clear_own_journals` removes.

    Raises:
        RefusedError: a journal cannot be read.
    """
    undos = list_undos(home)
    while undos and not with_own and undos[-1].operation in _OWN and undos[-1].damage is None:
        undos.pop()
    if not undos:
        return None
    damaged = [undo.number for undo in undos if undo.damage is not None]
    which = str(damaged[0]) if damaged else "all"
    what = "the journal" if damaged else "the journals"
    return (
        f"undo journal {undos[-1].number} holds bytes of the log, and its undo would take "
        "the log back to nodes that are erased. "
        f"`je-tools undo {quoted(str(home))} --drop {which} --apply` removes {what}; nothing "
        "can be undone then"
    )


def drop_journal(home: Path, number: int | None, disk: Disk) -> None:
    """Remove the undo journal with a number, if there is one.

    Raises:
        RefusedError: it cannot be removed.
    """
    for undo in list_undos(home):
        if undo.number == number:
            undo.drop(disk)
    clear_remains(home, disk)


def stopped_text(home: Path, erased_count: int, options: ErasureOptions) -> str:
    """Return the end of a message on an erasure that has stopped: the state of the log.

    Args:
        home: home of the environment.
        erased_count: number of files that are erased.
        options: options of the erasure.
    """
    done = f"; {counted(erased_count, 'file')} erased"
    if is_unfinished(home):
        return (
            f"{done}, and one in part: `je-tools erase resume {quoted(str(home))} --apply` "
            "completes that"
        )
    return (
        f"{done}, and the engine opens the log as it is: run `je-tools erase run "
        f"{quoted(str(home))}{options.words} --apply` again to continue"
    )
