"""Open a log for writing: in place while the engine's lock is held, or as a copy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from je_tools.log.opening import open_environment
from je_tools.recovery.opening import held_snapshot
from je_tools.writing.copying import copied
from je_tools.writing.interrupted import check_whole
from je_tools.writing.lock import EnvironmentLock, Holder
from je_tools.writing.session import Session
from je_tools.writing.stamps import stamp_files

if TYPE_CHECKING:
    from je_tools.log.environment import Environment
    from je_tools.log.scan import Scanner
    from je_tools.recovery.snapshot import Snapshot
    from je_tools.writing.disk import Disk

OnReader = Callable[[Holder], None]


@contextmanager
def locked(
    home: Path, on_reader: OnReader | None, disk: Disk | None
) -> Iterator[tuple[EnvironmentLock, Environment]]:
    """Hold the engine's lock on an environment, and yield both.

    Args:
        home: directory of the environment.
        on_reader: called for each reader that has the environment open; readers do not prevent
            writing.
        disk: disk to write to.

    Raises:
        RefusedError: the environment is in use, or an operation on it was interrupted.
        InputError: there is no environment.
    """
    with EnvironmentLock(home, disk) as lock:
        if on_reader is not None:
            for reader in lock.readers:
                on_reader(reader)
        check_whole(home)
        yield lock, open_environment([home])


@contextmanager
def written_in_place(
    lock: EnvironmentLock,
    environment: Environment,
    scanner: Scanner,
    now_ms: int,
    name: str,
    *,
    to_lsn: int | None = None,
    disk: Disk | None = None,
) -> Iterator[tuple[Session, Snapshot]]:
    """Yield a session with an undo journal, and a snapshot that keeps the group's transactions.

    Args:
        lock: the lock of the environment.
        environment: the environment.
        scanner: scanner for reading the log.
        now_ms: current time.
        name: name of the operation.
        to_lsn: last entry that stays; None for the end of the log.
        disk: disk to write to.

    Raises:
        InputError: nothing in the environment leads to records.
        StoppedError: a file shrank meanwhile.
    """
    stamps = stamp_files(environment)
    takes_away = to_lsn is not None
    with (
        Session(
            environment, name, lock, stamps=stamps, disk=disk, takes_away=takes_away
        ) as session,
        held_snapshot(
            environment, scanner, now_ms=now_ms, to_lsn=to_lsn, as_member=True
        ) as snapshot,
    ):
        yield session, snapshot


@contextmanager
def copied_to(environment: Environment, target: Path, scanner: Scanner) -> Iterator[Path]:
    """Yield the directory of a copy, which gets its name when it is complete.

    Raises:
        RefusedError: the copy cannot be made.
    """
    copying = scanner.staged("copy", environment.size)
    with copied(environment, target, copying.progress, scanner.pace) as folder:
        yield folder


@contextmanager
def written_copy(folder: Path, name: str, *, takes_away: bool = False) -> Iterator[Session]:
    """Yield a session on a copy, which needs neither a lock nor an undo journal.

    Args:
        folder: directory of the copy.
        name: name of the operation.
        takes_away: True if it cuts the log back.
    """
    copy = open_environment([folder])
    with Session(copy, name, None, undo=False, takes_away=takes_away) as session:
        yield session
