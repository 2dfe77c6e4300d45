"""Holders of an environment's lock, and its undo journals, as tables and as rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from je_tools.core.escaping import clean_text
from je_tools.output.views.section_formats import Report
from je_tools.output.views.sections import (
    Cell,
    Column,
    Kind,
    Section,
    fact_section,
    row_values,
    section_of,
)
from je_tools.writing.lock import FILE_NAME, Holder, LockMode
from je_tools.writing.undo_steps import UndoState

if TYPE_CHECKING:
    from je_tools.writing.undo_places import AnyUndo

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
    Column("name", "file", Kind.PATH),
    Column("offset", "from offset", rank=1),
    Column("size", "bytes"),
    Column("target", "becomes", Kind.PATH, cell=lambda each: each.target or None),
)


def lock_sections(home: Path, holders: Sequence[Holder]) -> list[Section]:
    """Return tables for people: the processes that have the environment open."""
    file = home / FILE_NAME
    facts = [
        ("lock file", str(file) if file.exists() else "none, so no process has it open"),
        ("open for writing", _holder_texts(holders, LockMode.READ_WRITE)),
        ("open for reading", _holder_texts(holders, LockMode.READ_ONLY)),
    ]
    if any(each.mode is LockMode.NO_READERS for each in holders):
        facts.append(("keeps readers out", _holder_texts(holders, LockMode.NO_READERS)))
    return [fact_section("lock", facts)]


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


def undo_document(home: Path, sections: Iterable[Section]) -> dict[str, object]:
    """Return sections of `undo_sections` as one JSON object."""
    lists: dict[str, list[dict[str, Cell]]] = {"journals": [], "steps": []}
    for section in sections:
        lists[section.name] += row_values(section)
    return {"env": clean_text(str(home)), **lists}


def _holder_texts(holders: Sequence[Holder], mode: LockMode) -> str:
    return ", ".join(each.text for each in holders if each.mode is mode) or "no process"


def undo_sections(undos: Sequence[AnyUndo], *, has_steps: bool = True) -> list[Section]:
    """Return the journals, the newest first, and the steps that revert the newest.

    Args:
        undos: the journals, the newest last.
        has_steps: include the steps.
    """
    sections = [section_of("journals", "Undo journals", _JOURNALS, undos[::-1], folds=True)]
    if has_steps and undos and undos[-1].steps:
        newest = undos[-1]
        is_back = newest.state is UndoState.PUT_BACK
        title = f"{'How' if is_back else 'To revert'} undo {newest.number}"
        title += " was reverted" if is_back else ""
        sections.append(section_of("steps", title, _STEPS, newest.steps, folds=True))
    return sections


def undos_of_node(
    node: str, sections: Iterable[Section], *, is_titled: bool, is_alone: bool
) -> Iterator[Section]:
    """Yield sections of `undo_sections` with the node of a store: in the title, or as a column.

    Args:
        node: name of the node.
        sections: its sections.
        is_titled: True for people; a node that is alone is not named then.
        is_alone: True if the store has no other node.
    """
    name = Column("node", "node", Kind.TEXT)
    for each in sections:
        if not is_titled:
            rows = [[node, *row] for row in each.rows]
            yield replace(each, columns=(name, *each.columns), rows=rows)
        elif is_alone:
            yield each
        else:
            yield replace(each, title=f"{clean_text(node)}: {each.title}")
