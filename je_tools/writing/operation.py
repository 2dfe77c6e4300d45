"""Life cycle of an operation: it begins with an undo journal, and ends or is stopped.

An operation that is stopped leaves the files as a crash would, and its journal unfinished.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from je_tools import __version__
from je_tools.errors import RefusedError
from je_tools.writing.interrupted import check_last_journal
from je_tools.writing.journal import Journal
from je_tools.writing.lock import check_new_files
from je_tools.writing.refusing import refusing, undo_command

if TYPE_CHECKING:
    import os

    from je_tools.writing.disk import Disk
    from je_tools.writing.stamps import FileStamp


class OperationFiles(Protocol):
    """The files that an operation changes."""

    @property
    def home(self) -> Path:
        """Folder in which the journals lie."""

    def check_unchanged(self, stamps: Mapping[Path, FileStamp], /) -> None:
        """Refuse to write if the files are not in these states any more."""

    def owner_stat(self) -> os.stat_result:
        """Return the status of a file whose owner, group and mode the journal gets."""

    def listed(self) -> list[tuple[str, int, int]]:
        """Return names, sizes in bytes and modification times in ns of all files."""


class Operation:
    """The life cycle of an operation; nothing is written before `changing`.

    Attributes:
        name: name in the journal, such as `checkpoint`.
        wants_journal: True to write an undo journal.
        takes_away: True if it cuts and removes log, not only remains of a crash after its end.
        is_begun, is_finished: True once the operation has begun, and once it is done.
    """

    def __init__(
        self,
        name: str,
        files: OperationFiles,
        stamps: Mapping[Path, FileStamp],
        disk: Disk,
        *,
        undo: bool,
        takes_away: bool,
    ) -> None:
        self.name = name
        self.wants_journal = undo
        self.takes_away = takes_away
        self.is_begun = self.is_finished = False
        self._is_reported = False
        self._files = files
        self._stamps = stamps
        self._disk = disk
        self._journal: Journal | None = None

    @property
    def journal_no(self) -> int | None:
        """Number of the undo journal; None if there is none, or none yet."""
        return None if self._journal is None else self._journal.number

    @contextmanager
    def changing(self) -> Iterator[Journal | None]:
        """Begin the operation if it has not begun, and add the state of the log to errors.

        Raises:
            RefusedError: a step failed, or the log has changed since it was read.
        """
        try:
            with refusing(self.state_text):
                if not self.is_begun:
                    self._begin()
                yield self._journal
        except RefusedError:
            self._is_reported = True
            raise

    def finish(self, journal: Journal | None) -> None:
        """End the journal. Call it when all changes are durable and checked."""
        if journal is not None:
            journal.add("done", time_ms=_now_ms(), files=self._files.listed())
            journal.sync()
            self._disk.close()
        self.is_finished = True

    def add_state(self, error: BaseException) -> None:
        """Add the state of the log to an error, unless it already reports that."""
        if self._is_reported or not self.wants_journal:
            return
        is_plain = isinstance(error, Exception)
        text = self.state_text() if self.is_begun or not is_plain else ""
        if self.is_finished and not isinstance(error, RefusedError):
            text = f"; the {self.name} is done. {self.undo_command()} reverts it"
        if text:
            error.add_note(text.removeprefix("; "))

    def state_text(self) -> str:
        """Return the state of the log if the operation stops here, as the end of a message."""
        if not self.is_begun:
            return "; nothing was changed"
        if self._journal is None or self.is_finished:
            return ""
        return self.unfinished_text(f"{self.undo_command()} reverts it")

    def undo_command(self) -> str:
        """Return the command that undoes the operation, for messages."""
        return undo_command(self._files.home)

    def unfinished_text(self, undo: str) -> str:
        """Return the state of the files after an operation that was stopped, in words.

        Args:
            undo: what reverts it, in words.
        """
        if self.takes_away:
            return (
                f"; the {self.name} is not finished, and the log ends somewhere between its old "
                f"end and its new one. It may lack a part of its state there. {undo}: run "
                "that before an engine opens the log"
            )
        return (
            f"; the {self.name} is not finished, and the log is as after a crash, from which the "
            f"engine recovers. {undo}"
        )

    def check_last(self) -> None:
        """Refuse to begin after an operation, or its undo, that was interrupted."""
        check_last_journal(self._files.home)

    def _begin(self) -> None:
        self._files.check_unchanged(self._stamps)
        like = self._files.owner_stat()
        check_new_files(self._files.home, like)
        if self.wants_journal:
            self.check_last()
            self._journal = Journal.create(
                self._files.home,
                self._disk,
                like,
                operation=self.name,
                tool=__version__,
                time_ms=_now_ms(),
                takes_away=self.takes_away,
                files=self._files.listed(),
            )
        self.is_begun = True


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
