"""Removal of a lock file by the process that created it."""

from __future__ import annotations

import fcntl
import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from je_tools.writing.disk import Disk

WAIT_SECONDS = 0.05
"""Time in which a process that found the old name must have come to open the file."""


def remove_lock_file(number: int, path: Path, disk: Disk) -> None:
    """Remove a lock file that this process created and has locked, unless another may use it.

    An engine opens the file first, and locks it later; it does not check that the file still has
    its name. If it had opened a file that is removed here, its lock would keep no other engine out.
    So the file is removed only under a write lease, which the system gives if nobody else has the
    file open, and which stops everyone who opens it. One that found the name just before it was
    removed is stopped too: the lease shows it, and the file gets its name back. If the system gives
    no lease (network file systems, files of another user), the file stays, which harms nothing.

    Source: FileManager.lockEnvironment, JE 7.5.11; fcntl(2), leases.

    Args:
        number: descriptor of the file, with the exclusive lock of an engine that writes.
        path: path of the file.
        disk: disk on which it is removed.
    """
    aside = path.with_name(f".je-tools-{os.urandom(8).hex()}")
    with suppress(OSError):
        # The default signal of a lease that is broken would end this process.
        fcntl.fcntl(number, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(number, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        if not os.path.samestat(os.fstat(number), path.lstat()):
            return
        disk.rename(path, aside)
        try:
            time.sleep(WAIT_SECONDS)
            if fcntl.fcntl(number, fcntl.F_GETLEASE, 0) == fcntl.F_WRLCK:
                disk.unlink(aside)
        finally:
            if aside.exists():
                disk.rename(aside, path)
