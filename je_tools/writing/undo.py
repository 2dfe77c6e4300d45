"""Undo of operations on a log by their journals, newest first.

The steps of an operation are undone in reverse order, each durable before the next, so that the
log goes back through the states that it went through. Each step can be repeated, and the journal
records finished steps, so an interrupted undo continues. Nothing is reverted if anything else has
written since: every sector that the operation appended must hold its bytes, the bytes from before,
or, after a power cut, zeros.

A journal is removed when everything that it saved is back in the log, or when the user asks for it
by number. Nothing is put back from a damaged journal, and it stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from je_tools.core.escaping import counted
from je_tools.errors import RefusedError
from je_tools.writing.checksums import crc32c
from je_tools.writing.file_checks import check_no_link, check_own_file, log_paths
from je_tools.writing.file_reads import read_at
from je_tools.writing.frames import Frame, JournalError
from je_tools.writing.journal import Journal
from je_tools.writing.journal_folders import (
    FILE_NAME,
    journal_numbers,
    log_folders,
    place_of,
    removed_files,
)
from je_tools.writing.journal_reading import RecordedJournal, read_journal
from je_tools.writing.journal_removal import clear_journals, remove_journal
from je_tools.writing.journal_replay import Replay, UndoKind, UndoStep, files_of
from je_tools.writing.refusing import refusing, reporting_state, undo_command
from je_tools.writing.undo_check import UndoCheck, drop_text
from je_tools.writing.undo_steps import UndoState, recorded_state, revert_step

if TYPE_CHECKING:
    from je_tools.writing.disk import Disk

_LISTED_MAX = 5


class Undo:
    """A journal, and the steps that undo its operation.

    Attributes:
        recorded: the journal.
        operation: name of the operation, "unknown" if the journal cannot be read.
        time_ms: time at which it began; None if unknown.
        tool: version of je-tools that did it; None if unknown.
        is_finished: True if the operation finished.
        is_begun, is_undone: True if its undo has begun, or finished.
        before: size and modification time of each file before the operation, by name.
        damage: description of the damage of the journal or the files beside it; None for none.
        saved_size: number of bytes of the log in the journal, including files taken out of the log;
            for a damaged journal, all of its bytes.
        steps: steps that remain, in order.
        all_steps: all steps, including those that an interrupted undo has done.
    """

    def __init__(self, recorded: RecordedJournal) -> None:
        self.recorded = recorded
        begin = recorded.frames[0].head if recorded.frames else {}
        self.operation = str(begin.get("operation", "unknown"))
        self.time_ms: int | None = begin.get("time_ms")
        self.tool: str | None = begin.get("tool")
        self.is_finished = recorded.first("done") is not None
        self.is_begun = recorded.first("undo") is not None
        self.is_undone = recorded.first("undone") is not None
        self.before = files_of(recorded.frames[0]) if recorded.frames else {}
        self._replay = replay = Replay(self.before)
        try:
            replay.run(recorded.frames)
        except JournalError as error:
            damage = f"its steps contradict each other: {error}"
            self.recorded = recorded = replace(recorded, damage=damage)
        self._home = recorded.home
        self._became: UndoState | None = None
        self.damage = self._find_damage()
        self.saved_size = self._size_of_saved()
        self.all_steps = replay.steps_back
        done = replay.back_count
        is_to_do = not self.is_undone and self.damage is None
        self.steps = self.all_steps[done:] if is_to_do else []

    @property
    def number(self) -> int:
        """Number of the journal."""
        return self.recorded.number

    def _size_of_saved(self) -> int:
        size = sum(path.stat().st_size for path in removed_files(self._home, self.number))
        if self.recorded.damage is not None:
            return size + self.recorded.file_size
        blobs = (frame.blob_size for frame in self.recorded.frames if frame.record == "saved")
        return size + sum(blobs)

    @property
    def state(self) -> UndoState:
        """State of the operation and its undo."""
        if self._became is not None:
            return self._became
        return recorded_state(
            is_damaged=self.damage is not None,
            has_steps=bool(self.all_steps),
            is_finished=self.is_finished,
            is_begun=self.is_begun,
            is_undone=self.is_undone,
        )

    @property
    def appended_size(self) -> int:
        """Number of bytes that the operation appended, or was about to append."""
        return sum(
            piece.size
            for changed in self._replay.changed_files.values()
            for piece in changed.pieces
        )

    def check(self, *, any_time: bool = False) -> None:
        """Make sure that the log is in a state that the operation, or its undo, can have left.

        Args:
            any_time: True to accept files with other modification times, as in a copy.

        Raises:
            RefusedError: anything else has written since, or the journal is damaged.
        """
        with refusing():
            self._check_sound()
            if not self.is_undone:
                self._check_places()
                UndoCheck(self._home, self.recorded, self._replay, self.before, any_time).run()

    def _find_damage(self) -> str | None:
        """Return what is wrong with the journal or the files beside it; None if nothing is."""
        if self.recorded.damage is not None:
            return self.recorded.damage
        targets = {self._home / target for _, target in self._replay.renamed}
        removed = removed_files(self._home, self.number)
        stray = [path for path in removed if path not in targets or self.is_undone]
        if not stray:
            return None
        return f"it does not record {counted(len(stray), 'file')} that it keeps"

    def _check_sound(self) -> None:
        """Refuse a journal that is damaged, or holds files that it does not record.

        Raises:
            RefusedError: it is such a journal; nothing of it is removed.
        """
        damage = self._find_damage()
        if damage is None:
            return
        removed = removed_files(self._home, self.number)
        what = "is damaged"
        if self.recorded.is_newer:
            what = "was written by a later je-tools, which can revert it"
        raise RefusedError(
            f"{self.recorded.folder / FILE_NAME}: the undo journal {what}: {damage}. Nothing "
            f"was changed{self._remains_text(removed)}. "
            f"{drop_text(self._home, self.number)}"
        )

    def _check_places(self) -> None:
        """Refuse to change files through links, or a backup made of hard links.

        Raises:
            RefusedError: a file is a link or has another name.
        """
        touched = {self._home / name for name in self._replay.touched | self._replay.begun}
        moved = {self._home / name for names in self._replay.renamed for name in names}
        for path in sorted(touched | moved):
            with suppress(FileNotFoundError):
                if path in touched:
                    check_own_file(path)
                else:
                    check_no_link(path)

    def _remains_text(self, removed: Sequence[Path]) -> str:
        """Describe what is left of a damaged journal."""
        frames = (*self.recorded.frames, *self.recorded.later)
        blobs = [frame.blob_size for frame in frames if frame.record == "saved"]
        text = ""
        if blobs:
            text += f"; {sum(blobs):,} bytes that were cut off are in its readable part"
        if removed:
            text += "; files that were moved out of the log still exist; move them back by hand: "
            text += ", ".join(f"{path} to {place_of(path)}" for path in removed[:_LISTED_MAX])
            text += (
                f", and {len(removed) - _LISTED_MAX:,} more" if len(removed) > _LISTED_MAX else ""
            )
        return text

    def apply(self, disk: Disk) -> None:
        """Undo the operation and remove the journal.

        Call `check` first, with the engine's lock held. If it is interrupted, it can be repeated.

        Raises:
            RefusedError: a step failed.
        """
        with refusing():
            self._check_sound()
        journal = Journal(self._home, self.number, disk, self.recorded.size)
        with reporting_state(self._state_text):
            if self.steps:
                # Cut off a torn frame, so that no complete frame follows it.
                disk.truncate(journal.folder / FILE_NAME, self.recorded.size)
                if not self.is_begun:
                    journal.add("undo")
                journal.sync()
            for step in self.steps:
                self._revert(step, disk)
                journal.add("back")
                journal.sync()
            if not self.is_undone and self.all_steps:
                self._set_times(disk)
                disk.close()
                self._check_back()
                journal.add("undone")
                journal.sync()
            disk.close()
            for path in removed_files(self._home, self.number):
                raise RefusedError(f"{path}: the file still exists, so the journal is kept too")
            self._remove(disk)
        self._became = UndoState.PUT_BACK

    def drop(self, disk: Disk) -> None:
        """Remove the journal and the bytes that it saved; put nothing back.

        Raises:
            RefusedError: it cannot be removed.
        """
        with refusing():
            self._remove(disk)
        self._became = UndoState.REMOVED

    def _state_text(self) -> str:
        return f"; the undo is not finished: run {undo_command(self._home)} again"

    def _set_times(self, disk: Disk) -> None:
        changed = self._replay.touched | {source for source, _ in self._replay.renamed}
        for name, (_, modified_ns) in self.before.items():
            path = self._home / name
            if name in changed and path.stat().st_mtime_ns != modified_ns:
                disk.set_times(path, modified_ns)
                # An earlier journal is undone only if the files have their times from before.
                disk.sync(path)

    def _check_back(self) -> None:
        """Read back all restored bytes before the journal is removed.

        Raises:
            RefusedError: they differ from those in the journal.
        """
        sizes = {
            path.relative_to(self._home).as_posix(): path.stat().st_size
            for path in log_paths(self._home)
        }
        wrong = {name for name, (size, _) in self.before.items() if sizes.get(name) != size}
        wrong |= sizes.keys() - self.before.keys()
        for name, changed in self._replay.changed_files.items():
            for frame in changed.saved:
                data = read_at(self._home / name, frame.head["offset"], frame.blob_size, fresh=True)
                if crc32c(data) != frame.blob_sum:
                    wrong.add(name)
        for name, offset, old, _ in self._replay.flips:
            if read_at(self._home / name, offset, len(old), fresh=True) != old:
                wrong.add(name)
        if wrong:
            raise RefusedError(
                f"{self._home / min(wrong)}: the bytes read differ from the restored bytes: the "
                "disk is unreliable. The journal is kept"
            )

    def _revert(self, step: UndoStep, disk: Disk) -> None:
        if step.what is UndoKind.UNFLIP:
            assert step.frame is not None
            self._unflip(step.frame, disk)
        else:
            revert_step(step, self._home.joinpath, self.recorded, disk)

    def _unflip(self, frame: Frame, disk: Disk) -> None:
        paths = []
        for name, offset, old, _ in frame.head["flips"]:
            disk.write(self._home / name, offset, bytes.fromhex(old))
            paths.append(self._home / name)
        for path in dict.fromkeys(paths):
            disk.sync(path)

    def _remove(self, disk: Disk) -> None:
        remove_journal(self._home, self.number, disk, log_folders(self._home)[1:])


def clear_remains(home: Path, disk: Disk) -> None:
    """Finish interrupted removals of journals, and remove empty folders.

    Raises:
        RefusedError: a file or folder cannot be removed.
    """
    with refusing():
        clear_journals(home, disk, log_folders(home)[1:])


def list_undos(home: Path) -> list[Undo]:
    """Return the journals of an environment, the newest last.

    Raises:
        RefusedError: one cannot be read, or its folder is something else.
    """
    with refusing():
        return [Undo(read_journal(home, number)) for number in journal_numbers(home)]
