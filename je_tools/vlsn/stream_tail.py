"""The end of the replication stream, read file by file from the last file back.

Nodes of a group differ only at the end of their streams, so most questions need no more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from je_tools.formats.je.flags import HeaderFlag
from je_tools.formats.je.log.entry_rows import WantedEntries
from je_tools.formats.je.types import IS_LN
from je_tools.log.references import read_references
from je_tools.verify.state_findings import file_findings
from je_tools.vlsn.logged_stream import StreamEnd
from je_tools.vlsn.node_rollbacks import (
    ROLLBACK_TYPES,
    LoggedRollback,
    NodeRollback,
    bounds_of,
    is_left,
    joined_rollbacks,
    logged_rollbacks,
)
from je_tools.vlsn.sync_points import IS_TXN_END, SyncPoints
from je_tools.vlsn.txn_writes import TxnWrites

if TYPE_CHECKING:
    from je_tools.findings import Finding
    from je_tools.formats.arrays import Ints
    from je_tools.formats.je.log.entry_rows import Rows
    from je_tools.recovery.snapshot import Snapshot

SYNC_POINTS_MAX = 2_000_000
"""Number of sync points after which no earlier file is read; they take 114 MB."""


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


class StreamTail(Struct, frozen=True):
    """The end of the replication stream, without entries that rollbacks undid.

    Attributes:
        sync: sync points.
        writes: LNs between them.
        first_vlsn: VLSN from which the tail has everything; None without one.
        last_vlsn: last VLSN; None without one.
        rollbacks: rollbacks, in log order.
        is_whole: True if there is nothing before the tail.
    """

    sync: SyncPoints
    writes: TxnWrites
    first_vlsn: int | None
    last_vlsn: int | None
    rollbacks: list[NodeRollback]
    is_whole: bool

    def end(self, index_last: int) -> StreamEnd:
        """Return the last VLSNs; sync points count up to the last VLSN of an index."""
        sync = self.sync.select(self.sync.vlsn <= index_last)
        ends = sync.vlsn[IS_TXN_END[sync.type]]
        newest = (int(each[-1]) if len(each) else None for each in (sync.vlsn, ends))
        return StreamEnd(self.last_vlsn, *newest)

    def last(self, count: int) -> StreamTail:
        """Return the tail with only its last `count` sync points."""
        cut = len(self.sync) - count
        if cut <= 0:
            return self
        sync, writes = self.sync.select(slice(cut, None)), self.writes
        kept = writes.place >= cut
        writes = TxnWrites(writes.place[kept] - cut, writes.txn_id[kept], writes.count[kept])
        # Some of the records before the first sync point are cut off.
        return replace(self, sync=sync, writes=writes, first_vlsn=int(sync.vlsn[0]), is_whole=False)


class _FileTail(Struct, frozen=True):
    """The stream in one file, without entries that rollbacks undid.

    Attributes:
        sync: sync points.
        writes: LNs between them. Those after the last one belong to the first one of the next file.
        first_vlsn, last_vlsn: first and last VLSN; None without one.
    """

    sync: SyncPoints
    writes: TxnWrites
    first_vlsn: int | None
    last_vlsn: int | None


class TailReader:
    """Reader of the end of a stream; each step adds the file before those that were read.

    It keeps the sync points of each file, 57 bytes each, and the numbers of LNs between them. When
    a file is read, the rollbacks after it are known, so entries that they undid are dropped.

    Attributes:
        read_size: bytes read so far.
        findings: damage of the files read so far.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.read_size = 0
        self.findings: list[Finding] = []
        self._unread = list(snapshot.end.files)
        self._parts: list[_FileTail] = []
        self._logged: list[LoggedRollback] = []

    @property
    def is_whole(self) -> bool:
        """True if all files have been read."""
        return not self._unread

    @property
    def is_full(self) -> bool:
        """True if SYNC_POINTS_MAX sync points have been read."""
        return sum(len(part.sync) for part in self._parts) >= SYNC_POINTS_MAX

    @property
    def rollbacks(self) -> list[NodeRollback]:
        """Rollbacks in the files read so far, in log order."""
        return joined_rollbacks(self._logged)

    def read_file(self) -> None:
        """Read one more file.

        Raises:
            StoppedError: it shrank, vanished or was replaced meanwhile.
            InputError: it cannot be read.
        """
        environment, file = self.snapshot.environment, self._unread.pop()
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
        self._logged[:0] = [each for part in found for each in part.rollbacks]
        self._parts.insert(0, _after_rollbacks(found, bounds_of(self.rollbacks)))
        self.read_size += file.size

    def at_least(self, count: int) -> StreamTail:
        """Return a tail with this many sync points, or all that the log has."""
        while sum(len(part.sync) for part in self._parts) < count and self._unread:
            self.read_file()
        return self.tail()

    def back_to(self, vlsn: int) -> StreamTail:
        """Return a tail that begins at or before a VLSN, or at the start of the log.

        It may begin later if SYNC_POINTS_MAX sync points are read.
        """
        while self._unread and not self.is_full:
            first = next((p.first_vlsn for p in self._parts if p.first_vlsn is not None), None)
            if first is not None and first <= vlsn:
                break
            self.read_file()
        return self.tail()

    def newest_ends(self, index_last: int) -> tuple[int | None, int | None]:
        """Return the VLSNs of the last sync point and end of a transaction up to a VLSN.

        Only one file at a time is kept.
        """
        sync: int | None = None
        txn_end: int | None = None
        while self._unread and (sync is None or txn_end is None):
            self.read_file()
            end = self.tail().end(index_last)
            sync = end.last_sync if sync is None else sync
            txn_end = end.last_txn_end if txn_end is None else txn_end
            self._parts.clear()
        return sync, txn_end

    def tail(self) -> StreamTail:
        """Return the tail that has been read so far."""
        parts = self._parts
        bases = np.cumsum([0, *(len(part.sync) for part in parts)])[:-1].tolist()
        nothing = np.empty(0, np.int64)
        places = [part.writes.place + base for part, base in zip(parts, bases, strict=True)]
        writes = TxnWrites.of(
            np.concatenate([nothing, *places]),
            np.concatenate([nothing, *(part.writes.txn_id for part in parts)]),
            np.concatenate([nothing, *(part.writes.count for part in parts)]),
        )
        firsts = [part.first_vlsn for part in parts if part.first_vlsn is not None]
        lasts = [part.last_vlsn for part in parts if part.last_vlsn is not None]
        return StreamTail(
            SyncPoints.joined([part.sync for part in parts]),
            writes,
            firsts[0] if firsts else None,
            lasts[-1] if lasts else None,
            self.rollbacks,
            self.is_whole,
        )


def _after_rollbacks(rows: Sequence[TailRows], bounds: list[tuple[int, int]]) -> _FileTail:
    """Return the stream in a file without the entries that rollbacks undid.

    Args:
        rows: the rows, in log order.
        bounds: rollbacks in and after the file, as for `is_left`.
    """
    sync = SyncPoints.joined([each.sync for each in rows])
    sync = sync.select(is_left(sync.lsn, sync.vlsn, bounds))
    nothing = np.empty(0, np.int64)
    lsn, vlsn, txn_id = (
        np.concatenate([nothing, *(getattr(each, name) for each in rows)])
        for name in ("lsn", "vlsn", "txn_id")
    )
    left = is_left(lsn, vlsn, bounds)
    lns = left & (txn_id != 0)
    places = np.searchsorted(sync.vlsn, vlsn[lns])
    return _FileTail(
        sync,
        TxnWrites.of(places, txn_id[lns], np.ones(len(places), np.int64)),
        int(vlsn[left][0]) if left.any() else None,
        int(vlsn[left][-1]) if left.any() else None,
    )
