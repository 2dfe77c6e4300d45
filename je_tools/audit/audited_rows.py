"""The parts of a scan's rows that an audit keeps, made with the inspectors of `verify`.

The results are small. Only whole transactions, of which there are millions, come in columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from je_tools.audit.tables import ResultSource
from je_tools.audit.whole_txns import Ended, ended_sums, split_segments, txn_rows
from je_tools.files.row_summary import RowSummary, summarize_rows
from je_tools.formats.je.log.segments import Segments
from je_tools.formats.je.log.tally import COUNT, count_types
from je_tools.log.checkpoint_intervals import MARK_TYPES as CHECKPOINT_TYPES
from je_tools.log.checkpoint_intervals import CheckpointPart, collect_checkpoints
from je_tools.log.scan import Scanner
from je_tools.log.transactions import MARK_TYPES as TRANSACTION_TYPES
from je_tools.log.transactions import Rollback, collect_marks
from je_tools.verify.watched_entries import watched_entries

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints
    from je_tools.formats.je.log.entry_rows import Rows, WantedEntries
    from je_tools.log.file_scan import RangeOutcome, ScanPart
    from je_tools.log.log_files import LogFile
    from je_tools.verify.judge import RowInspector


class AuditedRows(Struct, frozen=True):
    """Results of some rows, in plain numbers.

    Attributes:
        file: for the row of the file, and for the judge.
        types: int64 (n, 6); numbers of entry types, and the counts of `tally.count_types` for each.
        checkpoints: marks of checkpoints in the rows.
        rollbacks, first_active_lsn: see `transactions.TransactionPart`.
        segments: segments of transactions; once the whole ones are taken out, only the others.
        ended: sums of the whole transactions.
    """

    file: RowSummary
    types: Ints
    checkpoints: CheckpointPart
    rollbacks: tuple[Rollback, ...]
    first_active_lsn: int | None
    segments: Segments
    ended: Ended = ()


class RowAuditor(Struct, frozen=True):
    """Inspector of the rows of a scan."""

    inspector: RowInspector

    def asked(self, file: LogFile) -> WantedEntries | None:
        """Return the entries of a file to read as rows; None for all."""
        asked = self.inspector.asked(file)
        if asked is None:
            return None
        types = asked.types | CHECKPOINT_TYPES | TRANSACTION_TYPES
        return replace(asked, types=types, is_tallied=True)

    def __call__(self, rows: Rows) -> AuditedRows:
        """Inspect rows; damaged entries count only as damage."""
        counts = count_types(rows)
        seen = np.flatnonzero(counts[:, COUNT])
        return AuditedRows(
            summarize_rows(rows, self.inspector),
            np.column_stack((seen, counts[seen])),
            collect_checkpoints(rows),
            *collect_marks(rows),
            rows.segments if rows.segments is not None else Segments.none(),
        )


class ScannedPart(Struct, frozen=True):
    """Result of reading one part of an environment.

    Attributes:
        index: index of the file in its environment.
        cut: index of the range, and number of ranges.
        parts: parts of a whole file, in order, the last with its end.
        outcome: result of a range of a file that is cut.
        txns: whole transactions, tables with the schema of `tables.TXNS`; empty once written.
        txns_path: file that holds them alone, for a range of a file that is cut.
        begun_ns: time of change of a file that is cut, before the range was read; None if unknown.
        failure: reason why the part could not be read; then there is nothing else.
        source: where the results come from.
    """

    index: int
    cut: tuple[int, int]
    parts: tuple[ScanPart[AuditedRows], ...] = ()
    outcome: RangeOutcome[AuditedRows] | None = None
    txns: Sequence[Any] = field(default_factory=list)
    txns_path: str | None = None
    begun_ns: int | None = None
    failure: str | None = None
    source: ResultSource = ResultSource.READ


def scanner_of(cuts: int, show: RowAuditor) -> Scanner:
    """Return the scanner for parts: one thread, since each core has a task."""
    return Scanner(
        threads=1,
        wide=True,
        cuts=cuts if cuts > 1 else 0,
        asked=show.asked,
        watched=watched_entries,
        segmented=True,
    )


def split_off_txns(
    results: Iterable[AuditedRows], env: str, txns: list[Any]
) -> Iterator[AuditedRows]:
    """Yield results without their whole transactions, which are appended to `txns` as tables."""
    for shown in results:
        whole, others = split_segments(shown.segments)
        if len(whole.txn_id):
            txns.append(txn_rows(whole, env))
        yield replace(shown, segments=others, ended=ended_sums(whole))
