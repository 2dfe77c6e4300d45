"""Run an erasure under the engine's lock: a checkpoint, then reserved files, then all other files.

A crash at any instant leaves a log that the engine opens with the same records. There is no undo
journal, which would keep the data. `completion` finishes an interrupted erasure.

Source: je-log.md "Data eraser"; DataEraser.runCycle, JE 25.3.17.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from je_tools.checkpoint.apply import apply_under_lock
from je_tools.checkpoint.options import CheckpointOptions
from je_tools.erase.durable_log import make_durable
from je_tools.erase.file_eraser import FileEraser
from je_tools.erase.journal_clearing import (
    check_no_journals,
    clear_own_journals,
    drop_journal,
    stopped_text,
)
from je_tools.erase.plan import plan_erasure
from je_tools.erase.results import ErasureHooks, ErasureResult
from je_tools.errors import RefusedError
from je_tools.log.opening import open_environment
from je_tools.operations.names import CHECKPOINT
from je_tools.recovery.opening import held_snapshot
from je_tools.writing.disk import Disk
from je_tools.writing.lock import EnvironmentLock
from je_tools.writing.refusing import reporting_state
from je_tools.writing.stamps import stamp_files

if TYPE_CHECKING:
    from je_tools.checkpoint.options import CheckpointResult
    from je_tools.erase.options import ErasureOptions
    from je_tools.erase.plan import ErasurePlan
    from je_tools.log.environment import Environment
    from je_tools.log.scan import Scanner


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

    The eraser's record of a cycle is only updated if the hook `on_erased` does so; see
    `note_progress`.

    Args:
        home: directory of the environment.
        scanner: scanner for reading the log.
        options: options.
        now_ms: current time.
        hooks: functions that are called meanwhile.
        disk: disk to write to.

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
        clear_own_journals(home, disk)
        check_no_journals(home)
        run = _EraseRun(home, scanner, options, now_ms, hooks, disk)
        result = run.plan()
        if result.plan.needs_checkpoint:
            checkpoint = run.write_checkpoint(lock, result.plan)
            result = run.plan(is_checkpointed=True)
            result.checkpoint = checkpoint
        hooks.on_plan(result.plan)
        run.execute(result)
        hooks.on_erased(lock, result)
        return result


class _EraseRun:
    """One run of an erasure, while the lock is held."""

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

    def write_checkpoint(self, lock: EnvironmentLock, plan: ErasurePlan) -> CheckpointResult:
        """Write the checkpoint that the erasure needs, and drop its undo journal.

        Undoing the checkpoint after the erasure would bring back a tree whose nodes are erased.
        """
        first_vlsn = None if plan.head is None else plan.head.after.range.first
        options = CheckpointOptions(
            before_erasure=True,
            first_vlsn=first_vlsn,
            rewritten=plan.rewritten,
            begins_file=plan.is_in_kind,
            part_of=CHECKPOINT,
        )
        _, result = apply_under_lock(
            lock, open_environment([self.home]), self.scanner, options, self.now_ms, disk=self.disk
        )
        drop_journal(self.home, result.journal_no, self.disk)
        return result

    def plan(self, *, is_checkpointed: bool = False) -> ErasureResult:
        """Return the plan of the log as it is now, and make that log durable.

        Args:
            is_checkpointed: as for `plan_erasure`.

        Raises:
            RefusedError: nothing may be erased.
        """
        environment = open_environment([self.home])
        stamps = stamp_files(environment)
        plan = self._planned(environment, is_checkpointed=is_checkpointed)
        self._check(plan)
        make_durable(environment, stamps, self.disk)
        return ErasureResult(plan)

    def _planned(self, environment: Environment, *, is_checkpointed: bool) -> ErasurePlan:
        with held_snapshot(
            environment, self.scanner, now_ms=self.now_ms, as_member=True
        ) as snapshot:
            return plan_erasure(snapshot, self.options, is_checkpointed=is_checkpointed)

    def _check(self, plan: ErasurePlan) -> None:
        if plan.obstacles:
            raise RefusedError(
                f"{self.home}: nothing can be erased: "
                + "; ".join(each.text for each in plan.obstacles)
            )

    def execute(self, result: ErasureResult) -> None:
        """Delete reserved files, then erase the others in log order, and check the log again.

        Raises:
            RefusedError: a step failed.
        """
        deleted = [each for each in result.plan.files if each.is_deleted]
        erased = [each for each in result.plan.files if each.fsync_count]
        eraser = FileEraser(result, self.scanner, self.hooks, self.disk)
        with reporting_state(lambda: stopped_text(self.home, len(result.erased), self.options)):
            eraser.erase([*deleted, *erased])
        if not result.pending:
            result.left = self._planned(open_environment([self.home]), is_checkpointed=True)
