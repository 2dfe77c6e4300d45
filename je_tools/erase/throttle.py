"""Throttle of an erasure: spread its work over a time, as the engine's eraser does.

Source: je-log.md "Data eraser"; DataEraser.WorkThrottle, JE 25.3.17.
"""

from __future__ import annotations

import time
from collections.abc import Callable

TOUCH_SHARE, MARK_SHARE, ZERO_SHARE, LAST_SHARE = 0.18, 0.16, 0.50, 0.16
"""Shares of a file's size that the steps of overwriting count for: the first fsync, the second,
the overwriting, and the third. Reading the file counts for its whole size."""

DELETE_SHARE = 0.25
"""Share of the size of a reserved file that is deleted."""

CYCLE_WORK = 3
"""Work of a cycle for each byte of its files; a third of it is a reserve."""

FILE_WORK = 2
"""Work of one file for each of its bytes."""

_SLEEP_MIN_S, _SLEEP_MAX_S = 0.005, 0.1


class WorkThrottle:
    """A throttle: `work` waits if more work has been done than the time allows."""

    def __init__(
        self,
        seconds_per_byte: float,
        should_stop: Callable[[], bool] = lambda: False,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Begin now.

        Args:
            seconds_per_byte: time for each byte of work.
            should_stop: returns True to end a wait early.
            clock: returns the time in seconds.
            sleep: waits for some seconds.
        """
        self._seconds_per_byte = seconds_per_byte
        self._should_stop = should_stop
        self._clock, self._sleep = clock, sleep
        self._begin = clock()
        self._work = 0.0

    @classmethod
    def over(cls, seconds: float, file_size: int, should_stop: Callable[[], bool]) -> WorkThrottle:
        """Return a throttle that spreads the erasure of files over a time.

        Args:
            seconds: the time.
            file_size: bytes of all files.
            should_stop: returns True to end a wait early.
        """
        return cls(max(seconds, 0) / max(CYCLE_WORK * file_size, 1), should_stop)

    @classmethod
    def at_rate(cls, rate: int, should_stop: Callable[[], bool]) -> WorkThrottle:
        """Return a throttle that processes at most `rate` bytes of files per second."""
        return cls(1 / (FILE_WORK * rate), should_stop)

    def work(self, size: float) -> None:
        """Note bytes of work, and wait until the time allows them."""
        self._work += size
        delay = self._work * self._seconds_per_byte - (self._clock() - self._begin)
        if delay < _SLEEP_MIN_S:
            return
        until = self._clock() + delay
        while not self._should_stop() and (left := until - self._clock()) > 0:
            self._sleep(min(left, _SLEEP_MAX_S))
