"""The end of the replication stream, read file by file from the last one back.

Nodes of a group differ at the end of their streams, so most questions need no more than that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from je_tools.formats.je.flags import HeaderFlag
from je_tools.formats.je.log.entry_rows import WantedEntries
from je_tools.formats.je.types import ENTRY_TYPES, Group, mask_of
from je_tools.log.references import read_references
from je_tools.verify.one_file import file_findings
from je_tools.vlsn.logged import StreamEnd
from je_tools.vlsn.rollback_starts import (
    ROLLBACK_TYPES,
    LoggedRollback,
    Rollback,
    is_left,
    joined_rollbacks,
    logged_rollbacks,
)
from je_tools.vlsn.sync_points import IS_TXN_END, SyncPoints

if TYPE_CHECKING:
    from je_tools.findings import Finding
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.je.log.entry_rows import Rows
    from je_tools.recovery.snapshot import Snapshot

IS_LN: Mask = mask_of(each.no for each in ENTRY_TYPES.values() if Group.LN in each.groups)


class TailRows(Struct, frozen=True):
    """Entries of some rows, in log order.

    Attributes:
        sync: sync points.
        lsn, vlsn: int64; all visible entries of the stream.
        txn_id: int64; transactions of those that are LNs, else 0.
        rollbacks: RollbackStarts and RollbackEnds.
    """

    sync: SyncPoints
    lsn: Ints
    vlsn: Ints
    txn_id: Ints
    rollbacks: list[LoggedRollback]


class TailCollector(Struct, frozen=True):
    """Work for a scan: collect the entries of the stream up to the end of the log."""

    next_lsn: int

    def __call__(self, rows: Rows) -> TailRows:
        """Return the entries of some rows."""
        rows = rows.select(rows.lsn < self.next_lsn)
        visible = rows.replicated & ~rows.invisible & rows.good & (rows.vlsn > 0)
        some = rows.select(np.flatnonzero(visible))
        txn_id = read_references(some, IS_LN, ("txn_id",)).numbers["txn_id"]
        sync = SyncPoints.of_rows(some)
        return TailRows(sync, some.lsn, some.vlsn, txn_id, logged_rollbacks(rows))


class TxnWrites(Struct, frozen=True):
    """Numbers of LNs, by transaction and by the sync point after them.

    Attributes:
        place: int64, ascending; index of the sync point after the LNs, the number of sync points
            for those after the last.
        txn_id, count: int64; transaction, and number of its LNs.
    """

    place: Ints
    txn_id: Ints
    count: Ints

    @classmethod
    def of(cls, places: Ints, txn_ids: Ints) -> TxnWrites:
        """Count LNs."""
        order = np.lexsort((txn_ids, places))
        places, txn_ids = places[order], txn_ids[order]
        is_new = np.ones(len(order), np.bool_)
        is_new[1:] = (places[1:] != places[:-1]) | (txn_ids[1:] != txn_ids[:-1])
        starts = np.flatnonzero(is_new)
        counts = np.diff(starts, append=len(order))
        return cls(places[starts], txn_ids[starts], counts)


class Tail(Struct, frozen=True):
    """The end of the replication stream, without what rollbacks took back.

    Attributes:
        sync: sync points.
        writes: LNs between them.
        first_vlsn: first VLSN that was read, from which on nothing is left out; None without one.
        last_vlsn: last VLSN; None without one.
        rollbacks: rollbacks, in log order.
        is_whole: True if no earlier file is left.
    """

    sync: SyncPoints
    writes: TxnWrites
    first_vlsn: int | None
    last_vlsn: int | None
    rollbacks: list[Rollback]
    is_whole: bool

    def end(self, index_last: int) -> StreamEnd:
        """Return the last VLSNs, those of sync points up to the last VLSN of an index."""
        sync = self.sync.select(self.sync.vlsn <= index_last)
        ends = sync.vlsn[IS_TXN_END[sync.type]]
        newest = (int(each[-1]) if len(each) else None for each in (sync.vlsn, ends))
        return StreamEnd(self.last_vlsn, *newest)

    def last(self, count: int) -> Tail:
        """Return the tail with at most this many sync points, the last ones."""
        cut = len(self.sync) - count
        if cut <= 0:
            return self
        sync, writes = self.sync.select(slice(cut, None)), self.writes
        kept = writes.place >= cut
        writes = TxnWrites(writes.place[kept] - cut, writes.txn_id[kept], writes.count[kept])
        # Records before the first sync point belong to what was cut off, in part.
        return replace(self, sync=sync, writes=writes, first_vlsn=int(sync.vlsn[0]), is_whole=False)


class TailReader:
    """Reader of the end of a stream; each step adds the file before those that were read.

    Attributes:
        read_size: bytes read so far.
        findings: damage of the files read so far.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.read_size = 0
        self.findings: list[Finding] = []
        self._left = list(snapshot.end.files)
        self._parts: list[TailRows] = []

    @property
    def is_whole(self) -> bool:
        """True if no earlier file is left."""
        return not self._left

    def read_file(self) -> None:
        """Read one more file.

        Raises:
            StoppedError: it shrank, vanished or was replaced meanwhile.
            InputError: it cannot be read.
        """
        environment, file = self.snapshot.environment, self._left.pop()
        wanted = WantedEntries(ROLLBACK_TYPES, HeaderFlag.REPLICATED)
        scanner = replace(
            self.snapshot.scanner, progress=None, stage=None, wide=True, asked=lambda _: wanted
        )
        log = replace(environment, files=(file,))
        found: list[TailRows] = []
        for part in scanner.scan(log, TailCollector(self.snapshot.end.next_lsn)):
            found += part.results
            if part.end is not None:
                self.findings[:0] = file_findings(environment, part.end)
        self._parts[:0] = found
        self.read_size += file.size

    def at_least(self, count: int) -> Tail:
        """Return a tail with this many sync points, or all that the log has."""
        while sum(len(part.sync) for part in self._parts) < count and self._left:
            self.read_file()
        return self.tail()

    def back_to(self, vlsn: int) -> Tail:
        """Return a tail that begins at or before a VLSN, or at the start of the log."""
        while self._left:
            first = self._first_vlsn()
            if first is not None and first <= vlsn:
                break
            self.read_file()
        return self.tail()

    def _first_vlsn(self) -> int | None:
        return next((int(part.vlsn[0]) for part in self._parts if len(part.vlsn)), None)

    def tail(self) -> Tail:
        """Return what has been read so far."""
        rollbacks = joined_rollbacks([each for part in self._parts for each in part.rollbacks])
        bounds = [(each.start_lsn, each.matchpoint_vlsn) for each in rollbacks]
        sync = SyncPoints.joined([part.sync for part in self._parts])
        sync = sync.select(is_left(sync.lsn, sync.vlsn, bounds))
        lsn, vlsn, txn_id = (self._column(name) for name in ("lsn", "vlsn", "txn_id"))
        left = is_left(lsn, vlsn, bounds)
        lns = left & (txn_id != 0)
        return Tail(
            sync,
            TxnWrites.of(np.searchsorted(sync.vlsn, vlsn[lns]), txn_id[lns]),
            int(vlsn[left][0]) if left.any() else None,
            int(vlsn[left][-1]) if left.any() else None,
            rollbacks,
            self.is_whole,
        )

    def _column(self, name: str) -> Ints:
        nothing = np.empty(0, np.int64)
        return np.concatenate([nothing, *(getattr(part, name) for part in self._parts)])
