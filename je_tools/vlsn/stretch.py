"""Read a stretch of a log: the entries between two LSNs, without the rest of their files."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

if TYPE_CHECKING:
    from je_tools.formats.je.log.entry_rows import Rows
    from je_tools.recovery.snapshot import Snapshot

T = TypeVar("T")


def read_stretch(
    snapshot: Snapshot, first_lsn: int, last_lsn: int, work: Callable[[Rows], T]
) -> Generator[T]:
    """Yield the results of `work` for the entries from one LSN to another, in log order.

    The last rows may include entries after `last_lsn`, but none after the end of the log.

    Args:
        snapshot: the log.
        first_lsn: LSN of an entry.
        last_lsn: LSN at or after it.
        work: called with rows; it must not keep views of `Rows.data`.

    Raises:
        StoppedError: a file shrank, vanished or was replaced meanwhile.
        InputError: a file cannot be read.
    """
    environment, end_lsn = snapshot.environment, snapshot.end.next_lsn
    at = first_lsn

    def note(rows: Rows) -> T:
        nonlocal at
        rows = rows.select(rows.lsn < end_lsn)
        at = max(at, int(rows.lsn[-1])) if len(rows) else at
        return work(rows)

    for file in snapshot.end.files:
        if not first_lsn >> 32 <= file.file_no <= last_lsn >> 32:
            continue
        start = first_lsn & 0xFFFFFFFF if file.file_no == first_lsn >> 32 else 0
        # One thread reads range after range, so that nothing after the stretch is read.
        scanner = replace(
            snapshot.scanner, threads=1, wide=False, start=start, progress=None, stage=None
        )
        with closing(scanner.scan(replace(environment, files=(file,)), note)) as parts:  # type: ignore[type-var]
            for part in parts:
                yield from part.results
                if at >= last_lsn:
                    return
