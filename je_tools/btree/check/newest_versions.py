"""The newest version of some records that the log holds, wherever the tree leads.

Source: je-log.md "Records" and "Recovery"; LNLogEntry, TxnEnd, JE 18.3.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.formats.je.btree.keysort import equal_keys, search_sorted
from je_tools.formats.je.entry.columns import MAX_ROWS
from je_tools.formats.je.header import NULL_LSN
from je_tools.formats.je.types import ABORT_NO, COMMIT_NO, IS_LN, mask_of
from je_tools.formats.spans import Spans
from je_tools.log.entry_table import build_table
from je_tools.records.version_ends import NO_END, ScannedTxnEnds, ends_of, joined_ends
from je_tools.recovery.interval_tables import Writes

if TYPE_CHECKING:
    from je_tools.btree.check.problems import OpenSlot, TreeProblem
    from je_tools.btree.tree import Tree
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.je.log.entry_rows import Rows
    from je_tools.recovery.snapshot import Snapshot

_KEYS = frozenset({"db_id", "txn_id", "key"})
_IS_END = mask_of((COMMIT_NO, ABORT_NO))


class _Versions(Struct, frozen=True):
    """Versions of records, deletions among them, in log order.

    Attributes:
        lsn: int64.
        txn_id: int64; 0 outside of transactions.
        key: int64; row of the key among those that are searched for.
    """

    lsn: Ints
    txn_id: Ints
    key: Ints


class _VersionFinder(Struct, frozen=True):
    """Inspector of a scan that finds versions of records, and the ends of all transactions.

    Attributes:
        tree: tree of the database.
        keys: n keys of the records, ascending; equal ones count as the first of them.
        since_lsn, next_lsn: the part of the log to search, without `next_lsn`.
    """

    tree: Tree
    keys: Spans
    since_lsn: int
    next_lsn: int

    def __call__(self, rows: Rows) -> tuple[_Versions, ScannedTxnEnds]:
        """Return the versions and the ends of a range; runs in any thread."""
        counts = rows.good & (rows.lsn >= self.since_lsn) & (rows.lsn < self.next_lsn)
        chosen = np.flatnonzero(counts & IS_LN[rows.type] & ~rows.invisible)
        parts = [np.empty((3, 0), np.int64)]
        for first in range(0, len(chosen), MAX_ROWS):
            some = rows.select(chosen[first : first + MAX_ROWS])
            table = build_table(some, wanted=_KEYS)
            own = np.flatnonzero(
                table.has_db & (table.db_id == self.tree.db_id) & (table.key_size >= 0)
            )
            keys = Spans(rows.data, table.key_start, table.key_size).select(own)
            at = search_sorted(self.keys, keys, two_part=self.tree.by_parts)
            at = np.minimum(at, len(self.keys) - 1)
            same = equal_keys(self.keys.select(at), keys)
            own, at = own[same], at[same]
            txn_id = np.where(table.has_txn[own], table.txn_id[own], 0)
            parts.append(np.stack((some.lsn[own], txn_id, at)))
        return _Versions(*np.concatenate(parts, axis=1)), ends_of(rows, counts & _IS_END[rows.type])


def judged_slots(snapshot: Snapshot, tree: Tree, slots: list[OpenSlot]) -> list[TreeProblem]:
    """Return the problem of each slot, by the versions of its record in the log.

    Args:
        snapshot: the log.
        tree: tree of the database; its key order must be known.
        slots: stray slots whose records no search finds.

    Raises:
        StoppedError: a file shrank, vanished or was replaced meanwhile.
    """
    if not slots:
        return []
    keys = Spans.of([each.key for each in slots])
    lsns = np.array([each.lsn for each in slots], np.int64)
    newest = _are_newest(snapshot, tree, keys, lsns).tolist()
    return [
        slot.if_newest if is_newest else slot.if_stale
        for slot, is_newest in zip(slots, newest, strict=True)
    ]


def _are_newest(snapshot: Snapshot, tree: Tree, keys: Spans, lsns: Ints) -> Mask:
    """Return a mask of the LNs after which the log has no version of the same record.

    Versions of transactions that did not commit do not count, and neither do those that a rollback
    has undone. One scan of the log finds all.
    """
    order = tree.order.sort(keys)
    ascending = keys.select(order)
    finder = _VersionFinder(tree, ascending, int(lsns.min()), snapshot.end.next_lsn)
    parts: list[_Versions] = []
    ends: list[ScannedTxnEnds] = []
    txn_ids = np.empty(0, np.int64)
    for part in snapshot.scanner.scan(snapshot.environment, finder):
        for versions, some in part.results:
            parts.append(versions)
            txn_ids = np.union1d(txn_ids, versions.txn_id)
            # A transaction ends after its versions, so the others are not needed.
            ends.append(some.select(np.isin(some.txn_id, txn_ids)))
    found = _Versions(
        *(
            np.concatenate([getattr(each, name) for each in parts] or [np.empty(0, np.int64)])
            for name in ("lsn", "txn_id", "key")
        )
    )
    counts = _are_committed(snapshot, found, joined_ends(ends))
    newest = np.full(len(keys), NULL_LSN, np.int64)
    np.maximum.at(newest, found.key[counts], found.lsn[counts])
    at = search_sorted(ascending, keys, two_part=tree.by_parts)
    is_newest: Mask = newest[at] == lsns
    return is_newest


def _are_committed(snapshot: Snapshot, versions: _Versions, ends: ScannedTxnEnds) -> Mask:
    """Return a mask of the versions that are committed, or outside of transactions."""
    flags = np.zeros(len(versions.lsn), np.uint8)
    rolled_back = snapshot.rules.is_rolled_back(Writes(versions.lsn, versions.txn_id, flags))
    row = ends.next_of(versions.txn_id, versions.lsn)
    commits = (row != NO_END) & np.append(ends.is_commit, False)[row]
    counts: Mask = ((versions.txn_id == 0) | commits) & ~rolled_back
    return counts
