"""Append operations: plan one, do it in place, or do it on a copy.

Source: the project's own; `je_tools.writing.session` writes so that a crash leaves a log that the
engine opens.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from je_tools.append.checks import check_appendable
from je_tools.append.operation import AppendLog, AppendOperation, AppendResult
from je_tools.append.verification import check_appended
from je_tools.checkpoint.judged_versions import check_version
from je_tools.checkpoint.log_end import must_begin_file
from je_tools.checkpoint.settings import choose_file_max
from je_tools.checkpoint.utilization_tracker import track_utilization
from je_tools.checkpoint.written_log import (
    OnReader,
    copied_to,
    locked,
    written_copy,
    written_in_place,
)
from je_tools.output.files.outputs import check_output
from je_tools.recovery.opening import held_snapshot
from je_tools.writing.interrupted import check_whole

if TYPE_CHECKING:
    from je_tools.checkpoint.rollbacks import InvisibleMark
    from je_tools.checkpoint.utilization_tracker import TrackedUtilization
    from je_tools.log.environment import Environment
    from je_tools.log.scan import Scanner
    from je_tools.recovery.snapshot import Snapshot
    from je_tools.writing.disk import Disk
    from je_tools.writing.lock import EnvironmentLock
    from je_tools.writing.session import Session


def plan_append(
    snapshot: Snapshot, operation: AppendOperation, *, file_max: int | None = None
) -> AppendResult:
    """Return what an operation would write; nothing is written.

    Args:
        snapshot: the log, as a member of its group sees it.
        operation: the operation.
        file_max: maximum size of a file in bytes; None for the environment's setting.

    Raises:
        RefusedError: the operation cannot be done.
        InputError: the log version can only be read.
    """
    return _AppendRun.of(snapshot, operation, file_max).plan


def apply_append(
    home: Path,
    scanner: Scanner,
    operation: AppendOperation,
    now_ms: int,
    *,
    file_max: int | None = None,
    on_reader: OnReader | None = None,
    disk: Disk | None = None,
) -> tuple[Snapshot, AppendResult]:
    """Do an operation in place, with the engine's lock held and an undo journal.

    Args:
        home: directory of the environment.
        scanner: scanner for reading the log.
        operation: the operation.
        now_ms: current time.
        file_max: maximum size of a file in bytes; None for the environment's setting.
        on_reader: called for each reader that has the environment open; readers do not prevent
            writing.
        disk: disk to write to; None for the real one.

    Returns:
        The log as it was, and the result.

    Raises:
        RefusedError: the environment is in use, or the operation cannot be done.
        InputError: there is no environment, or nothing in it leads to records.
        StoppedError: a file shrank meanwhile.
    """
    with locked(home, on_reader, disk) as (lock, environment):
        return append_under_lock(
            lock, environment, scanner, operation, now_ms, file_max=file_max, disk=disk
        )


def append_under_lock(
    lock: EnvironmentLock,
    environment: Environment,
    scanner: Scanner,
    operation: AppendOperation,
    now_ms: int,
    *,
    file_max: int | None = None,
    disk: Disk | None = None,
) -> tuple[Snapshot, AppendResult]:
    """Do an operation in place while the lock is held; see `apply_append`."""
    name, home = operation.name, Path(environment.name)
    with written_in_place(lock, environment, scanner, now_ms, name, disk=disk) as place:
        session, snapshot = place
        run = _AppendRun.of(snapshot, operation, file_max)
        check_version(snapshot)
        return snapshot, run.write(session, home)


def append_to_copy(
    environment: Environment,
    target: Path,
    scanner: Scanner,
    operation: AppendOperation,
    now_ms: int,
    *,
    file_max: int | None = None,
) -> tuple[Snapshot, AppendResult]:
    """Do an operation on a copy of an environment, which gets its name when it is complete.

    If the operation cannot be done, nothing is copied.

    Args:
        environment: the original, which stays as it is.
        target: path of the copy.
        scanner, operation, now_ms, file_max: as for `apply_append`.

    Returns:
        As `apply_append`.

    Raises:
        RefusedError: the copy cannot be made, or the operation cannot be done.
        InputError, StoppedError: as `apply_append`.
    """
    check_output(target, environment)
    check_whole(Path(environment.name))
    with held_snapshot(environment, scanner, now_ms=now_ms, as_member=True) as snapshot:
        run = _AppendRun.of(snapshot, operation, file_max)
        with (
            copied_to(environment, target, scanner) as folder,
            written_copy(folder, operation.name) as session,
        ):
            return snapshot, run.write(session, folder)


class _AppendRun(Struct, frozen=True):
    """An operation on one log.

    Attributes:
        snapshot: the log.
        operation: the operation.
        tracked: the ids given so far, and the replication stream since the last checkpoint began.
        file_max: maximum size of a file, in bytes.
        plan: what the operation writes.
    """

    snapshot: Snapshot
    operation: AppendOperation
    tracked: TrackedUtilization
    file_max: int
    plan: AppendResult

    @classmethod
    def of(cls, snapshot: Snapshot, operation: AppendOperation, file_max: int | None) -> _AppendRun:
        """Plan an operation; nothing is written.

        Raises:
            RefusedError: the operation cannot be done.
            InputError: the log version can only be read.
        """
        check_appendable(snapshot)
        most = choose_file_max(snapshot, file_max)
        tracked = track_utilization(snapshot, frozenset())
        plan = _execute(snapshot, operation, tracked, most, None)
        return cls(snapshot, operation, tracked, most, plan)

    def write(self, session: Session, home: Path) -> AppendResult:
        """Write what is planned, make it durable, read the log again, and check it.

        Args:
            session: operation on the disk.
            home: directory of the log that is written.

        Raises:
            RefusedError: it cannot be written, or the log is then not as planned.
        """
        snapshot, plan = self.snapshot, self.plan
        if plan.is_empty:
            return plan
        changed_files = {mark.file_no for mark in plan.flipped}
        if plan.size and not must_begin_file(snapshot):
            changed_files.add(snapshot.end.files[-1].file_no)
        session.check_own(changed_files)
        session.check_space(plan.size)
        done = _execute(snapshot, self.operation, self.tracked, self.file_max, session)
        if done != plan:
            raise AssertionError(f"{self.operation.name}: the plan is not what was written")
        session.finish()
        check_appended(snapshot, self.operation, done, home)
        return replace(done, journal_no=session.journal_no)


def _execute(
    snapshot: Snapshot,
    operation: AppendOperation,
    tracked: TrackedUtilization,
    file_max: int,
    session: Session | None,
) -> AppendResult:
    """Run an operation. Without a session, its bytes and bits go nowhere."""

    def emit(file_no: int, offset: int, data: bytes) -> None:
        if session is not None:
            session.append(file_no, offset, data)

    def flip(marks: Sequence[InvisibleMark]) -> None:
        if session is None:
            return
        for mark in marks:
            session.flip_bits(mark.file_no, mark.offset, mark.old, mark.new)

    log = AppendLog(snapshot, tracked, file_max=file_max, emit=emit, flip_bits=flip)
    operation.write(log)
    return log.finish(operation.name)
