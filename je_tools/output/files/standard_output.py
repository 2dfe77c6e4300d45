"""Standard output: it may be closed, or a pipe whose reader is gone."""

from __future__ import annotations

import os
import select
import sys
from contextlib import suppress
from typing import IO, Any, BinaryIO, cast

from je_tools.errors import RefusedError

STANDARD_OUTPUT = "standard output"


class ClosedPipeError(BrokenPipeError):
    """Error of an output whose reader is gone; broken pipes between our processes are others."""


def drop_standard_output() -> bool:
    """Drop what standard output cannot write: at exit Python would fail on it again.

    Returns:
        True if there was something to drop.
    """
    try:
        sys.stdout.flush()
    except OSError:
        with suppress(OSError):  # not a file of the system
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return True
    return False


def is_closed_pipe(file: IO[Any] | None) -> bool:
    """Return True if a standard stream is a pipe whose reader is gone."""
    try:
        if file is None:
            return False
        poll = select.poll()
        poll.register(file.fileno(), 0)
    except OSError:  # not a file of the system
        return False
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def standard_output() -> BinaryIO:
    """Return standard output for bytes.

    Raises:
        RefusedError: it is closed.
    """
    # It is None if the process was started without one.
    if cast(Any, sys.stdout) is None:
        raise RefusedError(f"{STANDARD_OUTPUT}: is closed; name a file with --output")
    return sys.stdout.buffer
