"""Read the report of an erasure: the byte ranges that it changed, and its fsyncs."""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import Struct

from je_tools.errors import InputError

ZEROS = "zeros"
"""Kind of the ranges whose bytes became zeros."""


class ChangedRanges(Struct, frozen=True):
    """Byte ranges of a file that one batch of a run changed.

    Attributes:
        file: name of the file.
        what: `type` or `checksum` for bytes that hold these, `zeros` for bytes that became zeros.
        ranges: offset and size of each.
    """

    file: str
    what: str
    ranges: tuple[tuple[int, int], ...]


class RunFsync(Struct, frozen=True):
    """An fsync of a file, and its time in ms since 1970."""

    file: str
    time_ms: int


class ReportedRun(Struct, frozen=True):
    """A run of `erase run` according to its report.

    Attributes:
        changed: byte ranges that it changed, in order.
        fsyncs: its fsyncs, in order.
    """

    changed: tuple[ChangedRanges, ...]
    fsyncs: tuple[RunFsync, ...]

    @property
    def range_count(self) -> int:
        """Number of byte ranges."""
        return sum(len(each.ranges) for each in self.changed)

    @property
    def size(self) -> int:
        """Bytes of all ranges."""
        return sum(size for each in self.changed for _, size in each.ranges)


class _ReportLine(Struct, frozen=True):
    """A line of the report; lines of other kinds have other fields."""

    record: str
    file: str = ""
    what: str = ""
    ranges: tuple[tuple[int, int], ...] = ()
    time_ms: int = -1


def read_run_report(path: Path) -> ReportedRun:
    """Read the JSON lines that `erase run --report` has written; skip lines of other kinds.

    Raises:
        InputError: the file cannot be read, is empty, or a line is not as it must be.
    """
    changed: list[ChangedRanges] = []
    fsyncs: list[RunFsync] = []
    number = 0
    try:
        with path.open("rb") as file:
            for text in file:
                number += 1
                line = msgspec.json.decode(text, type=_ReportLine)
                if line.record == "ranges":
                    _check(bool(line.file) and all(min(each) >= 0 for each in line.ranges))
                    changed.append(ChangedRanges(line.file, line.what, line.ranges))
                elif line.record == "fsync":
                    _check(bool(line.file) and line.time_ms >= 0)
                    fsyncs.append(RunFsync(line.file, line.time_ms))
        _check(number > 0)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    except (ValueError, RecursionError):
        raise InputError(f"{path}: line {number} is no line of a report of `erase run`") from None
    return ReportedRun(tuple(changed), tuple(fsyncs))


def _check(is_right: bool) -> None:
    if not is_right:
        raise ValueError
