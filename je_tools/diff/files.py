"""Comparison of the files of an environment with those of its copy."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.log.environment import Environment, check_numbers
from je_tools.log.sources import reopened

if TYPE_CHECKING:
    from je_tools.log.log_files import LogFile

PIECE = 16 << 20


class CopyState(StrEnum):
    """State of a file in the copy compared with the environment."""

    SAME = "same"
    SHORTER = "shorter"
    """The copy's last file is a prefix: the environment has been written to since."""
    TRUNCATED = "truncated"
    """The copy's file is a prefix although another follows it. Each file is complete before the
    next begins, so this one was cut off, or copied too early."""
    LONGER = "longer"
    """The environment's file is a prefix: the copy was opened, or the log was truncated."""
    CHANGED = "changed"
    """Bytes differ."""
    NOT_COPIED = "not-copied"
    """The environment had it when the copy was made, and the copy lacks it."""
    NEWER = "newer"
    """It was created after the last file of the copy."""
    GONE = "gone"
    """The environment no longer has it."""
    AHEAD = "ahead"
    """It comes after the last file of the environment: the copy was opened and written to."""
    UNREADABLE = "unreadable"
    """On one side or both, the system does not open it, or it is no file."""


WRONG = frozenset(
    {
        CopyState.TRUNCATED,
        CopyState.CHANGED,
        CopyState.NOT_COPIED,
        CopyState.LONGER,
        CopyState.AHEAD,
        CopyState.UNREADABLE,
    }
)
"""States other than those of a complete copy that was never opened."""


class FilePair(Struct, frozen=True):
    """A file number and the comparison of its two files.

    Attributes:
        file_no: number of the file.
        state: result of the comparison.
        size_a, size_b: bytes; None if the side lacks the file.
        differ_offset: offset of the first byte that differs; None unless CHANGED.
    """

    file_no: int
    state: CopyState
    size_a: int | None
    size_b: int | None
    differ_offset: int | None = None


def compare_files(environment: Environment, copy: Environment) -> Iterator[FilePair]:
    """Compare the files of both sides, and yield a pair for each number in ascending order.

    Raises:
        StoppedError: a file shrank or vanished while it was read.
        InputError: a file cannot be read, or two on one side have the same number.
    """
    check_numbers(environment)
    check_numbers(copy)
    ours = {file.file_no: file for file in environment.files}
    theirs = {file.file_no: file for file in copy.files}
    last_a, last_b = environment.numbers[-1], copy.numbers[-1]
    closed = {file.file_no for side in (environment, copy) for file in side.unreadable}
    for number in sorted(closed.union(ours, theirs)):
        a, b = ours.get(number), theirs.get(number)
        if number in closed:
            sizes = (None if file is None else file.size for file in (a, b))
            yield FilePair(number, CopyState.UNREADABLE, *sizes)
        elif a is None and b is not None:
            state = CopyState.AHEAD if number > last_a else CopyState.GONE
            yield FilePair(number, state, None, b.size)
        elif a is not None and b is None:
            state = CopyState.NOT_COPIED if number < last_b else CopyState.NEWER
            yield FilePair(number, state, a.size, None)
        elif a is not None and b is not None:
            yield _compare(a, b, is_last=number == last_b)


def _compare(a: LogFile, b: LogFile, *, is_last: bool) -> FilePair:
    common = min(a.size, b.size)
    at = first_difference(a.path, b.path, common)
    if at is not None:
        return FilePair(a.file_no, CopyState.CHANGED, a.size, b.size, at)
    state = CopyState.SAME
    if b.size > a.size:
        state = CopyState.LONGER
    elif b.size < a.size:
        state = CopyState.SHORTER if is_last else CopyState.TRUNCATED
    return FilePair(a.file_no, state, a.size, b.size)


def first_difference(one: Path, other: Path, size: int) -> int | None:
    """Return the offset of the first differing byte among the first `size`; None if equal."""
    with reopened(one, size) as a, reopened(other, size) as b:
        for start in range(0, size, PIECE):
            stop = min(start + PIECE, size)
            left = a.read(start, stop).copy()
            differs = left != b.read(start, stop)
            if differs.any():
                return start + int(np.argmax(differs))
    return None
