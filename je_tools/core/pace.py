"""A limit on the bytes that are read per second, for a disk on which a production system works."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

_COUNTS = Path("/proc/self/io")

_SLICES = 4
"""Ranges per second: a range is read at the speed of the disk, and the pause comes before it."""

_RANGE_MIN = 64 << 10
"""Smallest range in bytes, since each range costs some work."""


def stored_bytes_read() -> int | None:
    """Return the bytes that the system has read from storage for this process.

    Pages of memory maps count, and what is cached does not. None if the system does not report it.

    Source: proc_pid_io(5), `read_bytes`.
    """
    try:
        lines = _COUNTS.read_text(encoding="ascii").splitlines()
        return int(dict(line.split(": ") for line in lines)["read_bytes"])
    except (OSError, ValueError, KeyError):
        return None


class Pace:
    """A limit of bytes per second that all threads of a process share.

    Every read begins when those before it would have ended at this rate. Time in which nothing is
    read is not made up for later.
    """

    def __init__(
        self,
        rate: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        stored: Callable[[], int | None] = stored_bytes_read,
    ) -> None:
        """Begin without any debt.

        Args:
            rate: bytes per second.
            clock: returns the time in seconds.
            sleep: waits for some seconds.
            stored: returns the bytes read from storage so far; see `stored_bytes_read`.
        """
        self.rate = rate
        self._clock, self._sleep, self._stored = clock, sleep, stored
        self._lock = threading.Lock()
        self._free_at = clock()
        self._seen = stored() or 0
        self._announced = 0

    def __reduce__(self) -> tuple[type[Pace], tuple[int]]:
        return Pace, (self.rate,)

    @property
    def range_size(self) -> int:
        """Number of bytes to read at once: a quarter of a second's, so that bursts stay short."""
        return max(self.rate // _SLICES, _RANGE_MIN)

    def shared_by(self, count: int) -> Pace:
        """Return the limit of each of some processes that read at the same time."""
        return Pace(max(self.rate // count, 1))

    def wait(self, size: int) -> None:
        """Wait until `size` bytes may be read; call it before a range is read."""
        with self._lock:
            self._announced += size
            delay = self._charged(size)
        self._pause(delay)

    def settle(self) -> None:
        """Wait for what was read through memory maps since the last call; call it between batches.

        Which pages a batch reads is only known afterwards. Ranges that were announced by `wait` are
        not counted again.
        """
        total = self._stored()
        if total is None:
            return
        with self._lock:
            size = max(total - self._seen - self._announced, 0)
            self._seen, self._announced = total, 0
            self._charged(size)
            delay = max(self._free_at - self._clock(), 0)
        self._pause(delay)

    def _charged(self, size: int) -> float:
        """Charge bytes, and return the seconds until those charged before them are paid for."""
        now = self._clock()
        start = max(self._free_at, now)
        self._free_at = start + size / self.rate
        return start - now

    def _pause(self, delay: float) -> None:
        if delay > 0:
            self._sleep(delay)
