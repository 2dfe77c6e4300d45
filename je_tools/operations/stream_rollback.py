"""Rollback of the replication stream to a sync point, as a replica does it when it joins a group.

A RollbackStart names the sync point and the open transactions. Every entry of the stream after the
sync point is then marked invisible, and a RollbackEnd says that all marks are durable. Recovery
undoes the marked changes, and cuts the VLSN index back. The engine does not roll back the
end of a transaction: to go back further, the log has to be cut.

Source: je-log.md "The VLSN index"; Replay.rollback, RollbackTracker, RecoveryManager.undoLNs,
VLSNIndex.truncateFromTail, JE 18.3.12.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from je_tools.append.operation import AppendLog, AppendOperation, PlannedChange
from je_tools.checkpoint.comparison import compare_records
from je_tools.checkpoint.rollbacks import InvisibleMark
from je_tools.core.escaping import counted, quoted
from je_tools.errors import RefusedError
from je_tools.formats.je.flags import DbTreeFlag
from je_tools.formats.je.header import FLAGS_AT, invisible_mask
from je_tools.formats.je.internal.names import VLSN_MAP_DB
from je_tools.formats.je.log.fetch import fetch
from je_tools.formats.je.types import COMMIT_NO, type_name
from je_tools.operations.rollback_range import RollbackRange, find_range
from je_tools.recovery.internal_databases import check_replicated, environment_flags
from je_tools.recovery.opening import held_snapshot
from je_tools.vlsn.index import (
    BucketRules,
    Matchpoint,
    MisfitError,
    VlsnIndex,
    merge_stream,
    stream_after_rollbacks,
)
from je_tools.vlsn.recovered_index import (
    read_index,
    recovered_index,
    rollbacks_since_checkpoint,
    stream_since_checkpoint,
)

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from je_tools.formats.arrays import Ints
    from je_tools.recovery.snapshot import Snapshot
    from je_tools.vlsn.logged_stream import LoggedStream

_OFFSET = (1 << 32) - 1


class StreamRollback(AppendOperation):
    """The rollback of a stream to a sync point.

    Attributes:
        to_vlsn: VLSN of the sync point, which stays.
        found: what `write` undoes; None before. Afterwards, it is no longer visible.
    """

    name = "vlsn rollback"

    def __init__(self, to_vlsn: int) -> None:
        self.to_vlsn = to_vlsn
        self.found: RollbackRange | None = None

    def write(self, log: AppendLog) -> None:
        """Append the RollbackStart, mark the entries after the sync point, append the RollbackEnd.

        Raises:
            InputError: the environment is not a node of a replication group.
            UsageError: the log does not have the VLSN, or it is not a sync point.
            RefusedError: transactions have ended after it, or the engine would not continue with
                the VLSN index.
        """
        snapshot = log.snapshot
        check_replicated(snapshot)
        self.found = found = find_range(snapshot, log.index, self.to_vlsn)
        if not len(found.after):
            return
        _check_ends(snapshot, found)
        txn_ids = sorted(snapshot.kept_txns, reverse=True)
        point = {"matchpoint_lsn": found.lsn, "time_ms": log.now_ms}
        started = {"matchpoint_vlsn": found.vlsn, "active_txn_count": len(txn_ids)}
        start = log.entry("RollbackStart", {**point, **started, "active_txns": txn_ids})
        listed = ", ".join(map(str, txn_ids)) or "none"
        log.note(
            PlannedChange(
                "rollback-start",
                start.lsn,
                f"the rollback begins; open transactions: {listed}",
                new=f"back to VLSN {found.vlsn} ({type_name(found.type_no)})",
            )
        )
        marks = _marks(snapshot, found.after.lsn)
        for change in _changes(snapshot, found.after):
            log.note(change)
        log.flip(marks)
        end = log.entry("RollbackEnd", {**point, "rollback_start_lsn": start.lsn})
        log.note(PlannedChange("rollback-end", end.lsn, "all marks are durable"))
        index = _index_after(log, found, start.lsn)
        log.note(
            PlannedChange(
                "index",
                end.lsn,
                "recovery cuts the VLSN index back",
                old=f"VLSN {log.index.range.first} to {log.index.range.last}",
                new=f"VLSN {index.range.first} to {index.range.last}",
            )
        )

    def difference(self, before: Snapshot, after: Snapshot) -> str:
        """Compare the index and the records with those at the sync point."""
        try:
            index = recovered_index(after, stream_since_checkpoint(after))
        except MisfitError as error:
            return f"the engine would not continue with the VLSN index: {error}"
        if index.range.last != self.to_vlsn:
            return f"the VLSN index ends at {index.range.last}"
        assert self.found is not None
        ids = set(_lns_of(before, self.found.after.lsn)[1].tolist())
        touched = {each.name or "" for each in before.databases.values() if each.db_id in ids}
        different = compare_records(before, after, {*touched, VLSN_MAP_DB}).different
        if touched and not different:
            different = _different_from(self.found.lsn, before, after, touched)
        return f"the records of {', '.join(different)} are not as before" if different else ""


def _check_ends(snapshot: Snapshot, found: RollbackRange) -> None:
    """Refuse to roll back ends of transactions.

    Raises:
        RefusedError: there are some after the sync point.
    """
    ends = found.end_vlsns
    if not ends:
        return
    commit_count = int(np.count_nonzero(found.after.type == COMMIT_NO))
    name = snapshot.environment.name
    raise RefusedError(
        f"{name}: {_ends_text(commit_count, len(ends) - commit_count)} after VLSN {found.vlsn}, "
        f"the last with VLSN {ends[-1]}, and the engine never rolls back a transaction that has "
        "ended. Only a cut of the log goes back further, and it loses the Commits: `je-tools vlsn "
        f"rollback {quoted(name)} --to {found.vlsn} --force` shows it. If no other node has them, "
        "they are lost for good."
    )


def _ends_text(commit_count: int, abort_count: int) -> str:
    """Return the numbers of Commits and Aborts with the verb, as `1 Commit lies`."""
    counts = {"Commit": commit_count, "Abort": abort_count}
    texts = [counted(count, word) for word, count in counts.items() if count]
    return f"{' and '.join(texts)} {'lies' if commit_count + abort_count == 1 else 'lie'}"


def _lns_of(snapshot: Snapshot, lsns: Ints) -> tuple[Ints, Ints]:
    """Return the rows of the interval's LNs at some LSNs, and the ids of their databases."""
    lns = snapshot.interval.lns
    if not len(lns):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    rows = np.minimum(np.searchsorted(lns.lsn, lsns), len(lns) - 1)
    rows = rows[lns.lsn[rows] == lsns]
    return rows, lns.db_id[rows]


def _marks(snapshot: Snapshot, lsns: Ints) -> list[InvisibleMark]:
    """Return the flags bytes to change in the headers of entries."""
    entries = fetch(snapshot.image, lsns)
    marks = []
    rows = zip(lsns.tolist(), entries.flags.tolist(), entries.version.tolist(), strict=True)
    for lsn, old, version in rows:
        new = old | invisible_mask(version)
        offset = (lsn & _OFFSET) + FLAGS_AT
        marks.append(InvisibleMark(lsn >> 32, offset, bytes([old]), bytes([new])))
    return marks


def _changes(snapshot: Snapshot, after: LoggedStream) -> Iterator[PlannedChange]:
    """Yield the entries that become invisible."""
    lns, image = snapshot.interval.lns, snapshot.image
    rows, _ = _lns_of(snapshot, after.lsn)
    of_lsn = dict(zip(lns.lsn[rows].tolist(), rows.tolist(), strict=True))
    vlsns = zip(after.lsn.tolist(), after.vlsn.tolist(), after.type.tolist(), strict=True)
    for lsn, vlsn, type_no in vlsns:
        row = of_lsn.get(lsn)
        change = PlannedChange(
            "invisible", lsn, "after the sync point", vlsn=vlsn, old=type_name(type_no)
        )
        if row is not None:
            start, db_id = int(lns.key_position[row]), int(lns.db_id[row])
            change = replace(
                change,
                why=f"transaction {int(lns.txn_id[row])} has no end",
                db_id=db_id,
                db=snapshot.names.get(db_id),
                key=image.data[start : start + int(lns.key_size[row])].tobytes(),
            )
        yield change


def _index_after(log: AppendLog, found: RollbackRange, start_lsn: int) -> VlsnIndex:
    """Return the VLSN index as recovery leaves it after the rollback.

    Raises:
        RefusedError: the engine would not continue with it.
    """
    snapshot = log.snapshot
    point = Matchpoint(found.vlsn, found.lsn)
    stream = log.stream.select(~np.isin(log.stream.lsn, found.after.lsn))
    rules = BucketRules.of(Path(snapshot.environment.name))
    converted = bool(environment_flags(snapshot) & DbTreeFlag.CONVERTED)
    try:
        left = stream_after_rollbacks(
            stream, [*rollbacks_since_checkpoint(snapshot), (start_lsn, point)]
        )
        return merge_stream(read_index(snapshot), left, point, rules, converted=converted)
    except MisfitError as error:
        name = snapshot.environment.name
        raise RefusedError(
            f"{name}: after the rollback, the engine would not continue with the VLSN index: "
            f"{error}. `je-tools vlsn check {quoted(name)}` compares the index with the log."
        ) from error


class _AllBut(Struct, frozen=True):
    """All names except some."""

    names: frozenset[str]

    def __contains__(self, name: object) -> bool:
        return name not in self.names


def _different_from(
    lsn: int, before: Snapshot, after: Snapshot, names: set[str]
) -> tuple[str, ...]:
    """Return the databases whose records are not those at the sync point.

    Args:
        lsn: LSN of the sync point.
        before: the log before the rollback.
        after: the log after it.
        names: databases with entries that were rolled back.
    """
    others: Container[str] = _AllBut(frozenset(names))
    with held_snapshot(
        before.environment, before.scanner, now_ms=before.now_ms, to_lsn=lsn, as_member=True
    ) as at:
        different = compare_records(at, after, others).different
        # Entries that the cleaner has removed or moved since cannot be compared.
        return () if at.faults.damage or at.refusals else different
