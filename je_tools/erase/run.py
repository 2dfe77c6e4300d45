"""Run of an erasure: checkpoint, reserved files, then file by file, under the engine's lock.

At every instant a crash leaves a log that the engine opens with the same records. No undo journal
is kept, since that would keep the data; `completion` finishes what was interrupted.

Source: je-log.md "Data eraser"; DataEraser.runCycle, JE 25.3.17.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, field

from je_tools.checkpoint.apply import apply_under_lock
from je_tools.checkpoint.options import CheckpointOptions, CheckpointResult
from je_tools.core.escaping import quoted
from je_tools.erase.journals import check_no_journals, drop_journal
from je_tools.erase.judging import judge
from je_tools.erase.overwriting import Erasures, OverwriteCounts, Overwriter
from je_tools.erase.plan import ErasurePlan, plan_erasure
from je_tools.erase.reasons import FIRST_ERASE
from je_tools.errors import RefusedError
from je_tools.log.file_scan import FilePiece
from je_tools.log.opening import open_environment
from je_tools.recovery.opening import held_snapshot
from je_tools.writing.disk import Disk
from je_tools.writing.interrupted import check_whole
from je_tools.writing.lock import EnvironmentLock, Holder
from je_tools.writing.log_files import LogFiles
from je_tools.writing.refusing import refusing
from je_tools.writing.stamps import stamp_files

if TYPE_CHECKING:
    from je_tools.erase.judging import ErasureRules
    from je_tools.erase.options import ErasureOptions
    from je_tools.formats.je.log.entry_rows import Rows
    from je_tools.log.log_files import LogFile
    from je_tools.log.scan import Scanner


class ErasureHooks(Struct, frozen=True):
    """Functions that are called during an erasure.

    Attributes:
        should_stop: returns True to stop after the present batch.
        is_protected: returns True for a file that must stay as it is from now on.
        on_plan: called with the plan before anything is erased.
        on_batch: called with a file and the entries of it that were overwritten.
        on_fsync: called after each fsync with the file and the time in milliseconds.
        on_work: called with the file, and the share of it that was processed since the last call;
            it waits if the work is throttled.
        on_reader: called for each reader that has the environment open.
    """

    should_stop: Callable[[], bool] = lambda: False
    is_protected: Callable[[LogFile], bool] = lambda _file: False
    on_plan: Callable[[ErasurePlan], None] = lambda _plan: None
    on_batch: Callable[[LogFile, Erasures], None] = lambda _file, _batch: None
    on_fsync: Callable[[Path, int], None] = lambda _path, _now_ms: None
    on_work: Callable[[LogFile, float], None] = lambda _file, _share: None
    on_reader: Callable[[Holder], None] = lambda _reader: None


class ErasureResult(Struct):
    """Result of an erasure.

    Attributes:
        plan: the plan that was carried out.
        checkpoint: the checkpoint that was written first; None if none was needed.
        counts: what was done to files.
        erased, deleted: files that were processed, and reserved files that were deleted.
        pending: files that are left, because the erasure was stopped.
        protected: files that became protected meanwhile.
        left: the plan of the log afterwards, as a check; None if the erasure was stopped.
    """

    plan: ErasurePlan
    checkpoint: CheckpointResult | None = None
    counts: OverwriteCounts = field(default_factory=OverwriteCounts)
    erased: list[LogFile] = field(default_factory=list)
    deleted: list[LogFile] = field(default_factory=list)
    pending: list[LogFile] = field(default_factory=list)
    protected: list[LogFile] = field(default_factory=list)
    left: ErasurePlan | None = None

    @property
    def is_complete(self) -> bool:
        """True if all files were processed."""
        return not self.pending and not self.protected


def run_erasure(
    home: Path,
    scanner: Scanner,
    options: ErasureOptions,
    now_ms: int,
    hooks: ErasureHooks | None = None,
    *,
    disk: Disk | None = None,
) -> ErasureResult:
    """Erase a log in place, with the engine's lock held.

    Args:
        home: directory of the environment.
        scanner: scanner for reading the log.
        options: options.
        now_ms: current time.
        hooks: functions that are called meanwhile.
        disk: disk that is written to.

    Raises:
        RefusedError: the environment is in use, or nothing may be erased in it; or a step failed,
            and the message says how far the erasure came.
        InputError: there is no environment, or nothing in it leads to records.
        StoppedError: a file shrank meanwhile.
    """
    hooks, disk = hooks or ErasureHooks(), disk or Disk()
    with EnvironmentLock(home, disk, instead="stop that first") as lock:
        for reader in lock.readers:
            hooks.on_reader(reader)
        check_whole(home)
        check_no_journals(home)
        run = _Run(home, scanner, options, now_ms, hooks, disk)
        checkpoint = run.write_checkpoint(lock)
        result = run.plan()
        result.checkpoint = checkpoint
        hooks.on_plan(result.plan)
        run.execute(result)
        return result


class _Run:
    def __init__(
        self,
        home: Path,
        scanner: Scanner,
        options: ErasureOptions,
        now_ms: int,
        hooks: ErasureHooks,
        disk: Disk,
    ) -> None:
        self.home = home
        self.scanner = scanner
        self.options = options
        self.now_ms = now_ms
        self.hooks = hooks
        self.disk = disk

    def write_checkpoint(self, lock: EnvironmentLock) -> CheckpointResult | None:
        """Write the checkpoint that the erasure needs, and drop its undo journal.

        To revert the checkpoint after the erasure would bring back a tree whose nodes are erased.
        """
        environment = open_environment([self.home])
        with held_snapshot(
            environment, self.scanner, now_ms=self.now_ms, as_member=True
        ) as snapshot:
            plan = plan_erasure(snapshot, self.options)
        self._check(plan)
        if not plan.needs_checkpoint:
            return None
        first_vlsn = None if plan.head is None else plan.head.after.range.first
        options = CheckpointOptions(before_erasure=True, first_vlsn=first_vlsn)
        _, result = apply_under_lock(
            lock, self.home, self.scanner, options, self.now_ms, disk=self.disk
        )
        drop_journal(self.home, result.journal_no, self.disk)
        return result

    def plan(self) -> ErasureResult:
        """Return the plan of the log as it is now, and make that log durable.

        Raises:
            RefusedError: nothing may be erased.
        """
        environment = open_environment([self.home])
        stamps = stamp_files(environment)
        with held_snapshot(
            environment, self.scanner, now_ms=self.now_ms, as_member=True
        ) as snapshot:
            plan = plan_erasure(snapshot, self.options)
        self._check(plan)
        files = LogFiles(environment)
        with refusing(lambda: "; nothing was erased"):
            files.check_unchanged(stamps)
            # The checkpoint that makes older entries superfluous must not get lost.
            with self.disk:
                for file in environment.files:
                    self.disk.sync(file.path)
            for folder in {file.path.parent for file in environment.files}:
                self.disk.sync_folder(folder)
        return ErasureResult(plan)

    def _check(self, plan: ErasurePlan) -> None:
        if plan.obstacles:
            raise RefusedError(
                f"{self.home}: nothing can be erased: "
                + "; ".join(each.text for each in plan.obstacles)
            )

    def execute(self, result: ErasureResult) -> None:
        """Delete reserved files, and erase the others in log order.

        Raises:
            RefusedError: a step failed.
        """
        files = [each for each in result.plan.files if each.is_deleted or each.fsync_count]
        result.pending = [each.file for each in files]
        with refusing(lambda: self._state_text(result)):
            for each in files:
                if self.hooks.should_stop():
                    return
                if self.hooks.is_protected(each.file):
                    result.protected.append(each.file)
                elif each.is_deleted:
                    self._delete(each.file, result)
                elif not self._erase(each.file, result):
                    if not self.hooks.is_protected(each.file):
                        return
                    result.protected.append(each.file)
                result.pending.remove(each.file)
        result.left = self.plan().plan

    def _delete(self, file: LogFile, result: ErasureResult) -> None:
        self.disk.unlink(file.path)
        self.disk.sync_folder(file.path.parent)
        result.deleted.append(file)
        self.hooks.on_work(file, 1)

    def _erase(self, file: LogFile, result: ErasureResult) -> bool:
        """Erase a file; return False if the erasure was stopped in the middle of it."""
        erasures = find_erasures(file, self.scanner, result.plan.rules)
        done = 0
        with Overwriter(file.path, self.disk, result.counts, self.hooks.on_fsync) as overwriter:
            for batch in erasures.batches():
                if self.hooks.should_stop() or self.hooks.is_protected(file):
                    return False
                overwriter.erase(batch)
                self.hooks.on_batch(file, batch)
                end = int(batch.offset[-1])
                self.hooks.on_work(file, (end - done) / file.size)
                done = end
        self.hooks.on_work(file, (file.size - done) / file.size)
        result.erased.append(file)
        return True

    def _state_text(self, result: ErasureResult) -> str:
        return (
            f"; {len(result.erased):,} files are erased, and the engine opens the log as it is: "
            f"run `je-tools erase run {quoted(str(self.home))} --apply` again to go on"
        )


def find_erasures(file: LogFile, scanner: Scanner, rules: ErasureRules) -> Erasures:
    """Return the entries of a file to overwrite.

    Raises:
        StoppedError: the file shrank, vanished or was replaced.
        InputError: it cannot be read.
    """

    def collect(rows: Rows) -> Erasures:
        rows = rows.select(rows.good)
        rows = rows.select(judge(rows, rules) >= FIRST_ERASE)
        return Erasures(
            rows.offset.astype(np.int64),
            rows.header_size.astype(np.int64),
            rows.item_size.astype(np.int64),
            rows.type.copy(),
        )

    parts: list[Erasures] = []
    for part in scanner.scan_piece(FilePiece(file), collect):
        parts.extend(part.results)
    return Erasures.joined(parts)
