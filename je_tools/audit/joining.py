"""Transactions that reach over several ranges or files of an environment, joined in columns.

`transactions.Transactions` joins by the same rule, one transaction after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct, field

from je_tools.audit.tables import TXNS
from je_tools.formats.je.log.segments import Segments
from je_tools.formats.je.types import COMMIT_NO
from je_tools.log.transactions import Rollback, TransactionOutcome

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints, Mask

_ALL = (1 << 64) - 1


class Joined(Struct, frozen=True):
    """Transactions in columns, as far as their outcomes depend on them.

    Attributes:
        txn_id: int64.
        begin, end: uint64; LSNs.
        end_type: uint8; type of the Commit or Abort, 0 without one.
        is_invisible: bool; True if a rollback undid every entry.
        is_prepared: bool.
    """

    txn_id: Ints
    begin: npt.NDArray[np.uint64]
    end: npt.NDArray[np.uint64]
    end_type: npt.NDArray[np.uint8]
    is_invisible: Mask
    is_prepared: Mask


class OpenTransactions(Struct):
    """Parts of transactions of one environment, and what decides their outcomes.

    Attributes:
        parts: segments without the transaction's begin or end, by file, in log order.
        rollbacks, first_active_lsn: see `transactions.TransactionPart`; of all files.
    """

    parts: list[Segments] = field(default_factory=list)
    rollbacks: list[Rollback] = field(default_factory=list)
    first_active_lsn: int = 0

    def joined(self, env: str) -> Any:
        """Return the transactions as a pyarrow Table with the schema of `tables.TXNS`.

        The segments of one id are followed in log order. A new transaction of that id begins after
        an end, and at an entry that refers to none before it.

        Args:
            env: name of the environment.
        """
        if not sum(len(part.txn_id) for part in self.parts):
            return TXNS.schema.empty_table()
        segments = joined_segments(self.parts)
        order = np.argsort(segments.txn_id, kind="stable")
        txn_id = segments.txn_id[order]
        ends = segments.end_type[order]
        starts = np.ones(len(order), np.bool_)
        starts[1:] = (txn_id[1:] != txn_id[:-1]) | (ends[:-1] != 0)
        starts |= segments.begins[order]
        first = np.flatnonzero(starts)
        last = np.append(first[1:], len(order)) - 1
        # Two files can have the same number, so the last segment need not have the last LSN.
        lsns = [column.view(np.uint64)[order] for column in (segments.first_lsn, segments.last_lsn)]
        begin = np.minimum.reduceat(lsns[0], first)
        end = np.maximum.reduceat(lsns[1], first)
        entries, size, invisible = (
            np.add.reduceat(column[order].astype(np.int64), first)
            for column in (segments.entries, segments.size, segments.invisible)
        )
        columns = {
            "env": pa.repeat(env, len(first)),
            "txn_id": txn_id[first],
            "begin_lsn": begin.view(np.int64),
            "end_lsn": end.view(np.int64),
            "outcome": self._outcomes(
                Joined(
                    txn_id[first],
                    begin,
                    end,
                    ends[last],
                    invisible == entries,
                    np.logical_or.reduceat(segments.prepared[order], first),
                )
            ),
            "entry_count": entries,
            "size": size,
            "databases": _databases(segments, order, first),
            "end_ms": pa.array(segments.end_ms[order][last], pa.int64(), mask=ends[last] == 0),
        }
        return table_of(columns, TXNS.schema)

    def _outcomes(self, of: Joined) -> Any:
        """Return the outcome of each transaction; the tests are in the order of `Transactions`."""
        is_undone = of.begin < np.uint64(self.first_active_lsn)
        outcomes = (
            (of.end_type == COMMIT_NO, TransactionOutcome.COMMITTED),
            (of.end_type != 0, TransactionOutcome.ABORTED),
            (of.is_invisible | self._taken_back(of), TransactionOutcome.ROLLED_BACK),
            (of.is_prepared, TransactionOutcome.PREPARED),
            (is_undone, TransactionOutcome.UNDONE),
        )
        names = [outcome.value for _, outcome in outcomes]
        unfinished = TransactionOutcome.UNFINISHED.value
        return pa.array(np.select([which for which, _ in outcomes], names, unfinished))

    def _taken_back(self, of: Joined) -> Mask:
        found = np.zeros(len(of.txn_id), np.bool_)
        for rollback in self.rollbacks:
            after = of.begin > np.uint64(rollback.matchpoint_lsn & _ALL)
            before = of.end < np.uint64(rollback.lsn & _ALL)
            found |= after & before & np.isin(of.txn_id, sorted(rollback.txn_ids))
        return found


def joined_segments(parts: Sequence[Segments]) -> Segments:
    """Concatenate segments."""
    counts = np.concatenate([np.diff(part.db_first) for part in parts])
    columns = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in Segments.__struct_fields__
        if name != "db_first"
    }
    return Segments(db_first=np.append(0, np.cumsum(counts)), **columns)


def _databases(segments: Segments, order: Any, first: Any) -> Any:
    """Return the ids of the databases of each transaction, ascending, each once."""
    counts = np.diff(segments.db_first)[order]
    number = np.repeat(np.cumsum(np.isin(np.arange(len(order)), first)) - 1, counts)
    ids = segments.db_id[flat_indexes(segments.db_first[order], counts)]
    by_id = np.lexsort((ids, number))
    number, ids = number[by_id], ids[by_id]
    once = np.ones(len(ids), np.bool_)
    once[1:] = (number[1:] != number[:-1]) | (ids[1:] != ids[:-1])
    starts = np.searchsorted(number[once], np.arange(len(first) + 1))
    return pa.ListArray.from_arrays(pa.array(starts, pa.int32()), pa.array(ids[once], pa.int64()))


def flat_indexes(starts: Any, counts: Any) -> Any:
    """Return the indexes of the members of lists: those of [start, start + count) of each."""
    before = np.append(0, np.cumsum(counts))
    return np.repeat(starts - before[:-1], counts) + np.arange(before[-1])


def table_of(columns: dict[str, Any], schema: Any) -> Any:
    """Return a pyarrow Table of columns by name, which are Arrow or numpy arrays."""
    arrays = [
        column if isinstance(column, pa.Array) else pa.array(column, field.type)
        for field in schema
        for column in (columns[field.name],)
    ]
    return pa.Table.from_arrays(arrays, schema=schema)
