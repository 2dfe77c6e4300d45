"""Checks that no interrupted operation has left a log that must be neither read nor written."""

from __future__ import annotations

from pathlib import Path

from je_tools.core.escaping import quoted
from je_tools.errors import RefusedError
from je_tools.writing.journal_folders import journal_numbers
from je_tools.writing.journal_reading import RecordedJournal, read_journal
from je_tools.writing.redo_folder import check_no_redo
from je_tools.writing.refusing import refusing, undo_command


def check_whole(home: Path) -> None:
    """Refuse to write to a log that an interrupted operation has left half done.

    Unlike `check_not_interrupted`, it converts `OSError`, and adds that nothing was changed.

    Raises:
        RefusedError: as `check_not_interrupted`; or a journal cannot be read.
    """
    with refusing(lambda: "; nothing was changed"):
        check_not_interrupted(home)


def check_not_interrupted(home: Path) -> None:
    """Refuse to read a log that an interrupted operation has left half done.

    Raises:
        RefusedError: an undo, an erasure, or an operation that takes log away was interrupted.
        OSError: a journal cannot be read.
    """
    check_no_redo(home)
    for number in journal_numbers(home)[-1:]:
        _refuse_half_done(read_journal(home, number))


def _refuse_half_done(journal: RecordedJournal) -> None:
    home, number = journal.home, journal.number
    records = {frame.record for frame in (*journal.frames, *journal.later)}
    if records & {"undo", "back"} and "undone" not in records:
        raise RefusedError(
            f"{home}: undo {number} was interrupted; {undo_command(home)} finishes it"
        )
    takes_away = bool(journal.frames) and journal.frames[0].head["takes_away"]
    if takes_away and "done" not in records and records & {"cut", "rename"}:
        operation = journal.frames[0].head["operation"]
        raise RefusedError(
            f"{home}: the {operation} of undo {number} was interrupted after it had removed a "
            f"part of the log; first run {undo_command(home)}, which reverts it"
        )


def check_last_journal(home: Path) -> None:
    """Refuse to write if the last journal may belong to an interrupted undo or truncation.

    Raises:
        RefusedError: it may, since it says so or is damaged; or an erasure was interrupted.
    """
    check_no_redo(home)
    for number in journal_numbers(home)[-1:]:
        journal = read_journal(home, number)
        _refuse_half_done(journal)
        if journal.is_newer:
            raise RefusedError(
                f"{journal.folder}: the undo journal was written by a later je-tools, and may "
                f"belong to an interrupted operation: {journal.damage}. Use that je-tools"
            )
        if journal.damage is not None and "done" not in (f.record for f in journal.later[-1:]):
            raise RefusedError(
                f"{home}: the journal of undo {number} is damaged, and may belong to an "
                f"interrupted undo; `je-tools undo {quoted(str(home))}` reports the damage"
            )
