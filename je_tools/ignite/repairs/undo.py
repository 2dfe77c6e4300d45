"""Undo of operations on a store by their journals, newest first.

Each step can be repeated, so an interrupted undo starts again. Nothing is reverted if anything else
has written since, as a node does when it starts. The journal is removed once all of it is back, or
when the user asks for it by number. A damaged journal puts nothing back, and stays.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from je_tools.errors import RefusedError
from je_tools.ignite.repairs.frames import check_store_frame
from je_tools.ignite.repairs.recorded_edits import RecordedEdits
from je_tools.ignite.repairs.undo_check import StoreUndoCheck
from je_tools.writing.checksums import crc32c
from je_tools.writing.file_checks import check_own_file
from je_tools.writing.file_reads import read_at
from je_tools.writing.frames import JournalError
from je_tools.writing.journal import Journal
from je_tools.writing.journal_folders import (
    FILE_NAME,
    journal_folder,
    journal_numbers,
    names_in,
)
from je_tools.writing.journal_reading import RecordedJournal, read_journal
from je_tools.writing.journal_removal import clear_journals, remove_journal
from je_tools.writing.journal_replay import UndoKind, UndoStep
from je_tools.writing.refusing import refusing, reporting_state, unlike_written
from je_tools.writing.undo_steps import UndoState, recorded_state, revert_step

if TYPE_CHECKING:
    from je_tools.ignite.repairs.node_files import NodeFiles
    from je_tools.writing.disk import Disk


class StoreUndo:
    """A journal of a store, and the steps that undo its operation.

    Attributes:
        number: number of the journal.
        operation: name of the operation, "unknown" if the journal cannot be read.
        time_ms: time at which it began; None if unknown.
        tool: version of je-tools that did it; None if unknown.
        damage: what is wrong with the journal; None if nothing is.
        saved_size: bytes in the journal and in files beside it.
        appended_size: bytes that the operation wrote, or was about to write.
        all_steps: steps that revert everything, in order.
    """

    def __init__(self, files: NodeFiles, recorded: RecordedJournal) -> None:
        self.number = recorded.number
        begin = recorded.frames[0].head if recorded.frames else {}
        self.operation = str(begin.get("operation", "unknown"))
        self.time_ms: int | None = begin.get("time_ms")
        self.tool: str | None = begin.get("tool")
        self.damage = recorded.damage
        self._recorded = recorded
        self._files = files
        self._became: UndoState | None = None
        try:
            self._edits = RecordedEdits(recorded.frames)
        except JournalError as error:
            self.damage = self.damage or f"its steps contradict each other: {error}"
            self._edits = RecordedEdits(())
        self.all_steps = self._edits.steps if self._edits.is_ready else []
        stray = self._stray()
        if self.damage is None and stray:
            self.damage = f"it does not record a file that it keeps: {stray[0]}"
        kept = [path.stat().st_size for path in self._kept()]
        blobs = [frame.blob_size for frame in recorded.frames if frame.record == "saved"]
        self.saved_size = sum(kept) + sum(blobs)
        written = [each.size for each in self._edits.written]
        self.appended_size = sum(written) + sum(self._edits.created.values())

    @property
    def steps(self) -> list[UndoStep]:
        """Steps that remain, in order."""
        is_to_do = self.damage is None and not self._edits.is_undone
        return self.all_steps if is_to_do else []

    @property
    def state(self) -> UndoState:
        """State of the operation and its undo."""
        if self._became is not None:
            return self._became
        return recorded_state(
            is_damaged=self.damage is not None,
            has_steps=bool(self.all_steps),
            is_finished=self._edits.after is not None,
            is_begun=self._edits.is_undo_begun,
            is_undone=self._edits.is_undone,
        )

    def check(self, *, any_time: bool = False) -> None:
        """Make sure that the store is in a state that the operation, or its undo, can have left.

        Args:
            any_time: True to accept files with other modification times, as in a copy.

        Raises:
            RefusedError: anything else has written since, or the journal is damaged.
        """
        with refusing():
            self._check_sound()
            if not self.steps:
                return
            for each in self._edits.written:
                path = self._files.path(each.name)
                if path.exists():
                    check_own_file(path)
            StoreUndoCheck(self._files, self._recorded, self._edits, any_time).run()

    def apply(self, disk: Disk) -> None:
        """Undo the operation and remove the journal; the lock must be held.

        Call `check` first. If interrupted, it can be repeated.

        Raises:
            RefusedError: a step failed.
        """
        with refusing():
            self._check_sound()
        size = self._recorded.size
        journal = Journal(self._files.home, self.number, disk, size)
        with reporting_state(self._state_text):
            if self.steps:
                # Cut off a torn frame, so that no complete frame follows it.
                disk.truncate(journal.folder / FILE_NAME, size)
                if not self._edits.is_undo_begun:
                    journal.add("undo")
                journal.sync()
                for step in self.steps:
                    self._revert(step, disk)
                self._set_times(disk)
                disk.close()
                self._check_back()
                journal.add("undone")
                journal.sync()
            disk.close()
            for path in self._kept():
                raise RefusedError(f"{path}: the file still exists, so the journal is kept too")
            remove_journal(self._files.home, self.number, disk, self._files.others)
        self._became = UndoState.PUT_BACK

    def drop(self, disk: Disk) -> None:
        """Remove the journal and the bytes that it saved; put nothing back.

        Raises:
            RefusedError: it cannot be removed.
        """
        with refusing():
            remove_journal(self._files.home, self.number, disk, self._files.others)
        self._became = UndoState.REMOVED

    def _revert(self, step: UndoStep, disk: Disk) -> None:
        # An interrupted undo may have put an original in the place of a file to remove.
        if step.what is not UndoKind.REMOVE or not self._is_original(step.name):
            revert_step(step, self._files.path, self._recorded, disk)

    def _is_original(self, name: str) -> bool:
        """Return True if a file of this name was set aside, and is back."""
        targets = [target for source, target, _ in self._edits.renamed if source == name]
        return any(not self._files.path(target).exists() for target in targets)

    def _set_times(self, disk: Disk) -> None:
        for name in sorted({each.name for each in self._edits.written}):
            path, modified_ns = self._files.path(name), self._edits.before[name][1]
            if path.stat().st_mtime_ns != modified_ns:
                disk.set_times(path, modified_ns)
                # An earlier journal is undone only if the files have their times from before.
                disk.sync(path)

    def _check_back(self) -> None:
        """Read back all restored bytes before the journal is removed.

        Raises:
            RefusedError: they differ from those in the journal.
        """
        now = {name: size for name, size, _ in self._files.listed()}
        before = {name: size for name, (size, _) in self._edits.before.items()}
        for name in sorted(now.keys() | before.keys()):
            if now.get(name) != before.get(name):
                raise unlike_written(self._files.path(name), before.get(name, 0))
        for name, frames in self._edits.saved.items():
            for frame in frames:
                path, at = self._files.path(name), frame.head["offset"]
                if crc32c(read_at(path, at, frame.blob_size, fresh=True)) != frame.blob_sum:
                    raise unlike_written(path, at)

    def _kept(self) -> list[Path]:
        """Return the files beside the journal: those that were set aside."""
        folders = [journal_folder(each, self.number) for each in self._folders()]
        own = journal_folder(self._files.home, self.number) / FILE_NAME
        return [
            folder / name for folder in folders for name in names_in(folder) if folder / name != own
        ]

    def _stray(self) -> list[Path]:
        targets = {self._files.path(target) for _, target, _ in self._edits.renamed}
        kept = self._kept()
        return [path for path in kept if path not in targets or self._edits.is_undone]

    def _folders(self) -> list[Path]:
        return [self._files.home, *self._files.others]

    def _check_sound(self) -> None:
        if self.damage is not None:
            raise RefusedError(
                f"{self._recorded.folder / FILE_NAME}: the undo journal is damaged: {self.damage}. "
                f"Nothing was changed. `{self._files.undo_words()} --drop {self.number} --apply` "
                "removes it and all bytes that it keeps"
            )

    def _state_text(self) -> str:
        return f"; the undo is not finished: run `{self._files.undo_words()} --apply` again"


def list_store_undos(files: NodeFiles) -> list[StoreUndo]:
    """Return the journals of a node, the newest last.

    Raises:
        RefusedError: one cannot be read, or its folder is something else.
    """
    with refusing():
        numbers = journal_numbers(files.home)
        return [StoreUndo(files, read_journal(files.home, n, check_store_frame)) for n in numbers]


def clear_store_remains(files: NodeFiles, disk: Disk) -> None:
    """Finish interrupted removals of journals, and remove empty folders.

    Raises:
        RefusedError: a file or folder cannot be removed.
    """
    with refusing():
        clear_journals(files.home, disk, files.others)
