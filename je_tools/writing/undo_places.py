"""Interfaces of undo: a place with undo journals, and one of its journals.

Logs and Ignite stores implement both.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from je_tools.writing.disk import Disk
    from je_tools.writing.journal_replay import UndoStep
    from je_tools.writing.undo_steps import UndoState


class AnyUndo(Protocol):
    """A journal, and the steps that undo its operation; see `Undo` and `StoreUndo`."""

    @property
    def number(self) -> int:
        """Number of the journal."""

    @property
    def operation(self) -> str:
        """Name of the operation."""

    @property
    def time_ms(self) -> int | None:
        """Time at which it began; None if unknown."""

    @property
    def tool(self) -> str | None:
        """Version of je-tools that did it; None if unknown."""

    @property
    def state(self) -> UndoState:
        """State of the operation and its undo."""

    @property
    def damage(self) -> str | None:
        """Description of the journal's damage; None if there is none."""

    @property
    def saved_size(self) -> int:
        """Number of bytes that the journal keeps."""

    @property
    def appended_size(self) -> int:
        """Number of bytes that the operation wrote."""

    @property
    def steps(self) -> Sequence[UndoStep]:
        """Steps that remain, in order."""

    @property
    def all_steps(self) -> Sequence[UndoStep]:
        """All steps, in order."""

    def check(self, *, any_time: bool = False) -> None:
        """Refuse to undo if anything else has written since.

        Args:
            any_time: True to accept files with other modification times, as in a copy.
        """

    def apply(self, disk: Disk) -> None:
        """Undo the operation and remove the journal, with the engine's lock held."""

    def drop(self, disk: Disk) -> None:
        """Remove the journal; put nothing back."""


class UndoPlace(Protocol):
    """The undo journals of an environment or of a node."""

    @property
    def subject(self) -> str:
        """Word for what the operations changed: "log" or "store"."""

    def command(self, words: str = "") -> str:
        """Return the command that undoes the last operation, for messages."""

    def has_journals(self) -> bool:
        """Return True if there is a folder of journals, even an empty one."""

    def undos(self) -> Sequence[AnyUndo]:
        """Return the journals, the newest last."""

    def locked(self) -> AbstractContextManager[Sequence[str]]:
        """Take the engine's lock; the value describes the processes that read meanwhile."""

    def clear(self, disk: Disk) -> None:
        """Finish interrupted removals of journals, and remove empty folders."""

    def until_stopped(self) -> str:
        """Return what to stop before anything can be undone, as the end of a sentence, or ''."""
