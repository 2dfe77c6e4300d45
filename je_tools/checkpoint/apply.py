"""Checkpoints on disk: plan or write one, and cut off what a crash has left after the log.

Source: RecoveryManager.findEndOfLog, FileManager.truncateLog, JE 18.3.12.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from je_tools.checkpoint.comparison import Compared, compare_records
from je_tools.checkpoint.rollbacks import lacking_marks
from je_tools.checkpoint.run import (
    Checkpoint,
    Settings,
    begins_file,
    check_openable,
    check_writable,
    is_needed,
    is_to_cut,
    nowhere,
    write_checkpoint,
)
from je_tools.checkpoint.truncation import (
    check_reached,
    check_state,
    files_behind,
    group_refusal,
    was_cut_there,
)
from je_tools.core.escaping import quoted
from je_tools.core.properties import BIN_DELTA, FILE_MAX, NUMBERS, read_settings
from je_tools.core.properties import Settings as Properties
from je_tools.errors import InputError, RefusedError
from je_tools.formats.je.header import lsn_text
from je_tools.log.opening import open_environment
from je_tools.output.files.outputs import check_output
from je_tools.recovery.opening import held_snapshot
from je_tools.recovery.snapshot import Snapshot
from je_tools.writing.copying import copied
from je_tools.writing.lock import EnvironmentLock, Holder
from je_tools.writing.session import Session, check_whole, look_at

if TYPE_CHECKING:
    from je_tools.log.environment import Environment
    from je_tools.log.log_files import LogFile
    from je_tools.log.scan import Scanner
    from je_tools.writing.disk import Disk

Tell = Callable[[Snapshot], None]

NATIVE_VERSIONS = (8, 17)
"""Log versions for which the project's tests let the engine check what is written."""

_VERSION_MIN = 8
_HELD_MAX = 8 << 20
_AMPLE = 2
"""A checkpoint is smaller than this multiple of the log, which has all nodes that it writes."""


class Orders(Struct, frozen=True):
    """Options of a checkpoint.

    Attributes:
        cuts: True to cut off what follows the end of the log, as recovery does.
        file_max: maximum size of a file in bytes; None for the environment's setting.
        to_lsn: LSN of the last entry to keep; None for the end of the log.
        force: True to cut off even what a replication group has committed.
    """

    cuts: bool = False
    file_max: int | None = None
    to_lsn: int | None = None
    force: bool = False


class Outcome(Struct, frozen=True):
    """Result of a checkpoint that is written or planned.

    Attributes:
        checkpoint: None if none is needed.
        cut_size: bytes that are cut off the last file.
        set_aside: names of files that are renamed.
        removed: names of files that are removed because they follow the end of the log.
        journal_no: number of the undo journal; None if nothing was written in place.
        compared: comparison of the records before and after; None if nothing was written.
    """

    checkpoint: Checkpoint | None
    cut_size: int
    set_aside: tuple[str, ...]
    removed: tuple[str, ...] = ()
    journal_no: int | None = None
    compared: Compared | None = None

    @property
    def changes(self) -> bool:
        """True if anything is written, cut, renamed or removed."""
        return self.checkpoint is not None or bool(self.cut_size or self.set_aside or self.removed)


NOTHING = Outcome(None, 0, ())
"""Result for a log that needs nothing."""


def plan_checkpoint(snapshot: Snapshot, orders: Orders) -> Outcome:
    """Return what a checkpoint would write.

    Raises:
        RefusedError: it cannot be written.
        InputError: the log version can only be read.
    """
    return _write(snapshot, orders, None) if has_work(snapshot, orders) else NOTHING


def is_written_in_place(snapshot: Snapshot) -> bool:
    """Return True if logs of this version are written in place, and not only as copies."""
    return snapshot.end.files[-1].version in NATIVE_VERSIONS


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
    """Write a checkpoint in place, with the engine's lock held and an undo journal.

    In a directory without write permission the lock is not available, but a log that needs nothing
    does not need it.

    Args:
        home: directory of the environment.
        scanner: scanner for reading the log.
        orders: options.
        now_ms: current time.
        tell: called with the log as it will be, once it is known that the options can be met, and
            before anything is written.
        meet: called for each reader that has the environment open; readers do not prevent writing.
        disk: disk that is written to.

    Returns:
        The log as it was, and the result.

    Raises:
        RefusedError: the environment is in use, or the checkpoint cannot be written.
        InputError: there is no environment, or nothing in it leads to records.
        StoppedError: a file shrank meanwhile.
    """
    if not is_writable(home):
        resting = _at_rest(open_environment([home]), scanner, orders, now_ms, tell)
        if resting is not None:
            return resting, NOTHING
    with EnvironmentLock(home, disk) as lock:
        if meet is not None:
            for reader in lock.readers:
                meet(reader)
        check_whole(home)
        environment = open_environment([home])
        orders = _without_a_second_cut(environment, scanner, orders)
        seen = look_at(environment)
        with (
            Session(
                environment,
                _operation(orders),
                lock,
                seen=seen,
                disk=disk,
                takes_away=orders.to_lsn is not None,
            ) as session,
            held_snapshot(
                environment, scanner, now_ms=now_ms, to_lsn=orders.to_lsn, as_member=True
            ) as snapshot,
        ):
            is_to_do = has_work(snapshot, orders)
            if is_to_do:
                _check_version(snapshot)
            if tell is not None:
                tell(snapshot)
            if not is_to_do:
                return snapshot, NOTHING
            return snapshot, _write_and_check(snapshot, orders, session, home)


def apply_to_copy(
    environment: Environment,
    target: Path,
    scanner: Scanner,
    orders: Orders,
    now_ms: int,
    tell: Tell | None = None,
) -> tuple[Snapshot, Outcome]:
    """Write a checkpoint to a copy of an environment, which gets its name when it is complete.

    If the checkpoint cannot be written, nothing is copied. A log that needs nothing is copied as it
    is.

    Args:
        environment: the original, which stays as it is.
        target: path of the copy.
        scanner, orders, now_ms, tell: as for `apply_checkpoint`.

    Returns:
        As `apply_checkpoint`.

    Raises:
        RefusedError: the copy cannot be made, or the checkpoint cannot be written.
        InputError, StoppedError: as `apply_checkpoint`.
    """
    check_output(target, environment)
    check_whole(Path(environment.name))
    orders = _without_a_second_cut(environment, scanner, orders)
    with held_snapshot(
        environment, scanner, now_ms=now_ms, to_lsn=orders.to_lsn, as_member=True
    ) as snapshot:
        is_to_do = has_work(snapshot, orders)
        if tell is not None:
            tell(snapshot)
        copying = scanner.staged("copy", environment.size)
        with copied(environment, target, copying.progress) as folder:
            if not is_to_do:
                return snapshot, NOTHING
            copy = open_environment([folder])
            with Session(
                copy,
                _operation(orders),
                None,
                undo=False,
                takes_away=orders.to_lsn is not None,
            ) as session:
                return snapshot, _write_and_check(snapshot, orders, session, folder)


def is_writable(home: Path) -> bool:
    """Return True if files may be created in a directory."""
    return os.access(home, os.W_OK | os.X_OK)


def _at_rest(
    environment: Environment, scanner: Scanner, orders: Orders, now_ms: int, tell: Tell | None
) -> Snapshot | None:
    """Return the log if it needs nothing, else None."""
    orders = _without_a_second_cut(environment, scanner, orders)
    with held_snapshot(
        environment, scanner, now_ms=now_ms, to_lsn=orders.to_lsn, as_member=True
    ) as snapshot:
        if snapshot.refusals or is_to_cut(snapshot) or is_needed(snapshot):
            return None
        if tell is not None:
            tell(snapshot)
        return snapshot


def _without_a_second_cut(environment: Environment, scanner: Scanner, orders: Orders) -> Orders:
    """Drop `to_lsn` if the log was already cut back to that entry."""
    if orders.to_lsn is not None and was_cut_there(environment, scanner, orders.to_lsn):
        return replace(orders, to_lsn=None)
    return orders


def has_work(snapshot: Snapshot, orders: Orders) -> bool:
    """Return True if anything has to be written, in place or to a copy.

    Args:
        snapshot: the log; with `to_lsn`, only up to that entry, and all its records are then read.
        orders: options.

    Raises:
        RefusedError: it cannot be written, or the engine would not open the log.
        InputError: the log version can only be read.
    """
    check_openable(snapshot)
    if orders.to_lsn is not None:
        check_reached(snapshot, orders.to_lsn)
    if not is_to_cut(snapshot) and not is_needed(snapshot):
        return False
    name, version = snapshot.environment.name, snapshot.end.files[-1].version
    if version < _VERSION_MIN:
        raise InputError(
            f"{name}: a log of version {version}, older than {_VERSION_MIN}, is only read. "
            f"`je-tools export --all {quoted(name)}` gets its records out."
        )
    if orders.to_lsn is not None:
        check_state(snapshot)
    if orders.cuts and not orders.force:
        refusal = group_refusal(snapshot)
        if refusal is not None:
            raise RefusedError(refusal)
    check_writable(snapshot, cuts=orders.cuts)
    return True


def _operation(orders: Orders) -> str:
    return "recovery" if orders.cuts else "checkpoint"


def _check_version(snapshot: Snapshot) -> None:
    if not is_written_in_place(snapshot):
        said = " and ".join(str(each) for each in NATIVE_VERSIONS)
        raise RefusedError(
            f"{snapshot.environment.name}: a log of version {snapshot.end.files[-1].version}; in "
            f"place only versions {said} are written. --output DIR writes to a copy, for the "
            "engine to judge."
        )


def _write_and_check(snapshot: Snapshot, orders: Orders, session: Session, home: Path) -> Outcome:
    outcome = _write(snapshot, orders, session)
    session.finish()
    compared = None
    if outcome.checkpoint is not None:
        compared = _check(snapshot, outcome.checkpoint, home)
    return replace(outcome, journal_no=session.journal_no, compared=compared)


def _check(before: Snapshot, checkpoint: Checkpoint, home: Path) -> Compared:
    """Check that the log, read again, is at rest with this checkpoint and has the same records."""
    environment = open_environment([home])
    # One thread is enough for what was written; the rest is still in the page cache.
    scanner = replace(before.scanner, threads=1, progress=None)
    with held_snapshot(environment, scanner, now_ms=before.now_ms, as_member=True) as after:
        is_at_rest = after.checkpoint.end_lsn == checkpoint.end_lsn and not after.refusals
        is_at_rest = is_at_rest and not is_needed(after)
        own = {*checkpoint.records, *(each.name or "" for each in checkpoint.made.values())}
        compared = compare_records(before, after, own)
    what = "" if is_at_rest else "reading it does not give a log at rest"
    if compared.different:
        what = f"the records of {', '.join(compared.different)} are not the same any more"
    if what:
        name = before.environment.name
        raise RefusedError(
            f"{name}: the checkpoint at {lsn_text(checkpoint.end_lsn)} was written, and {what}. "
            "This is a bug of je-tools; please report it. "
            f"`je-tools undo {quoted(name)} --apply` takes the checkpoint back."
        )
    return compared


def _write(snapshot: Snapshot, orders: Orders, session: Session | None) -> Outcome:
    end = snapshot.end
    aside = tuple(each.file for each in end.skipped if each.put_aside)
    behind: tuple[LogFile, ...] = ()
    if orders.to_lsn is not None:
        aside, behind = (), files_behind(snapshot)
    if session is not None:
        changed = [mark.file_no for mark in lacking_marks(snapshot)]
        if end.cut_size or not begins_file(snapshot):
            changed.append(end.files[-1].file_no)
        session.check_own(changed, [file.file_no for file in (*aside, *behind)])

    def cut(session: Session) -> None:
        for file in reversed(aside):
            session.set_aside(file.file_no)
        for file in reversed(behind):
            session.remove(file.file_no)
        if end.cut_size:
            session.cut(end.files[-1].file_no, end.next_offset)
        for mark in lacking_marks(snapshot):
            session.flip_bits(mark.file_no, mark.offset, mark.old, mark.new)
        # Marks come first: once the checkpoint has ended, recovery no longer sets missing ones.
        session.sync()

    held = _Held(session, cut, end.cut_size)
    checkpoint = None
    if is_needed(snapshot):
        settings = _settings(snapshot, orders)
        if session is not None:
            _check_room(snapshot, settings, session)
        checkpoint = write_checkpoint(snapshot, settings, held)
    held.let_go()
    return Outcome(
        checkpoint,
        end.cut_size,
        tuple(file.path.name for file in aside),
        tuple(file.path.name for file in behind),
    )


def _check_room(snapshot: Snapshot, settings: Settings, session: Session) -> None:
    """Check that there is room for the whole checkpoint, before any of it is written.

    This makes the checkpoint twice, so it is done only if room may be short.
    """
    if session.least_room()[1] >= _AMPLE * snapshot.environment.size:
        return
    size = write_checkpoint(snapshot, settings, nowhere).size
    session.check_space(size + snapshot.end.cut_size)


def _settings(snapshot: Snapshot, orders: Orders) -> Settings:
    """Return the settings from the options or from je.properties."""
    stated = read_settings(Path(snapshot.environment.name))
    file_max = _file_max(snapshot, orders, stated)
    return Settings(file_max, time.time_ns() // 1_000_000, stated.number(BIN_DELTA))


def _file_max(snapshot: Snapshot, orders: Orders, settings: Properties) -> int:
    """Return the maximum size of a file, from the options or je.properties.

    Without either it is the size of the largest file, but at least the engine's default.

    Raises:
        RefusedError: je.properties has a value that the engine rejects.
    """
    if orders.file_max is not None:
        return orders.file_max
    refusal = settings.refusal(FILE_MAX)
    if refusal is not None:
        raise RefusedError(
            f"{snapshot.environment.name}: {refusal}, so the engine does not open the "
            "environment. Mend that, or name the size of new files with --file-max."
        )
    if settings.is_set(FILE_MAX):
        return settings.number(FILE_MAX)
    largest = max(file.size for file in snapshot.end.files)
    return min(max(NUMBERS[FILE_MAX].default, largest), NUMBERS[FILE_MAX].most or largest)


class _Held:
    """An `Emit` that buffers the first bytes until they are known to fit.

    If a tree that cannot be written is found before then, the log stays as it was: nothing is cut
    before either.
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
        """Append the buffered bytes; the first call cuts the log before."""
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
