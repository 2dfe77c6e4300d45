"""Records that a node would roll back: its LNs after a matchpoint, with their keys.

Source: ReplicaFeederSyncup.verifyRollback, RollbackTracker, JE 18.3.12.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from je_tools.formats.je.entry.columns import MAX_ROWS
from je_tools.formats.je.types import IS_LN
from je_tools.formats.spans import Spans
from je_tools.log.entry_table import build_table
from je_tools.vlsn.node_rollbacks import bounds_of, is_left
from je_tools.vlsn.stretch import read_stretch

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints
    from je_tools.formats.je.log.entry_rows import Rows
    from je_tools.recovery.snapshot import Snapshot
    from je_tools.vlsn.stream_tail import TailReader

_WANTED = frozenset({"db_id", "txn_id", "key"})


class LostRecords(Struct, frozen=True):
    """Some of the records that a node would roll back, in log order.

    Attributes:
        lsn, vlsn, txn_id, db_id: int64.
        type: uint8.
        key: keys; null if an entry does not decode.
    """

    lsn: Ints
    vlsn: Ints
    txn_id: Ints
    db_id: Ints
    type: npt.NDArray[np.uint8]
    key: Spans

    def __len__(self) -> int:
        return len(self.lsn)


class RecordCounts(Struct, frozen=True):
    """Numbers of records, by transaction and database.

    Attributes:
        txn_id, db_id, count: int64.
    """

    txn_id: Ints
    db_id: Ints
    count: Ints

    @classmethod
    def none(cls) -> RecordCounts:
        """Return no counts."""
        nothing = np.empty(0, np.int64)
        return cls(nothing, nothing, nothing)

    def plus(self, records: LostRecords) -> RecordCounts:
        """Return the counts with those of further records."""
        txn_id = np.concatenate([self.txn_id, records.txn_id])
        db_id = np.concatenate([self.db_id, records.db_id])
        count = np.concatenate([self.count, np.ones(len(records), np.int64)])
        order = np.lexsort((db_id, txn_id))
        txn_id, db_id, count = txn_id[order], db_id[order], count[order]
        is_new = np.ones(len(order), np.bool_)
        is_new[1:] = (txn_id[1:] != txn_id[:-1]) | (db_id[1:] != db_id[:-1])
        starts = np.flatnonzero(is_new)
        sums = np.add.reduceat(count, starts) if len(starts) else count
        return RecordCounts(txn_id[starts], db_id[starts], sums)


class LostRecordReader(Struct, frozen=True):
    """Reader of the records that a node would roll back.

    Attributes:
        snapshot: the log of the node.
        tail: reader of the end of its stream, which has read the log back to the matchpoint.
    """

    snapshot: Snapshot
    tail: TailReader

    def read(self, matchpoint_lsn: int) -> Iterator[LostRecords]:
        """Yield the records after a matchpoint, in batches.

        Raises:
            StoppedError: a file shrank, vanished or was replaced meanwhile.
            InputError: a file cannot be read.
        """
        work = _LostRecordsWork(tuple(bounds_of(self.tail.rollbacks)))
        last = self.snapshot.end.last_lsn
        for parts in read_stretch(self.snapshot, matchpoint_lsn, last, work):
            yield from parts

    def name_of(self, db_id: int) -> str | None:
        """Return the name of a database; None if it is unknown."""
        return self.snapshot.names.get(db_id)


class _LostRecordsWork(Struct, frozen=True):
    """Work for a scan: decode the LNs after a matchpoint that no rollback undid."""

    bounds: tuple[tuple[int, int], ...]

    def __call__(self, rows: Rows) -> list[LostRecords]:
        wanted = rows.replicated & ~rows.invisible & rows.good & IS_LN[rows.type]
        wanted &= is_left(rows.lsn, rows.vlsn, self.bounds)
        index = np.flatnonzero(wanted)
        pieces = (index[at : at + MAX_ROWS] for at in range(0, len(index), MAX_ROWS))
        return [_decoded(rows.select(piece)) for piece in pieces]


def _decoded(rows: Rows) -> LostRecords:
    table = build_table(rows, wanted=_WANTED)
    key = Spans(rows.data, table.key_start, table.key_size).packed()
    return LostRecords(rows.lsn, rows.vlsn, table.txn_id, table.db_id, rows.type, key)
