"""Backward passes: the entries that the engine reads when it follows prevOffsets.

Three passes of recovery go backward from the end of the log: the search for a checkpoint, the
collection of Commits and Aborts, and the undo of LNs. They follow prevOffsets. If a prevOffset
names an entry other than the one before it (whole entries were copied there from elsewhere), the
passes skip all entries between: Commits among these do not count, and LNs are not undone. If a
prevOffset leads to no entry, the engine fails.

Source: FileReader.getLogEntryInReadBuffer, ReadWindow.slideAndFill, RecoveryManager.undoLNs,
JE 7.5.11 and 18.3.12; UndoReader, VerifyLog of whole files, JE 18.3.12.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from je_tools.formats.je.header import NULL_LSN, lsn_of

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.je.log.entry_rows import Rows
    from je_tools.log.environment import Environment
    from je_tools.log.log_files import LogFile
    from je_tools.log.scan import Scanner

_FILE_END = 1 << 32


class BackwardPath(Struct, frozen=True):
    """The path of the backward passes through the entries that recovery reads.

    Attributes:
        skipped: half-open ranges of LSNs that the passes skip, ascending.
        failed_lsn: LSN at which the engine fails: of an entry whose prevOffset leads to no earlier
            entry, or a place where an entry is expected and there is none. NULL_LSN if it does
            not fail.
    """

    skipped: tuple[tuple[int, int], ...] = ()
    failed_lsn: int = NULL_LSN

    def misses(self, lsns: Ints) -> Mask:
        """Return a mask of the LSNs that the passes skip."""
        missed = np.zeros(len(lsns), np.bool_)
        for start, stop in self.skipped:
            missed |= (lsns >= start) & (lsns < stop)
        return missed

    def misses_one(self, lsn: int) -> bool:
        """Return True if the passes skip an LSN."""
        return any(start <= lsn < stop for start, stop in self.skipped)


STRAIGHT = BackwardPath()
"""The path if each entry names the one before it."""


class _Links(Struct, frozen=True):
    """The entries of one file up to the end of the log.

    Attributes:
        offset, prev_offset: int64, in log order.
    """

    offset: Ints
    prev_offset: Ints


class _PathInFile(Struct, frozen=True):
    """The part of the path that lies in one file.

    Attributes:
        skipped: half-open ranges of offsets, descending.
        failed_at: offset at which the engine fails, as in `BackwardPath`; None if it does not.
        ends: True if the path ends in this file.
    """

    skipped: list[tuple[int, int]]
    failed_at: int | None = None
    ends: bool = False


def walk_backward(
    environment: Environment,
    files: Sequence[LogFile],
    scanner: Scanner,
    *,
    first_lsn: int,
    last_lsn: int,
) -> BackwardPath:
    """Follow prevOffsets from the last entry of a log back to the first that recovery reads.

    Args:
        environment: the log.
        files: its files, up to the one in which the log ends.
        scanner: settings for reading them.
        first_lsn: LSN of the first entry that recovery reads.
        last_lsn: LSN of the last entry.

    Raises:
        StoppedError: a file shrank, vanished or was replaced meanwhile.
    """
    skipped: list[tuple[int, int]] = []
    named = last_lsn & 0xFFFFFFFF
    for file in reversed(files):
        if file.file_no < first_lsn >> 32:
            break
        base = lsn_of(file.file_no, 0)
        links = _links(environment, file, scanner, max(last_lsn - base, 0))
        jump = _follow(links, named, max(first_lsn - base, 0))
        skipped += [(base + start, base + stop) for start, stop in jump.skipped]
        if jump.failed_at is not None:
            return BackwardPath(tuple(reversed(skipped)), base + jump.failed_at)
        if jump.ends:
            break
        named = file.header.last_entry_in_prev_file_offset or 0
    return BackwardPath(tuple(reversed(skipped)))


def _links(environment: Environment, file: LogFile, scanner: Scanner, last_offset: int) -> _Links:
    parts = [np.empty((2, 0), np.int64)]
    quiet = replace(scanner, progress=None, wide=True)
    for part in quiet.scan(replace(environment, files=(file,)), _link_columns):
        parts += part.results
    offset, prev_offset = np.concatenate(parts, axis=1)
    counts = offset <= last_offset
    return _Links(offset[counts], prev_offset[counts])


def _link_columns(rows: Rows) -> Ints:
    """Return the offsets and prevOffsets of some rows, int64 (2, n)."""
    return np.stack((rows.offset, rows.prev_offset)).astype(np.int64)


def _follow(links: _Links, named: int, first_offset: int) -> _PathInFile:
    """Follow prevOffsets back through one file.

    Args:
        links: the entries of the file.
        named: offset of the entry to begin with.
        first_offset: offset at which the path ends.
    """
    offset, prev_offset = links.offset, links.prev_offset
    row = int(np.searchsorted(offset, named))
    if row == len(offset) or offset[row] != named:
        return _PathInFile([], failed_at=named, ends=True)
    skipped = []
    if row + 1 < len(offset):
        skipped.append((int(offset[row + 1]), _FILE_END))
    jumps = np.flatnonzero(prev_offset[1:] != offset[:-1]) + 1
    while True:
        before = int(np.searchsorted(jumps, row, side="right"))
        if not before or offset[jumps[before - 1]] < first_offset:
            return _PathInFile(skipped)
        row = int(jumps[before - 1])
        target, stop = int(prev_offset[row]), int(offset[row])
        if target == 0:
            # The engine takes a prevOffset of 0 for the link to the file before.
            return _PathInFile([*skipped, (int(offset[0]) + 1, stop)])
        if target < first_offset:
            return _PathInFile([*skipped, (first_offset, stop)], ends=True)
        place = int(np.searchsorted(offset, target))
        if place >= row or offset[place] != target:
            return _PathInFile(skipped, failed_at=stop, ends=True)
        skipped.append((int(offset[place + 1]), stop))
        row = place
