"""Background fsync of a file while more is written to it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

FSYNC_SIZE = 32 << 20
"""Number of unsynced bytes from which a background fsync starts while more are written."""


class BackgroundFsync:
    """Background fsync of a file, in a thread of its own, while more is written.

    So the last fsync has little to do. Synced bytes are dropped from the page cache: an output
    of gigabytes would displace the log that is read, and make it ever slower to get memory.
    """

    def __init__(self, number: int) -> None:
        self._number = number
        self._written = self._synced = 0
        self._pool: ThreadPoolExecutor | None = None
        self._running: Future[None] | None = None

    def add(self, size: int) -> None:
        """Count bytes that have been written, and start an fsync if there are enough.

        Raises:
            OSError: an earlier fsync failed.
        """
        self._written += size
        start = self._synced
        if self._written - start < FSYNC_SIZE or (self._running and not self._running.done()):
            return
        self._check()
        if self._pool is None:
            from concurrent.futures import ThreadPoolExecutor

            self._pool = ThreadPoolExecutor(1)
        self._synced = self._written
        self._running = self._pool.submit(self._fsync, start, self._written - start)

    def end(self) -> None:
        """Wait for the running fsync.

        Raises:
            OSError: it failed.
        """
        if self._pool is not None:
            self._pool.shutdown()
        self._check()

    def _fsync(self, start: int, size: int) -> None:
        os.fsync(self._number)
        os.posix_fadvise(self._number, start, size, os.POSIX_FADV_DONTNEED)

    def _check(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            # The system reports an error only once.
            running.result()
