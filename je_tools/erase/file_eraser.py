"""Erasure of single files: reserved ones are deleted, the entries of others are overwritten."""

from __future__ import annotations

from typing import TYPE_CHECKING

from je_tools.erase.entries_to_erase import EntriesToErase
from je_tools.erase.file_outcomes import FileOutcome, outcome_before_change
from je_tools.erase.in_kind.file_blanking import blank_file
from je_tools.erase.judging import rows_to_erase
from je_tools.erase.overwriting import Overwriter
from je_tools.erase.throttle import DELETE_SHARE
from je_tools.log.file_scan import FilePiece

if TYPE_CHECKING:
    from je_tools.erase.judging import ErasureRules
    from je_tools.erase.plan import FileErasure
    from je_tools.erase.results import ErasureHooks, ErasureResult
    from je_tools.formats.je.log.entry_rows import Rows
    from je_tools.log.log_files import LogFile
    from je_tools.log.scan import Scanner
    from je_tools.writing.disk import Disk


class FileEraser:
    """Erasure of the files of a log, one after the other."""

    def __init__(
        self, result: ErasureResult, scanner: Scanner, hooks: ErasureHooks, disk: Disk
    ) -> None:
        """Prepare the erasure.

        Args:
            result: result to which files and counts are added; its plan says what to erase.
            scanner: scanner for reading the log.
            hooks: functions that are called meanwhile.
            disk: disk to write to.
        """
        self._result = result
        self._scanner = scanner
        self._hooks = hooks
        self._disk = disk
        self._lists = {
            FileOutcome.ERASED: result.erased,
            FileOutcome.PROTECTED: result.protected,
            FileOutcome.SHARED: result.shared,
        }

    def erase(self, files: list[FileErasure]) -> None:
        """Erase files in their order, until all are done or the erasure has to stop.

        Raises:
            RefusedError: a file is not what it was when the log was read.
            OSError: the system refuses a step.
            StoppedError, InputError: a file cannot be read any more.
        """
        result = self._result
        result.pending = [each.file for each in files]
        for each in files:
            if self._hooks.should_stop():
                return
            if self._hooks.is_protected(each.file):
                result.protected.append(each.file)
            elif each.is_deleted:
                self._delete(each.file)
            else:
                outcome = self._overwrite(each)
                if outcome is FileOutcome.STOPPED:
                    return
                self._lists[outcome].append(each.file)
            result.pending.remove(each.file)

    def _delete(self, file: LogFile) -> None:
        self._disk.unlink(file.path)
        self._disk.sync_folder(file.path.parent)
        self._result.deleted.append(file)
        self._hooks.on_work(DELETE_SHARE * file.size)

    def _overwrite(self, erasure: FileErasure) -> FileOutcome:
        """Overwrite the entries of a file."""
        if erasure.is_in_kind:
            return blank_file(erasure.file, self._scanner, self._result, self._hooks, self._disk)
        return self._mark_and_overwrite(erasure.file)

    def _mark_and_overwrite(self, file: LogFile) -> FileOutcome:
        """Overwrite entries batch by batch."""
        result, hooks = self._result, self._hooks
        entries = find_entries_to_erase(file, self._scanner, result.plan.rules)
        hooks.on_work(file.size)
        with Overwriter(file, self._disk, result.counts, hooks) as overwriter:
            for batch in entries.batches():
                outcome = outcome_before_change(file, hooks, overwriter.number)
                if outcome is not None:
                    return outcome
                overwriter.erase(batch)
                hooks.on_batch(file, batch)
        return FileOutcome.ERASED


def find_entries_to_erase(file: LogFile, scanner: Scanner, rules: ErasureRules) -> EntriesToErase:
    """Return the entries of a file to overwrite.

    Raises:
        StoppedError: the file shrank, vanished or was replaced.
        InputError: it cannot be read.
    """

    def collect(rows: Rows) -> EntriesToErase:
        return EntriesToErase.of(rows_to_erase(rows.without_damaged(), rules))

    parts: list[EntriesToErase] = []
    for part in scanner.scan_piece(FilePiece(file), collect):
        parts.extend(part.results)
    return EntriesToErase.joined(parts)
