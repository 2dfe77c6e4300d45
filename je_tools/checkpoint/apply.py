"""A checkpoint, planned or written, and the cutting of what a crash has left behind the log.

Source: RecoveryManager.findEndOfLog, FileManager.truncateLog, JE 18.3.12.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from je_tools.checkpoint.cutting import check_cut, files_behind
from je_tools.checkpoint.rollbacks import lacking_marks
from je_tools.checkpoint.run import (
    Checkpoint,
    Settings,
    begins_file,
    check_writable,
    is_needed,
    is_to_cut,
    write_checkpoint,
)
from je_tools.environment import Environment, LogFile, open_environment
from je_tools.errors import InputError, RefusedError
from je_tools.formats.je.header import lsn_text
from je_tools.properties import BIN_DELTA, FILE_MAX, NUMBERS, read_settings
from je_tools.properties import Settings as Properties
from je_tools.scan import Scanner
from je_tools.snapshot import Snapshot, held_snapshot
from je_tools.writing.copying import copied
from je_tools.writing.disk import Disk
from je_tools.writing.lock import EnvironmentLock, Holder
from je_tools.writing.session import Session, look_at

Tell = Callable[[Snapshot], None]

NATIVE_VERSIONS = (8, 17)
"""Log versions of which the project's tests have the engine judge what is written."""

_VERSION_MIN = 8
_HELD_MAX = 8 << 20


@dataclass(frozen=True, slots=True)
class Orders:
    """What is asked for.

    Attributes:
        cuts: also cut off what is behind the end of the log, as recovery does.
        file_max: bytes of a file; None for what the environment says.
        to_lsn: cut back to the entry there; None for the end of the log.
        force: also cut off what a replication group has.
    """

    cuts: bool = False
    file_max: int | None = None
    to_lsn: int | None = None
    force: bool = False


@dataclass(frozen=True)
class Outcome:
    """What is written, or would be.

    Attributes:
        checkpoint: None where none is needed.
        cut_size: bytes that are cut off the last file.
        set_aside: names of files that are renamed.
        removed: names of files that are taken out of the log, as they lie behind its end.
        journal_no: of the undo journal; None where nothing was written in place.
    """

    checkpoint: Checkpoint | None
    cut_size: int
    set_aside: tuple[str, ...]
    removed: tuple[str, ...] = ()
    journal_no: int | None = None

    @property
    def changes(self) -> bool:
        """Whether anything is written, cut or renamed."""
        return self.checkpoint is not None or bool(self.cut_size or self.set_aside or self.removed)


def plan_checkpoint(snapshot: Snapshot, orders: Orders) -> Outcome:
    """What would be written.

    Raises:
        RefusedError: nothing can be.
        InputError: the log is of a version that is only read.
    """
    return _write(snapshot, orders, None)


def apply_checkpoint(
    home: Path,
    scanner: Scanner,
    orders: Orders,
    now_ms: int,
    tell: Tell | None = None,
    *,
    meet: Callable[[Holder], None] | None = None,
    disk: Disk | None = None,
) -> tuple[Snapshot, Outcome]:
    """Write a checkpoint in place, with the engine's lock held, and an undo journal.

    Args:
        home: the environment.
        scanner: how it is read.
        orders: what is asked for.
        now_ms: the time.
        tell: told of the log as it will be, before anything is written.
        meet: told of each who has the environment open to read, which keeps nobody from writing.
        disk: that is written to.

    Returns:
        The log as it was, and what was written.

    Raises:
        RefusedError: the environment is in use, or what is to be written cannot be.
        InputError: there is no environment, or nothing in it leads to records.
        StoppedError: a file became shorter meanwhile.
    """
    with EnvironmentLock(home, disk) as lock:
        if meet is not None:
            for reader in lock.readers:
                meet(reader)
        environment = open_environment([home])
        seen = look_at(environment)
        with (
            Session(environment, _operation(orders), lock, seen=seen, disk=disk) as session,
            held_snapshot(
                environment, scanner, now_ms=now_ms, to_lsn=orders.to_lsn, as_member=True
            ) as snapshot,
        ):
            _check_version(snapshot)
            _check_and_tell(snapshot, orders, tell)
            return snapshot, _write_and_check(snapshot, orders, session)


def apply_to_copy(
    environment: Environment,
    target: Path,
    scanner: Scanner,
    orders: Orders,
    now_ms: int,
    tell: Tell | None = None,
) -> tuple[Snapshot, Outcome]:
    """Write a checkpoint to a copy of an environment, which gets its name when that is done.

    Args:
        environment: the original, which stays as it is.
        target: the copy's name.
        scanner, orders, now_ms, tell: as for `apply_checkpoint`.

    Returns:
        As `apply_checkpoint`.

    Raises:
        RefusedError: the copy cannot be made, or what is to be written cannot be.
        InputError, StoppedError: as `apply_checkpoint`.
    """
    with copied(environment, target) as folder:
        copy = open_environment([folder])
        with (
            held_snapshot(
                copy, scanner, now_ms=now_ms, to_lsn=orders.to_lsn, as_member=True
            ) as snapshot,
            Session(copy, _operation(orders), None, undo=False) as session,
        ):
            _check_and_tell(snapshot, orders, tell)
            return snapshot, _write_and_check(snapshot, orders, session)


def _check_and_tell(snapshot: Snapshot, orders: Orders, tell: Tell | None) -> None:
    if orders.to_lsn is not None:
        check_cut(snapshot, force=orders.force)
    if tell is not None:
        tell(snapshot)


def _operation(orders: Orders) -> str:
    return "recovery" if orders.cuts else "checkpoint"


def _check_version(snapshot: Snapshot) -> None:
    version = snapshot.end.files[-1].version
    if version not in NATIVE_VERSIONS:
        said = " and ".join(str(each) for each in NATIVE_VERSIONS)
        raise RefusedError(
            f"{snapshot.environment.name}: a log of version {version}; in place only versions "
            f"{said} are written. --output DIR writes to a copy, for the engine to judge."
        )


def _write_and_check(snapshot: Snapshot, orders: Orders, session: Session) -> Outcome:
    outcome = _write(snapshot, orders, session)
    session.finish()
    if outcome.checkpoint is not None:
        _check(snapshot, outcome.checkpoint)
    return replace(outcome, journal_no=session.journal_no)


def _check(before: Snapshot, checkpoint: Checkpoint) -> None:
    """Read the log anew, and make sure that it ends with this checkpoint and leaves nothing."""
    environment = open_environment([Path(before.environment.name)])
    # One thread is enough for what was written, and what was read before is still there.
    scanner = replace(before.scanner, threads=1, progress=None)
    with held_snapshot(environment, scanner, now_ms=before.now_ms, as_member=True) as after:
        is_at_rest = after.checkpoint.end_lsn == checkpoint.end_lsn and not after.refusals
        is_at_rest = is_at_rest and not is_needed(after)
    if not is_at_rest:
        raise RefusedError(
            f"{environment.name}: the checkpoint at {lsn_text(checkpoint.end_lsn)} was written, "
            "and reading it does not give a log at rest. This is a bug of je-tools; please report "
            f"it. `je-tools undo {environment.name} --apply` takes the checkpoint back."
        )


def _write(snapshot: Snapshot, orders: Orders, session: Session | None) -> Outcome:
    end = snapshot.end
    if end.files[-1].version < _VERSION_MIN:
        raise InputError(
            f"{snapshot.environment.name}: a log of version {end.files[-1].version}, older than "
            f"{_VERSION_MIN}, is only read. `je-tools export` gets its records out."
        )
    if not is_to_cut(snapshot) and not is_needed(snapshot):
        return Outcome(None, 0, ())
    check_writable(snapshot, cuts=orders.cuts)
    aside = tuple(each.file for each in end.skipped if each.put_aside)
    if session is not None:
        changed = [mark.file_no for mark in lacking_marks(snapshot)]
        if end.cut_size or not begins_file(snapshot):
            changed.append(end.files[-1].file_no)
        session.check_own(changed)
    behind: tuple[LogFile, ...] = ()
    if orders.to_lsn is not None:
        aside, behind = (), files_behind(snapshot)

    def cut(session: Session) -> None:
        for file in reversed(aside):
            session.set_aside(file.file_no)
        for file in reversed(behind):
            session.remove(file.file_no)
        if end.cut_size:
            session.cut(end.files[-1].file_no, end.next_offset)
        for mark in lacking_marks(snapshot):
            session.flip_bits(mark.file_no, mark.offset, mark.old, mark.new)
        # Behind the end of a checkpoint nobody would miss them.
        session.sync()

    held = _Held(session, cut, end.cut_size)
    checkpoint = None
    if is_needed(snapshot):
        checkpoint = write_checkpoint(snapshot, _settings(snapshot, orders), held)
    held.let_go()
    return Outcome(
        checkpoint,
        end.cut_size,
        tuple(file.path.name for file in aside),
        tuple(file.path.name for file in behind),
    )


def _settings(snapshot: Snapshot, orders: Orders) -> Settings:
    """As asked, or as je.properties says."""
    stated = read_settings(Path(snapshot.environment.name))
    file_max = _file_max(snapshot, orders, stated)
    return Settings(file_max, time.time_ns() // 1_000_000, stated.number(BIN_DELTA))


def _file_max(snapshot: Snapshot, orders: Orders, settings: Properties) -> int:
    """Bytes of a file: as asked, as je.properties says, or as the largest file that is there."""
    if orders.file_max is not None:
        return orders.file_max
    if settings.is_set(FILE_MAX):
        return settings.number(FILE_MAX)
    largest = max(file.size for file in snapshot.end.files)
    return min(max(NUMBERS[FILE_MAX].default, largest), NUMBERS[FILE_MAX].most or largest)


class _Held:
    """Takes what is to be appended, and holds the first of it back to know whether it fits.

    What is met in the trees until then, and cannot be written, leaves the log as it was: nothing is
    cut before either.
    """

    def __init__(
        self, session: Session | None, cut: Callable[[Session], None], cut_size: int
    ) -> None:
        self._session = session
        self._cut_size = cut_size
        self._cut: Callable[[Session], None] | None = cut
        self._pieces: list[tuple[int, int, bytes]] = []
        self._size = 0

    def __call__(self, file_no: int, offset: int, data: bytes) -> None:
        if self._session is None:
            return
        self._size += len(data)
        self._pieces.append((file_no, offset, data))
        if self._size > _HELD_MAX:
            self.let_go()

    def let_go(self) -> None:
        """Append what is held."""
        if self._session is None:
            return
        cut, self._cut = self._cut, None
        size = sum(len(data) for _, _, data in self._pieces)
        self._session.check_space(size if cut is None else size + self._cut_size)
        if cut is not None:
            cut(self._session)
        for piece in self._pieces:
            self._session.append(*piece)
        self._pieces.clear()
