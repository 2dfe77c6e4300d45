"""Recovery plan: the changes that recovery would make to a log, without making them.

Source: je-log.md "Recovery"; RecoveryManager.recover, RecoveryInfo, JE 18.3.12.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from je_tools.formats.je.flags import NameOperation
from je_tools.formats.je.header import NULL_LSN
from je_tools.recovery.database import ID_DB, NAME_DB
from je_tools.recovery.interval_tables import REPLICATED, TRANSACTIONAL, RollbackPeriod
from je_tools.recovery.lost_content import LostContent, lost_after
from je_tools.recovery.outcomes import KeyOutcome
from je_tools.recovery.utilization import missing_in_use

if TYPE_CHECKING:
    from je_tools.formats.arrays import Mask
    from je_tools.recovery.end import LogEnd, Refusal, StartCheckpoint
    from je_tools.recovery.interval import ReplayInterval
    from je_tools.recovery.replay_rules import ReplayRules
    from je_tools.recovery.snapshot import Snapshot

_OPERATIONS: dict[int, str] = {
    NameOperation.CREATE: "created",
    NameOperation.REMOVE: "removed",
    NameOperation.TRUNCATE: "truncated",
    NameOperation.RENAME: "renamed",
    NameOperation.CONFIGURE: "configured",
}


class Pass(Struct, frozen=True):
    """One of the engine's passes over the interval.

    Attributes:
        name: description of the pass.
        entry_count: number of entries that it reads and that count.
        applied_count: number of those that change something; None if not counted.
    """

    name: str
    entry_count: int
    applied_count: int | None


class OpenTransaction(Struct, frozen=True):
    """A transaction of the interval without an end.

    Attributes:
        txn_id: negative if it is replicated.
        ln_count: number of its LNs in the interval.
        first_lsn, last_lsn: of these LNs.
        replicated: True if a node of a group keeps it until its master ends it; elsewhere it is
            undone.
        in_doubt: True if it is prepared: its records stay locked until somebody decides its end.
    """

    txn_id: int
    ln_count: int
    first_lsn: int
    last_lsn: int
    replicated: bool
    in_doubt: bool

    @property
    def outcome(self) -> str:
        """Outcome in words."""
        if self.in_doubt:
            return "in doubt"
        return "kept by a node of a group" if self.replicated else "undone"


class DatabaseChange(Struct, frozen=True):
    """A name that recovery adds or removes.

    Attributes:
        name: name of the database.
        db_id: its id; None if the name is removed and nothing records the id.
        what: the change: created, renamed, removed and so on, or undone.
    """

    name: str
    db_id: int | None
    what: str


class Plan(Struct, frozen=True):
    """Changes that recovery would make.

    Attributes:
        snapshot: the log after recovery.
        passes: passes in the engine's order.
        committed_count, aborted_count: number of Commits and Aborts in the interval.
        open_transactions: transactions without an end, in log order.
        database_changes: names that change.
        unfinished_removals: ids of databases that no name leads to any more.
        files_needed: first and last number of the files that recovery reads.
        lost: content after the end.
        is_clean: True if the log ends with its checkpoint, so that nothing is written.
        missing: numbers of missing files that are in use.
    """

    snapshot: Snapshot
    passes: tuple[Pass, ...]
    committed_count: int
    aborted_count: int
    open_transactions: tuple[OpenTransaction, ...]
    database_changes: tuple[DatabaseChange, ...]
    unfinished_removals: tuple[int, ...]
    files_needed: tuple[int, int]
    lost: LostContent
    is_clean: bool
    missing: tuple[int, ...] = ()

    @property
    def end(self) -> LogEnd:
        """End of the log, and the reason why it ends there."""
        return self.snapshot.end

    @property
    def checkpoint(self) -> StartCheckpoint:
        """Checkpoint at which recovery begins."""
        return self.snapshot.checkpoint

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        """Reasons why the engine would not open the log; usually none."""
        return self.snapshot.refusals

    @property
    def periods(self) -> tuple[RollbackPeriod, ...]:
        """Rollbacks of the interval."""
        return self.snapshot.interval.periods


def plan_recovery(snapshot: Snapshot) -> Plan:
    """Undo and redo all databases in memory, and return the result as a plan."""
    interval, checkpoint = snapshot.interval, snapshot.checkpoint
    for db_id in snapshot.databases:
        snapshot.overlay(db_id)
    ends = interval.ends
    first = snapshot.first_lsn >> 32
    return Plan(
        snapshot=snapshot,
        passes=_passes(snapshot),
        committed_count=int(np.count_nonzero(ends.is_commit)),
        aborted_count=int(np.count_nonzero(~ends.is_commit)),
        open_transactions=_open_transactions(interval, snapshot.rules),
        database_changes=_database_changes(snapshot),
        unfinished_removals=tuple(
            db_id
            for db_id, each in snapshot.databases.items()
            if each.name is None and db_id not in snapshot.temporary
        ),
        files_needed=(first, snapshot.end.files[-1].file_no),
        lost=lost_after(snapshot.environment, snapshot.end, snapshot.scanner, _names(snapshot)),
        is_clean=checkpoint.end_lsn != NULL_LSN and checkpoint.end_lsn == snapshot.end.last_lsn,
        missing=tuple(missing_in_use(snapshot)) if snapshot.environment.missing else (),
    )


def _names(snapshot: Snapshot) -> dict[int, str | None]:
    return {db_id: each.name for db_id, each in snapshot.databases.items()}


def _passes(snapshot: Snapshot) -> tuple[Pass, ...]:
    nodes, lns, ends = snapshot.interval.nodes, snapshot.interval.lns, snapshot.interval.ends
    of_ids = nodes.db_id == ID_DB
    map_lns = lns.db_id == ID_DB
    overlays = {db_id: snapshot.overlay(db_id) for db_id in snapshot.databases}
    others = [overlay for db_id, overlay in overlays.items() if db_id != ID_DB]
    is_txn = (lns.flags & TRANSACTIONAL != 0) & ~map_lns
    after = lns.lsn >= snapshot.checkpoint.start_lsn

    def counted(mask: Mask) -> int:
        return int(np.count_nonzero(mask))

    return (
        Pass("roots of the database of ids", counted(of_ids & nodes.is_root), None),
        Pass("nodes of the database of ids", counted(of_ids & ~nodes.is_root), None),
        Pass("ends of transactions, rollbacks", len(ends) + len(snapshot.interval.periods), None),
        Pass("descriptors of databases", counted(map_lns), overlays[ID_DB].redone_count),
        Pass("roots of other databases", counted(~of_ids & nodes.is_root), None),
        Pass("nodes of other databases", counted(~of_ids & ~nodes.is_root), None),
        Pass("undo of records", counted(is_txn), sum(each.undone_count for each in others)),
        Pass(
            "redo of records",
            counted(after & ~map_lns),
            sum(each.redone_count for each in others),
        ),
    )


def _open_transactions(interval: ReplayInterval, rules: ReplayRules) -> tuple[OpenTransaction, ...]:
    lns, ends = interval.lns, interval.ends
    rows = np.flatnonzero(rules.is_undone(lns))
    rows = rows[~np.isin(lns.txn_id[rows], ends.txn_id[~ends.is_commit])]
    if not len(rows):
        return ()
    ids, first, inverse = np.unique(lns.txn_id[rows], return_index=True, return_inverse=True)
    counts = np.bincount(inverse)
    last = np.zeros(len(ids), np.int64)
    np.maximum.at(last, inverse, lns.lsn[rows])
    found = [
        OpenTransaction(
            int(ids[i]),
            int(counts[i]),
            int(lns.lsn[rows[first[i]]]),
            int(last[i]),
            bool(lns.flags[rows[first[i]]] & REPLICATED),
            int(ids[i]) in interval.in_doubt,
        )
        for i in range(len(ids))
    ]
    return tuple(sorted(found, key=lambda each: each.first_lsn))


def _database_changes(snapshot: Snapshot) -> tuple[DatabaseChange, ...]:
    overlay = snapshot.overlay(NAME_DB)
    changes, gone = [], set()
    for row in range(len(overlay)):
        name = (overlay.key[row] or b"").decode("utf-8", "surrogateescape")
        outcome = KeyOutcome(int(overlay.outcome[row]))
        entry = snapshot.entry(int(overlay.lsn[row]))
        fields: Mapping[str, Any] = entry.fields if entry else {}
        db_id = fields.get("name_db_id")
        what = _OPERATIONS.get(fields.get("operation", 0), "named")
        if outcome is KeyOutcome.ABORT_VERSION:
            what = f"{what}, undone"
        elif outcome is KeyOutcome.NO_RECORD and fields.get("deleted"):
            what = "removed"
            gone.add(name)
        elif outcome is KeyOutcome.NO_RECORD:
            what = "creation undone"
        changes.append(DatabaseChange(name, db_id, what))
    changes += [
        DatabaseChange(name, db_id, "temporary, removed")
        for db_id, name in snapshot.temporary.items()
    ]
    # A rename takes one name and gives another to the same id.
    gone |= set(snapshot.temporary.values())
    new = {each.db_id: each.name for each in changes if each.name not in gone}
    return tuple(
        replace(each, what=f"renamed to {new[each.db_id]}")
        if each.name in gone and each.db_id in new
        else each
        for each in changes
    )
