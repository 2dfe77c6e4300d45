"""Transactions that lie in one range of a file completely: rows of the table txns, and their sums.

There are millions of them, so they are never held as Python objects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from je_tools.audit.joining import table_of
from je_tools.audit.tables import TXNS
from je_tools.formats.je.types import COMMIT_NO
from je_tools.log.transactions import TransactionOutcome

if TYPE_CHECKING:
    from je_tools.formats.je.log.segments import Segments

    pass

Ended = tuple[tuple[str, int, int, int, int], ...]
"""Whole transactions by outcome: their number, entries, bytes, and the time of the last end."""


def split_segments(segments: Segments) -> tuple[Segments, Segments]:
    """Return the segments that are whole transactions, and the others; each in log order."""
    is_whole = segments.begins & (segments.end_type != 0)
    return segments.select(np.flatnonzero(is_whole)), segments.select(np.flatnonzero(~is_whole))


def txn_rows(whole: Segments, env: str) -> Any:
    """Return whole transactions as a pyarrow Table with the schema of `tables.TXNS`."""
    is_abort = (whole.end_type != COMMIT_NO).astype(np.int8)
    names = pa.array([TransactionOutcome.COMMITTED.value, TransactionOutcome.ABORTED.value])
    columns = {
        "env": pa.repeat(env, len(whole.txn_id)),
        "txn_id": whole.txn_id,
        "begin_lsn": whole.first_lsn,
        "end_lsn": whole.last_lsn,
        "outcome": names.take(pa.array(is_abort)),
        "entry_count": whole.entries,
        "size": whole.size,
        "databases": pa.ListArray.from_arrays(
            pa.array(whole.db_first, pa.int32()), pa.array(whole.db_id, pa.int64())
        ),
        "end_ms": whole.end_ms,
    }
    return table_of(columns, TXNS.schema)


def ended_sums(whole: Segments) -> Ended:
    """Sum up whole transactions by outcome."""
    found = []
    is_commit = whole.end_type == COMMIT_NO
    for outcome, are in (
        (TransactionOutcome.COMMITTED, is_commit),
        (TransactionOutcome.ABORTED, ~is_commit),
    ):
        if are.any():
            entries, size = int(whole.entries[are].sum()), int(whole.size[are].sum())
            last_ms = int(whole.end_ms[are].max())
            found.append((outcome.value, int(are.sum()), entries, size, last_ms))
    return tuple(found)
