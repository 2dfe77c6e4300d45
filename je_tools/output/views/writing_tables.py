"""Holders of an environment's lock, and its undo journals, as tables and as rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from je_tools.core.escaping import clean_text
from je_tools.output.views.section_formats import Report
from je_tools.output.views.sections import Column, Kind, Section, row_values, section_of
from je_tools.writing.lock import FILE_NAME, Holder, LockMode
from je_tools.writing.undo_steps import UndoState

if TYPE_CHECKING:
    from je_tools.writing.undo_places import AnyUndo

_FACT = (Column("what", "lock", Kind.TEXT), Column("value", "", Kind.TEXT, wraps=True))
_HOLDERS = (
    Column("mode", "opened", Kind.TEXT, cell=lambda each: each.mode.value),
    Column("pid", "process", Kind.ID),
    Column("command", "command", Kind.TEXT),
)
_JOURNALS = (
    Column("number", "undo", Kind.ID),
    Column("operation", "operation", Kind.TEXT),
    Column("time_ms", "started (UTC)", Kind.TIME, rank=2),
    Column("state", "state", Kind.TEXT, cell=lambda each: each.state.value),
    Column("saved_size", "bytes saved"),
    Column("appended_size", "bytes written", rank=1),
    Column("tool", "je-tools", Kind.TEXT, rank=3),
)
_STEPS = (
    Column("what", "step", Kind.TEXT, cell=lambda each: each.what.value),
    Column("name", "file", Kind.TEXT, wraps=True),
    Column("offset", "from offset", rank=1),
    Column("size", "bytes"),
    Column("target", "becomes", Kind.TEXT, cell=lambda each: each.target or None, wraps=True),
)


def lock_sections(home: Path, holders: Sequence[Holder]) -> list[Section]:
    """Return tables for people: the processes that have the environment open."""
    there = (home / FILE_NAME).exists()
    facts = [
        ["lock file", str(home / FILE_NAME) if there else "none, so no process has it open"],
        ["open for writing", _of(holders, LockMode.READ_WRITE)],
        ["open for reading", _of(holders, LockMode.READ_ONLY)],
    ]
    if any(each.mode is LockMode.NO_READERS for each in holders):
        facts.append(["keeps readers out", _of(holders, LockMode.NO_READERS)])
    return [Section("", "", _FACT, facts)]


def lock_report(home: Path, holders: Sequence[Holder]) -> Report:
    """Return the lock and its holders, for JSON."""
    modes = {each.mode for each in holders}
    row = {
        "env": clean_text(str(home)),
        "is_present": (home / FILE_NAME).exists(),
        "is_read_write": LockMode.READ_WRITE in modes,
        "is_read_only": LockMode.READ_ONLY in modes,
    }
    return Report(row, "lock", sections=[section_of("holders", "", _HOLDERS, holders)])


def undo_document(
    home: Path, undos: Sequence[AnyUndo], *, has_steps: bool = True
) -> dict[str, object]:
    """Return the journals and the steps as one JSON object; see `undo_sections`."""
    sections = {each.name: each for each in undo_sections(undos, has_steps=has_steps)}
    lists = {
        name: list(row_values(sections[name])) if name in sections else []
        for name in ("journals", "steps")
    }
    return {"env": clean_text(str(home)), **lists}


def _of(holders: Sequence[Holder], mode: LockMode) -> str:
    return ", ".join(each.text for each in holders if each.mode is mode) or "no process"


def undo_sections(undos: Sequence[AnyUndo], *, has_steps: bool = True) -> list[Section]:
    """Return the journals, the newest first, and the steps to put the newest back.

    Args:
        undos: the journals, the newest last.
        has_steps: include the steps.
    """
    sections = [section_of("journals", "Undo journals", _JOURNALS, undos[::-1])]
    if has_steps and undos and undos[-1].steps:
        newest = undos[-1]
        is_back = newest.state is UndoState.PUT_BACK
        title = f"{'How' if is_back else 'To put back'} undo {newest.number}"
        title += " was put back" if is_back else ""
        sections.append(section_of("steps", title, _STEPS, newest.steps))
    return sections
