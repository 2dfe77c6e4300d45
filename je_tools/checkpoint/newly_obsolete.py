"""Obsolete entries that no file summary counts, because a crash has lost the engine's counts.

The engine counts obsolete entries while it writes, and logs the counts with each checkpoint, as
file summaries. A summary counts everything that became obsolete before it. After a crash, recovery
counts the rest again from the entries that it replays: an LN says what it replaces, and a node
refers to its previous versions. As in the engine, an entry that is obsolete by itself (a deletion,
an embedded record, duplicates) is counted and not listed.

Unlike the engine, which guesses, this module knows the nodes of the recovered trees. A version of a
node is counted once, and listed only if no tree uses it, because cleaners skip what is listed.

Source: je-log.md "Utilization"; RecoveryManager.redoUtilizationInfo, undoUtilizationInfo,
INFileReader.processEntry, RecoveryUtilizationTracker, JE 18.3.12 and 25.3.17.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.checkpoint.node_versions import Versions, used_versions
from je_tools.checkpoint.obsolete_entries import ObsoleteEntries
from je_tools.formats.je.btree.keysort import group_keys
from je_tools.formats.je.btree.nodes import DELTA_NO
from je_tools.formats.je.entry.columns import decode
from je_tools.formats.je.flags import HeaderFlag, LnFlag
from je_tools.formats.je.header import NULL_LSN
from je_tools.formats.je.internal.names import UTILIZATION_DB
from je_tools.formats.je.log.fetch import fetch
from je_tools.formats.je.types import CKPT_START_NO, ENTRY_TYPES, Family, mask_of
from je_tools.formats.spans import Spans
from je_tools.recovery.interval_tables import DELETED, INVISIBLE, Lns
from je_tools.recovery.outcomes import is_open

if TYPE_CHECKING:
    from je_tools.btree.tree import Tree
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.je.log.entry_rows import Rows
    from je_tools.recovery.snapshot import Snapshot


_LN_FAMILIES = (Family.LN, Family.NAME_LN, Family.MAP_LN, Family.DEL_DUP_LN)

_OF_LN_FAMILY = {
    family: mask_of(each.no for each in ENTRY_TYPES.values() if each.family is family)
    for family in _LN_FAMILIES
}

_IS_NODE = mask_of(each.no for each in ENTRY_TYPES.values() if each.family is Family.NODE)

_LN_FIELDS = frozenset({"flags", "abort_lsn", "prior_size", "prior_file_no"})

_NODE_FIELDS = frozenset({"db_id", "node_id", "last_full_lsn", "last_delta_lsn"})

_PRIOR_SINCE = 16

_MAP_LN_LAST = 18
"""Last log version whose MapLN can be decoded in columns up to the fields of what it replaces."""

_KEY_SIZE = 8

_OFFSET = (1 << 32) - 1

_NONE = np.empty(0, np.int64)

_NEVER_COUNTED = np.iinfo(np.int64).max


class ObsoleteFinder(Struct, frozen=True, dict=True):
    """Finder of obsolete entries; safe in any thread after `prepare`.

    Attributes:
        snapshot: the log as recovery leaves it.
        since: LSN from which replacements are examined.
        summary_lsns: LSN of the last summary of each file since then, by file number.
    """

    snapshot: Snapshot
    since: int
    summary_lsns: dict[int, int]

    @classmethod
    def of(cls, snapshot: Snapshot) -> ObsoleteFinder:
        """Build the finder for the interval that recovery replays."""
        since = max(snapshot.checkpoint.start_lsn, 0)
        return cls(snapshot, since, _logged_summaries(snapshot, since))

    def uncounted(self, lsns: Ints, made_by: Ints) -> Mask:
        """Return a mask of the entries that no summary in the log has counted.

        Args:
            lsns: LSNs of the entries.
            made_by: LSNs of the entries that made them obsolete.
        """
        file_nos, logged = self._summaries
        if not len(file_nos):
            return np.ones(len(lsns), np.bool_)
        own = lsns >> 32
        at = np.minimum(np.searchsorted(file_nos, own), len(file_nos) - 1)
        counted: Mask = (file_nos[at] == own) & (logged[at] >= made_by)
        return ~counted

    @cached_property
    def _summaries(self) -> tuple[Ints, Ints]:
        file_nos = np.array(sorted(self.summary_lsns), np.int64)
        lsns = [self.summary_lsns[file_no] for file_no in file_nos.tolist()]
        return file_nos, np.array(lsns, np.int64)

    @cached_property
    def _commits(self) -> tuple[Ints, Ints]:
        """Ids of committed transactions, ascending, and LSNs of their Commits."""
        ends = self.snapshot.interval.ends
        ids, lsns = ends.txn_id[ends.is_commit], ends.lsn[ends.is_commit]
        order = np.argsort(ids, kind="stable")
        return ids[order], lsns[order]

    @cached_property
    def _databases(self) -> tuple[Ints, Mask]:
        """Ids of databases, ascending, and a mask of those with duplicates.

        Reads never need an LN of a database with duplicates.
        """
        databases = self.snapshot.databases
        ids = sorted(databases)
        two_part = [databases[db_id].has_duplicates for db_id in ids]
        return np.array(ids, np.int64), np.array(two_part, np.bool_)

    def _commit_lsns(self, txn_ids: Ints) -> Ints:
        """Return the LSN of each transaction's Commit, or NULL_LSN."""
        ids, lsns = self._commits
        if not len(ids):
            return np.full(len(txn_ids), NULL_LSN, np.int64)
        at = np.minimum(np.searchsorted(ids, txn_ids), len(ids) - 1)
        return np.where(ids[at] == txn_ids, lsns[at], NULL_LSN)

    def prepare(self) -> None:
        """Compute the values that threads share."""
        _ = self._summaries, self._commits, self._databases, self._kept, self._aborted

    @cached_property
    def _kept(self) -> Ints:
        return np.array(sorted(self.snapshot.kept_txns), np.int64)

    @cached_property
    def _aborted(self) -> Ints:
        ends = self.snapshot.interval.ends
        return np.unique(ends.txn_id[~ends.is_commit])

    def records(self, rows: Rows) -> Iterator[ObsoleteEntries]:
        """Yield LNs of the interval that are obsolete, and the records that its LNs have replaced.

        Args:
            rows: LNs of one file.
        """
        interval = self.snapshot.interval.lns
        if not len(interval) or not len(rows):
            return
        at = np.minimum(np.searchsorted(interval.lsn, rows.lsn), len(interval) - 1)
        known = interval.lsn[at] == rows.lsn
        rows, lns = rows.select(known), interval.select(at[known])
        for family, is_family in _OF_LN_FAMILY.items():
            if family is Family.MAP_LN and rows.version > _MAP_LN_LAST:
                continue
            some = is_family[rows.type]
            if some.any():
                yield from self._of_family(rows.select(some), lns.select(some), family)
        others = ~np.any([mask[rows.type] for mask in _OF_LN_FAMILY.values()], axis=0)
        gone = others & (lns.flags & (DELETED | INVISIBLE) == DELETED)
        yield self._themselves(lns.select(gone), rows.select(gone).size, is_listed=False)

    def _of_family(self, rows: Rows, lns: Lns, family: Family) -> Iterator[ObsoleteEntries]:
        decoded = decode(rows, family, wanted=_LN_FIELDS)
        head, sizes = decoded.fields, rows.size
        flags = head.known("flags")
        ids, two_part = self._databases
        at = np.minimum(np.searchsorted(ids, lns.db_id), len(ids) - 1)
        unknown = ids[at] != lns.db_id
        duplicates = two_part[at] & ~unknown
        at_once = (lns.flags & DELETED != 0) | duplicates | unknown | (flags & LnFlag.EMBEDDED != 0)
        taken_back = (lns.flags & INVISIBLE != 0) | self.snapshot.rules.is_rolled_back(lns)
        undone = is_open(lns.flags) & ~taken_back
        redone = ~taken_back & ~undone
        kept = np.isin(lns.txn_id, self._kept) & redone
        redone &= (lns.lsn >= self.since) | kept
        listed = undone & ~at_once
        # A summary has counted an aborted LN, but not one that this recovery is the first to undo.
        first = listed & ~np.isin(lns.txn_id, self._aborted)
        yield ObsoleteEntries.of(lns.lsn[first], sizes[first], is_ln=True, is_listed=True)
        own = (taken_back | undone | (redone & at_once)) & ~first
        yield self._themselves(lns.select(own), sizes[own], is_listed=listed[own])
        replacing = redone & ~duplicates & ~unknown & ~decoded.bad
        abort = head.number("abort_lsn") if head.has("abort_lsn") else lns.lsn
        has_abort = head.is_present("abort_lsn") if head.has("abort_lsn") else unknown & False
        made_by = self._commit_lsns(lns.txn_id)
        committed = replacing & has_abort & (made_by != NULL_LSN)
        if rows.version >= _PRIOR_SINCE:
            prior = head.is_present("prior_size")
            size, of_file = head.known("prior_size"), head.is_present("prior_file_no")
            between = np.flatnonzero(replacing & prior & of_file)
            file_nos = head.known("prior_file_no")[between]
            yield self._replaced(file_nos << 32, size[between], lns.lsn[between])
            committed &= prior & ~of_file
        else:
            size = np.zeros(len(rows), np.int64)
            committed &= flags & (LnFlag.ABORT_KNOWN_DELETED | LnFlag.ABORT_DATA) == 0
            committed &= abort != NULL_LSN
        yield self._replaced(abort[committed], size[committed], made_by[committed])

    def _themselves(self, lns: Lns, sizes: Ints, *, is_listed: Mask | bool) -> ObsoleteEntries:
        found = ObsoleteEntries.of(lns.lsn, sizes, is_ln=True, is_listed=is_listed)
        return found.select(self.uncounted(lns.lsn, lns.lsn))

    def _replaced(self, lsns: Ints, sizes: Ints, made_by: Ints) -> ObsoleteEntries:
        found = ObsoleteEntries.of(lsns, sizes, is_ln=True, is_listed=lsns & _OFFSET != 0)
        return found.select(self.uncounted(lsns, made_by))

    def silently_replaced(self) -> Iterator[ObsoleteEntries]:
        """Yield records that LNs of the interval have replaced without naming them.

        Before log version 16, an LN names only the version that an abort would restore.
        """
        snapshot = self.snapshot
        if snapshot.end.files[-1].version >= _PRIOR_SINCE:
            return
        for db_id, database in snapshot.databases.items():
            rows = snapshot.ln_rows(db_id)
            if len(rows) > 1 and not database.has_duplicates:
                yield self._replaced_in(snapshot.tree(database), snapshot.interval.lns.select(rows))

    def _replaced_in(self, tree: Tree, lns: Lns) -> ObsoleteEntries:
        stays = (lns.flags & INVISIBLE == 0) & ~is_open(lns.flags) & (lns.lsn >= self.since)
        lns = lns.select(stays & ~self.snapshot.rules.is_rolled_back(lns))
        keys = Spans(tree.image.data, lns.key_position, lns.key_size.astype(np.int64))
        order, is_new = group_keys(keys, two_part=tree.by_parts)
        lns = lns.select(order)
        replaced = ~is_new[1:] & (lns.flags[:-1] & DELETED == 0)
        replaced &= (lns.txn_id[1:] == 0) | (lns.txn_id[1:] == lns.txn_id[:-1])
        lsns, made_by = lns.lsn[:-1][replaced], lns.lsn[1:][replaced]
        entries = fetch(tree.image, lsns, check=False)
        counts = entries.good
        rows = np.flatnonzero(entries.is_family(Family.LN))
        for some, decoded in entries.decode(Family.LN, rows, wanted=frozenset({"flags"})):
            counts[some] &= decoded.fields.known("flags") & LnFlag.EMBEDDED == 0
        return self._replaced(lsns[counts], entries.size[counts], made_by[counts])

    def versions(self, rows: Rows) -> Versions | None:
        """Return the versions of nodes that were logged in the interval.

        Return None for a log version whose nodes have no database id.

        Args:
            rows: rows of one file.
        """
        rows = rows.select(_IS_NODE[rows.type] & (rows.lsn >= self.since))
        decoded = decode(rows, Family.NODE, wanted=_NODE_FIELDS)
        head = decoded.fields
        if not head.has("db_id"):
            return None
        no_delta = np.full(len(rows), NULL_LSN, np.int64)
        found = Versions(
            rows.lsn,
            head.number("db_id").copy(),
            head.number("node_id").copy(),
            head.number("last_full_lsn").copy(),
            head.number("last_delta_lsn").copy() if head.has("last_delta_lsn") else no_delta,
            rows.type == DELTA_NO,
            rows.flags & HeaderFlag.PROVISIONAL_YES.value != 0,
        )
        return found.select(~decoded.bad)

    def nodes(self, versions: Versions) -> Iterator[ObsoleteEntries]:
        """Yield versions of nodes that no tree uses.

        Args:
            versions: all versions in the interval, in log order.
        """
        if not len(versions):
            return
        lsns, old_bases = self._live_lsns(versions.db_id)
        live = np.isin(versions.lsn, lsns)
        bases = np.append(old_bases, versions.last_full_lsn[live & versions.is_delta])
        is_used = live | np.isin(versions.lsn, bases)
        order = np.lexsort((versions.lsn, versions.node_id, versions.db_id))
        same = (np.diff(versions.db_id[order]) == 0) & (np.diff(versions.node_id[order]) == 0)
        made_by = versions.lsn.copy()
        made_by[order[:-1][same]] = versions.lsn[order[1:][same]]
        # The engine never counts the nodes of an unfinished checkpoint.
        unfinished = versions.is_whole_provisional & (versions.lsn > self._partial_start)
        unfinished &= made_by == versions.lsn
        made_by[unfinished] = _NEVER_COUNTED
        own = ~is_used & self.uncounted(versions.lsn, made_by)
        yield ObsoleteEntries.of(versions.lsn[own], is_ln=False, is_listed=True)
        # Nodes with a newer version in use: their versions from before the interval are obsolete.
        group = np.zeros(len(versions), np.int64)
        group[order[1:]] = np.cumsum(~same)
        goes_on = np.bincount(group[live], minlength=len(versions))[group] > 0
        before = [
            self._before(versions.last_full_lsn, goes_on & ~versions.is_delta, versions.lsn),
            self._before(versions.last_delta_lsn, goes_on, versions.lsn),
        ]
        lsns, makers = (np.concatenate(column) for column in zip(*before, strict=True))
        order = np.lexsort((makers, lsns))
        first = order[np.diff(lsns[order], prepend=NULL_LSN) != 0]
        first = first[~np.isin(lsns[first], bases)]
        first = first[self.uncounted(lsns[first], makers[first])]
        yield ObsoleteEntries.of(lsns[first], is_ln=False, is_listed=True)

    def _before(self, old: Ints, some: Mask, made_by: Ints) -> tuple[Ints, Ints]:
        some = some & (old != NULL_LSN) & (old < self.since) & (old & _OFFSET != 0)
        return old[some], made_by[some]

    @cached_property
    def _partial_start(self) -> int:
        """LSN of the first CkptStart without a CkptEnd; _NEVER_COUNTED if there is none."""
        end_lsn = self.snapshot.checkpoint.end_lsn
        starts = [
            mark.lsn
            for mark in self.snapshot.end.marks
            if mark.type_no == CKPT_START_NO and (end_lsn == NULL_LSN or mark.lsn > end_lsn)
        ]
        return min(starts, default=_NEVER_COUNTED)

    def _live_lsns(self, db_ids: Ints) -> tuple[Ints, Ints]:
        found = [(_NONE, _NONE)]
        for db_id in np.unique(db_ids).tolist():
            database = self.snapshot.databases.get(db_id)
            if database is not None and database.root_lsn != NULL_LSN:
                found += used_versions(self.snapshot.tree(database), self.since)
        lsns, bases = (np.concatenate(column) for column in zip(*found, strict=True))
        return lsns, bases


def _logged_summaries(snapshot: Snapshot, since: int) -> dict[int, int]:
    """Return the LSN of the last summary of each file from `since` on, by file number."""
    found: dict[int, int] = {}
    for database in snapshot.databases.values():
        if database.name != UTILIZATION_DB:
            continue
        lns = snapshot.interval.lns.select(snapshot.ln_rows(database.db_id))
        lns = lns.select((lns.lsn >= since) & (lns.key_size == _KEY_SIZE))
        data = snapshot.image.data
        for lsn, key in zip(lns.lsn.tolist(), lns.key_position.tolist(), strict=True):
            found[int.from_bytes(bytes(data[key : key + 4]), "big")] = lsn
    return found
