"""Check that a log has what the engine needs to open it: its end, a checkpoint, a root, its files.

A log without damaged bytes may still lack these. The trees are not read here.

Source: je-log.md "Recovery"; RecoveryManager.findEndOfLog, findLastCheckpoint, JE 18.3.12.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec.structs import replace

from je_tools.errors import InputError, StoppedError
from je_tools.formats.je.header import NULL_LSN
from je_tools.formats.je.log.walk import NO_OFFSET
from je_tools.log.file_findings import finding
from je_tools.log.scan import Scanner
from je_tools.log.sources import fields_at, reopened
from je_tools.recovery.end import (
    Refusal,
    StartCheckpoint,
    end_of_whole,
    find_checkpoint,
    find_end,
    last_files,
)
from je_tools.recovery.refusals import REFUSALS, WHY

if TYPE_CHECKING:
    from je_tools.findings import Finding
    from je_tools.log.environment import Environment
    from je_tools.log.file_scan import FileState
    from je_tools.log.log_files import LogFile
    from je_tools.recovery.marks import RecoveryMark


class OpeningCheck:
    """The check that the engine finds the end of a log, its checkpoint, its root and its files.

    It uses the marks that a scan of the whole log has found. It reads again only a damaged last
    file, and files with a checkpoint.

    Attributes:
        last_no: number of the file in which the log ends; -1 for none.
    """

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        files, _ = last_files(environment)
        self.last_no = files[-1].file_no if files else -1
        self._marks: list[RecoveryMark] = []
        self._state: FileState | None = None
        self._is_damaged = False
        self._is_unread = bool(environment.unreadable)
        self._marked: set[int] = set()

    def merge(
        self, file_no: int, marks: Sequence[RecoveryMark], *, is_marked: bool, bad: bool
    ) -> None:
        """Merge what a scan has seen in some rows; call in log order.

        Args:
            file_no: number of the file.
            marks: marks in the rows, if the file is the last.
            is_marked: True if there is any mark in the rows.
            bad: True if a row is damaged.
        """
        if is_marked:
            self._marked.add(file_no)
        if file_no == self.last_no:
            self._marks += marks
            self._is_damaged |= bad

    def merge_end(self, state: FileState) -> None:
        """Merge the state of a file that has been read to its end."""
        if state.file.file_no == self.last_no:
            self._state = state

    def pass_over(self) -> None:
        """Note that a file could not be read, so that the result is unknown."""
        self._is_unread = True

    @cached_property
    def _start(self) -> tuple[StartCheckpoint, Refusal | None] | None:
        """The checkpoint, and the reason for a refusal.

        None if the engine would not look for a checkpoint, or not all of the log was read.
        """
        environment, state = self.environment, self._state
        if state is None or self._is_unread or not environment.is_directory:
            return None
        scanner = Scanner(threads=1)
        if self._is_damaged or state.gaps or state.last == NO_OFFSET:
            end = find_end(environment, scanner)
        else:
            end = end_of_whole(environment, self._marks, state.last, state.tail)
        if end.refusal in (Refusal.NO_FILES, Refusal.BAD_FILE_HEADER):
            return None
        checkpoint, refusal = find_checkpoint(environment, end, scanner, self._has_marks)
        root_no = checkpoint.root_lsn >> 32 & 0xFFFFFFFF
        if checkpoint.root_lsn != NULL_LSN and root_no not in environment.numbers:
            refusal = Refusal.NO_ROOT
        return checkpoint, refusal

    def _has_marks(self, file: LogFile) -> bool:
        return file.file_no in self._marked

    @cached_property
    def db_tree_flags(self) -> int | None:
        """Flags of the DbTree from which recovery would begin; None if it is not readable."""
        if self._start is None or self._start[0].root_lsn == NULL_LSN:
            return None
        lsn = self._start[0].root_lsn
        for file in self.environment.files:
            if file.file_no == lsn >> 32:
                with reopened(file.path, file.size) as source:
                    fields = fields_at(source, lsn & 0xFFFFFFFF, file.version)
                return fields.get("flags")
        return None

    def needed_from(self) -> tuple[int, str] | None:
        """Return the number of the first file that recovery reads, and the reason in words.

        None if that is not known.
        """
        if self._start is None:
            return None
        checkpoint = self._start[0]
        if checkpoint.end_lsn == NULL_LSN:
            return self.environment.files[0].file_no, "no checkpoint: recovery reads the whole log"
        first = min(checkpoint.start_lsn, checkpoint.first_active_lsn) >> 32
        return first, f"a checkpoint whose recovery begins in {first:08x}.jdb"

    def missing_in_use(self) -> list[int] | None:
        """Return the numbers of missing files that the engine counts as in use.

        The counts are those after recovery. None if there is no tree to read them from, or if the
        log changes meanwhile.
        """
        if self._start is None or self._start[0].root_lsn == NULL_LSN:
            return None
        from je_tools.recovery.opening import held_snapshot
        from je_tools.recovery.utilization import missing_in_use

        try:
            with held_snapshot(self.environment, Scanner(threads=1), now_ms=0) as snapshot:
                return missing_in_use(snapshot)
        except (InputError, StoppedError):
            return None

    def findings(self) -> Iterator[Finding]:
        """Yield a finding if the log has no root; other problems have findings of their own."""
        if self._start is not None and self._start[1] is Refusal.NO_ROOT:
            refused = finding(self.environment, "recovery-refused", found=WHY[Refusal.NO_ROOT])
            yield replace(refused, hint=REFUSALS[Refusal.NO_ROOT].hint)
