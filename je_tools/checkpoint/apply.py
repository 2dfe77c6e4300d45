"""Checkpoints on disk: plan one, or write it in place or to a copy.

Source: RecoveryManager.findEndOfLog, FileManager.truncateLog, JE 18.3.12.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from je_tools.checkpoint.cut_and_write import cut_and_write
from je_tools.checkpoint.decision import has_work, is_at_rest, without_second_cut
from je_tools.checkpoint.judged_versions import check_version
from je_tools.checkpoint.options import NOTHING, CheckpointOptions, CheckpointResult
from je_tools.checkpoint.verification import check_written
from je_tools.checkpoint.written_log import (
    OnReader,
    copied_to,
    locked,
    written_copy,
    written_in_place,
)
from je_tools.log.opening import open_environment
from je_tools.output.files.outputs import check_output
from je_tools.recovery.opening import held_snapshot
from je_tools.recovery.snapshot import Snapshot
from je_tools.writing.interrupted import check_whole

if TYPE_CHECKING:
    from je_tools.log.environment import Environment
    from je_tools.log.scan import Scanner
    from je_tools.writing.disk import Disk
    from je_tools.writing.lock import EnvironmentLock
    from je_tools.writing.session import Session

OnPlan = Callable[[Snapshot], None]


def plan_checkpoint(snapshot: Snapshot, options: CheckpointOptions) -> CheckpointResult:
    """Return what a checkpoint would write.

    Raises:
        RefusedError: it cannot be written.
        InputError: the log version can only be read.
    """
    return cut_and_write(snapshot, options, None) if has_work(snapshot, options) else NOTHING


def apply_checkpoint(
    home: Path,
    scanner: Scanner,
    options: CheckpointOptions,
    now_ms: int,
    on_plan: OnPlan | None = None,
    *,
    on_reader: OnReader | None = None,
    disk: Disk | None = None,
) -> tuple[Snapshot, CheckpointResult]:
    """Write a checkpoint in place, with the engine's lock held and an undo journal.

    Without permission to write in the directory, the lock cannot be taken. A log that needs no
    checkpoint is then reported without it.

    Args:
        home: directory of the environment.
        scanner: scanner for reading the log.
        options: options.
        now_ms: current time.
        on_plan: called with the log as it will be, before anything is written, once it is known
            that the checkpoint can be written.
        on_reader: called for each reader that has the environment open; readers do not prevent
            writing.
        disk: disk to write to.

    Returns:
        The log as it was, and the result.

    Raises:
        RefusedError: the environment is in use, or the checkpoint cannot be written.
        InputError: there is no environment, or nothing in it leads to records.
        StoppedError: a file shrank meanwhile.
    """
    if not is_writable(home):
        resting = _snapshot_at_rest(open_environment([home]), scanner, options, now_ms, on_plan)
        if resting is not None:
            return resting, NOTHING
    with locked(home, on_reader, disk) as (lock, environment):
        return apply_under_lock(lock, environment, scanner, options, now_ms, on_plan, disk=disk)


def apply_to_copy(
    environment: Environment,
    target: Path,
    scanner: Scanner,
    options: CheckpointOptions,
    now_ms: int,
    on_plan: OnPlan | None = None,
) -> tuple[Snapshot, CheckpointResult]:
    """Write a checkpoint to a copy of an environment, which gets its name when it is complete.

    If the checkpoint cannot be written, nothing is copied. A log that needs no checkpoint is copied
    as it is.

    Args:
        environment: the original, which stays as it is.
        target: path of the copy.
        scanner, options, now_ms, on_plan: as for `apply_checkpoint`.

    Returns:
        As `apply_checkpoint`.

    Raises:
        RefusedError: the copy cannot be made, or the checkpoint cannot be written.
        InputError, StoppedError: as `apply_checkpoint`.
    """
    check_output(target, environment)
    check_whole(Path(environment.name))
    options = without_second_cut(environment, scanner, options)
    with held_snapshot(
        environment, scanner, now_ms=now_ms, to_lsn=options.to_lsn, as_member=True
    ) as snapshot:
        is_to_do = has_work(snapshot, options)
        if on_plan is not None:
            on_plan(snapshot)
        with copied_to(environment, target, scanner) as folder:
            if not is_to_do:
                return snapshot, NOTHING
            name, takes_away = _operation_name(options), options.to_lsn is not None
            with written_copy(folder, name, takes_away=takes_away) as session:
                return snapshot, _write_and_check(snapshot, options, session, folder)


def apply_under_lock(
    lock: EnvironmentLock,
    environment: Environment,
    scanner: Scanner,
    options: CheckpointOptions,
    now_ms: int,
    on_plan: OnPlan | None = None,
    *,
    disk: Disk | None = None,
) -> tuple[Snapshot, CheckpointResult]:
    """Write a checkpoint in place while the lock is held; see `apply_checkpoint`."""
    options = without_second_cut(environment, scanner, options)
    name, to_lsn = _operation_name(options), options.to_lsn
    with written_in_place(lock, environment, scanner, now_ms, name, to_lsn=to_lsn, disk=disk) as (
        session,
        snapshot,
    ):
        is_to_do = has_work(snapshot, options)
        if is_to_do:
            check_version(snapshot)
        if on_plan is not None:
            on_plan(snapshot)
        if not is_to_do:
            return snapshot, NOTHING
        home = Path(environment.name)
        return snapshot, _write_and_check(snapshot, options, session, home)


def is_writable(home: Path) -> bool:
    """Return True if files may be created in a directory."""
    return os.access(home, os.W_OK | os.X_OK)


def _snapshot_at_rest(
    environment: Environment,
    scanner: Scanner,
    options: CheckpointOptions,
    now_ms: int,
    on_plan: OnPlan | None,
) -> Snapshot | None:
    """Return the log if it needs no checkpoint, else None."""
    options = without_second_cut(environment, scanner, options)
    with held_snapshot(
        environment, scanner, now_ms=now_ms, to_lsn=options.to_lsn, as_member=True
    ) as snapshot:
        if not is_at_rest(snapshot):
            return None
        if on_plan is not None:
            on_plan(snapshot)
        return snapshot


def _write_and_check(
    snapshot: Snapshot, options: CheckpointOptions, session: Session, home: Path
) -> CheckpointResult:
    """Write the checkpoint, make it durable, and compare the records before and after."""
    result = cut_and_write(snapshot, options, session)
    session.finish()
    compared = None
    if result.checkpoint is not None:
        compared = check_written(snapshot, result.checkpoint, home)
    return replace(result, journal_no=session.journal_no, compared=compared)


def _operation_name(options: CheckpointOptions) -> str:
    return options.part_of or ("recovery" if options.cuts else "checkpoint")
