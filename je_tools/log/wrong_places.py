"""Wrong places: LSNs that lead into the middle of undamaged entries.

An LSN that the log holds names the beginning of an entry. If it leads into an entry of a file in
which every byte is right, the file is not the one that was written: it belongs to another log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from je_tools.core.escaping import counted
from je_tools.log.file_findings import finding
from je_tools.log.scan import Scanner

if TYPE_CHECKING:
    from je_tools.findings import Finding
    from je_tools.formats.arrays import Ints
    from je_tools.formats.je.log.entry_rows import Rows
    from je_tools.log.environment import Environment
    from je_tools.log.log_files import LogFile

FILES_READ = 8
"""Largest number of files that are read to tell damage from another log."""


def foreign_files(environment: Environment, lsns: Iterable[int]) -> Iterator[tuple[LogFile, int]]:
    """Yield undamaged files that have no entries at some LSNs, with the number of these LSNs.

    The last file is left out: its end may be torn. Each file is read once, FILES_READ at most.

    Args:
        environment: the log.
        lsns: LSNs at which the log expects entries.

    Raises:
        StoppedError: a file shrank, vanished or was replaced.
        InputError: a file cannot be read.
    """
    expected: dict[int, set[int]] = {}
    for lsn in lsns:
        expected.setdefault(lsn >> 32 & 0xFFFFFFFF, set()).add(lsn & 0xFFFFFFFF)
    files = [file for file in environment.files[:-1] if file.file_no in expected]
    for file in files[:FILES_READ]:
        count = _wrong_count(environment, file, np.array(sorted(expected[file.file_no]), np.int64))
        if count:
            yield file, count


def foreign_findings(environment: Environment, lsns: Iterable[int]) -> Iterator[Finding]:
    """Yield a finding for each file of `foreign_files`."""
    for file, count in foreign_files(environment, lsns):
        yield finding(
            environment,
            "foreign-file",
            file_no=file.file_no,
            expected="the file to which the trees lead",
            found=f"{counted(count, 'place')} of the trees in the middle of other entries, and no "
            "damage in the file",
        )


def _wrong_count(environment: Environment, file: LogFile, offsets: Ints) -> int:
    """Return the number of offsets at which no entry begins; 0 for a file with damage."""
    known = np.zeros(len(offsets), np.bool_)

    def collect(rows: Rows) -> Ints:
        return np.flatnonzero(np.isin(offsets, rows.offset.astype(np.int64)))

    alone = replace(environment, files=(file,), unreadable=())
    for part in Scanner(threads=1, wide=True).scan(alone, collect):
        for found in part.results:
            known[found] = True
        end = part.end
        if end is None:
            continue
        damage = end.gaps or end.bad or end.chain_breaks or end.unreadable
        if damage or end.tail < end.size or not file.header.good:
            return 0
        inside = offsets < end.size
        return int(np.count_nonzero(inside & ~known))
    return 0
