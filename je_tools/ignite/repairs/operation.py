"""Life cycle of an operation on a store, and the refusal to begin one after an interrupted one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from je_tools.errors import RefusedError
from je_tools.ignite.repairs.frames import check_store_frame
from je_tools.writing.journal_folders import journal_numbers
from je_tools.writing.journal_reading import read_journal
from je_tools.writing.operation import Operation

if TYPE_CHECKING:
    from je_tools.ignite.repairs.node_files import NodeFiles
    from je_tools.writing.disk import Disk
    from je_tools.writing.stamps import FileStamp


class StoreOperation(Operation):
    """The life cycle of an operation on a store."""

    def __init__(
        self,
        name: str,
        files: NodeFiles,
        stamps: Mapping[Path, FileStamp],
        disk: Disk,
        unchanged: str,
    ) -> None:
        super().__init__(name, files, stamps, disk, undo=True, takes_away=True)
        self._node = files
        self._unchanged = unchanged

    def state_text(self) -> str:
        """Return the state of the store if the operation stops here."""
        return super().state_text() if self.is_begun else self._unchanged

    def undo_command(self) -> str:
        """Return the command that undoes the operation, for messages."""
        return f"`{self._node.undo_words()} --apply`"

    def unfinished_text(self, undo: str) -> str:
        """Return the state of the store after an operation that was stopped, in words."""
        return (
            f"; the {self.name} is not finished, and only a part of its changes may be made. "
            f"{undo}: run that before a node starts"
        )

    def check_last(self) -> None:
        """Refuse to begin after an operation, or its undo, that was interrupted.

        Raises:
            RefusedError: there is such an operation, or the last journal is damaged.
        """
        check_store_whole(self._node)


def check_store_whole(files: NodeFiles) -> None:
    """Refuse to continue with a store that an interrupted operation has left half done.

    Raises:
        RefusedError: the last operation or its undo was interrupted, or its journal is damaged.
        OSError: the journal cannot be read.
    """
    for number in journal_numbers(files.home)[-1:]:
        journal = read_journal(files.home, number, check_store_frame)
        records = {frame.record for frame in (*journal.frames, *journal.later)}
        command = f"`{files.undo_words()} --apply`"
        if "undo" in records and "undone" not in records:
            raise RefusedError(
                f"{files.home}: undo {number} was interrupted; {command} finishes it"
            )
        if "ready" in records and "done" not in records:
            operation = journal.frames[0].head.get("operation") if journal.frames else "operation"
            raise RefusedError(
                f"{files.home}: the {operation} of undo {number} was interrupted; first run "
                f"{command}, which reverts it"
            )
        if journal.damage is not None and "done" not in records:
            raise RefusedError(
                f"{files.home}: the journal of undo {number} is damaged, and may belong to an "
                f"interrupted operation: {journal.damage}. `{files.undo_words()}` shows it"
            )
