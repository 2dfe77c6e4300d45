"""First step of the executors: scan pieces of logs, with the inspectors of `verify`.

The results are small, and are sent to the second step. The segments of transactions, of which
there are millions, go to the staging folder in columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from je_tools.audit.reasons import why_unread
from je_tools.audit.staging import WHOLE, Ended, SegmentWriter
from je_tools.errors import StoppedError
from je_tools.files.row_summary import RowSummary, summarize_rows
from je_tools.formats.je.log.tally import COUNT, count_types
from je_tools.log.checkpoint_intervals import CheckpointPart, collect_checkpoints
from je_tools.log.environment import Environment
from je_tools.log.scan import Scanner, read_cut
from je_tools.log.transactions import Rollback, Segments, collect_marks
from je_tools.verify.watched import watched_entries

if TYPE_CHECKING:
    from je_tools.audit.plan import ScanPiece, Task
    from je_tools.formats.arrays import Ints
    from je_tools.formats.je.log.entry_rows import Rows
    from je_tools.log.file_scan import RangeOutcome, ScanPart
    from je_tools.verify.judge import RowInspector


class Shown(Struct, frozen=True):
    """Results of some rows, in plain numbers.

    Attributes:
        file: for the row of the file, and for the judge.
        types: int64 (n, 6); numbers of entry types, and the counts of `tally.count_types` for each.
        checkpoints: marks of checkpoints in the rows.
        rollbacks, first_active_lsn: see `transactions.TransactionPart`.
        segments: segments of transactions; None once they have been written.
        ended: sums of the whole transactions among these.
    """

    file: RowSummary
    types: Ints
    checkpoints: CheckpointPart
    rollbacks: tuple[Rollback, ...]
    first_active_lsn: int | None
    segments: Segments | None
    ended: Ended = ()


class Show(Struct, frozen=True):
    """Inspector of the rows of a scan, in any process."""

    inspector: RowInspector

    def __call__(self, rows: Rows) -> Shown:
        """Inspect rows; damaged entries count only as damage."""
        counts = count_types(rows)
        seen = np.flatnonzero(counts[:, COUNT])
        return Shown(
            summarize_rows(rows, self.inspector),
            np.column_stack((seen, counts[seen])),
            collect_checkpoints(rows),
            *collect_marks(rows),
            Segments.of(rows),
        )


class Scanned(Struct, frozen=True):
    """Result of reading one piece.

    Attributes:
        index: index of the file in its environment.
        cut: index of the range, and number of ranges.
        attempt, piece_count: of its segments; see `staging.TAKEN`.
        parts: parts of a whole file, in order, the last with its end.
        outcome: result of a range of a file that is cut.
        failure: reason why the piece could not be read; then there is nothing else.
    """

    index: int
    cut: tuple[int, int]
    attempt: str
    piece_count: int
    parts: tuple[ScanPart[Shown], ...] = ()
    outcome: RangeOutcome[Shown] | None = None
    failure: str | None = None


def scan_task(task: Task, folder: Path) -> Iterator[tuple[int, Scanned | Environment]]:
    """Scan the pieces of a task; yield each result and environment with the environment's number.

    Args:
        task: pieces to read.
        folder: folder where segments are staged.
    """
    for group in _groups(task):
        writer = SegmentWriter(folder, len(group))
        for piece in group:
            if piece.environment is not None:
                yield piece.env_no, piece.environment
            yield piece.env_no, _scan(piece, writer)
        writer.close()


def _groups(task: Task) -> list[list[ScanPiece]]:
    """Group pieces whose segments can share files, because those that count can be told apart.

    A range of a file may turn out not to count, independently of the others. Whole transactions of
    two files with the same number look alike.
    """
    together: dict[tuple[int, int], ScanPiece] = {}
    alone = []
    for piece in task:
        place = piece.env_no, piece.file.file_no
        if piece.cut[1] > 1 or place in together:
            alone.append([piece])
        else:
            together[place] = piece
    return [list(together.values()), *alone]


def scanner_of(cuts: int) -> Scanner:
    """Return the scanner for pieces: one thread, since each core has a task."""
    return Scanner(threads=1, wide=True, cuts=cuts if cuts > 1 else 0, watched=watched_entries)


def stage(
    results: Iterable[Shown], writer: SegmentWriter, place: tuple[int, int, int], env: str
) -> Iterator[Shown]:
    """Write the segments of some results; yield the results without segments."""
    for shown in results:
        ended = () if shown.segments is None else writer.write(shown.segments, place, env)
        yield replace(shown, segments=None, ended=ended)


def _scan(piece: ScanPiece, writer: SegmentWriter) -> Scanned:
    scanned = Scanned(piece.index, piece.cut, writer.attempt, writer.count)
    cut, cuts = piece.cut
    scanner = scanner_of(cuts)
    show = Show(piece.inspector)
    try:
        if cuts > 1:
            outcome = read_cut(piece.file, cut, scanner, show)
            place = (piece.env_no, piece.index, cut)
            results = list(stage(outcome.results, writer, place, piece.env))
            return replace(scanned, outcome=replace(outcome, results=results))
        alone = Environment("", (piece.file,), None, is_directory=False)
        place = (piece.env_no, piece.index, WHOLE)
        parts = [
            replace(part, results=list(stage(part.results, writer, place, piece.env)))
            for part in scanner.scan(alone, show)
        ]
        end = parts[-1].end
        if end is not None and end.size < piece.file.size:
            sizes = f"from {piece.file.size} to {end.size} bytes"
            raise StoppedError(f"{piece.file.path}: the file shrank {sizes} before it was read")
        return replace(scanned, parts=tuple(parts))
    except Exception as error:
        return replace(scanned, failure=why_unread(error))
