"""Rebuild of the VLSN index of a node from its log.

The new records are written as one local transaction of the index database. If its tree is damaged,
or the database does not exist, an empty tree comes first. Recovery then appends the VLSNs that were
logged since the last checkpoint began.

Source: je-log.md "The VLSN index"; VLSNIndex.init, VLSNTracker.flushToDatabase, JE 7.5.11, 18.3.12
and 25.3.17.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from je_tools.append.new_trees import append_database, append_empty_tree
from je_tools.append.operation import AppendLog, AppendOperation, PlannedChange
from je_tools.checkpoint.old_versions import old_versions
from je_tools.formats.je.internal.names import VLSN_MAP_DB
from je_tools.formats.je.internal.records import Unreadable
from je_tools.formats.je.internal.replication import RANGE_KEY, GhostBucket, VlsnBucket, VlsnRange
from je_tools.formats.je.tuples import long_key
from je_tools.formats.je.write.transactions import OldVersion
from je_tools.operations.record_changes import WrittenRecord, other_changes
from je_tools.recovery.interval_tables import COMMITTED, DELETED, INVISIBLE
from je_tools.vlsn.index import MisfitError
from je_tools.vlsn.rebuild_plan import RebuildPlan, plan_rebuild
from je_tools.vlsn.recovered_index import merged_index, read_index, stream_since_checkpoint

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from je_tools.findings import Finding
    from je_tools.recovery.database import Database
    from je_tools.recovery.snapshot import Snapshot
    from je_tools.vlsn.index import VlsnIndex
    from je_tools.vlsn.index_state import IndexState


class IndexRebuild(AppendOperation):
    """The rebuild of a VLSN index.

    Attributes:
        plan: what is done; None before `write`.
    """

    name = "vlsn rebuild"

    def __init__(self) -> None:
        self.plan: RebuildPlan | None = None

    @property
    def findings(self) -> Sequence[Finding]:
        """Findings on the index and the stream."""
        return () if self.plan is None else self.plan.findings

    def repairs(self, finding: Finding) -> bool:
        """Return True for damage in the database of the index, which gets new records."""
        return VLSN_MAP_DB in f"{finding.expected} {finding.found}"

    def write(self, log: AppendLog) -> None:
        """Append an empty tree if there is none, and the transaction that replaces the records.

        Raises:
            InputError, RefusedError, StoppedError: as `plan_rebuild`.
        """
        # The second time, the log is the same, and is not read again.
        plan = self.plan = self.plan or plan_rebuild(log.snapshot)
        if plan.new is None:
            return
        database, old = _database(log, plan.state)
        _write_records(log, plan, database, old)

    def difference(self, before: Snapshot, after: Snapshot) -> str:
        """Compare the index with the planned one, and all other records with those of before."""
        assert self.plan is not None
        try:
            if self.plan.new is None or read_index(after).encode() != self.plan.new.encode():
                return "the VLSN index is not the new one"
            merged = merged_index(after, self.plan.new, stream_since_checkpoint(after))
        except MisfitError as error:
            return f"the engine would not continue with the VLSN index: {error}"
        if merged != self.plan.recovered:
            return f"recovery leaves the VLSN index up to {merged.range.last}"
        return other_changes(before, after, {VLSN_MAP_DB})


def _database(log: AppendLog, state: IndexState) -> tuple[Database, dict[bytes, OldVersion]]:
    """Return the database of the index and its records, with a new tree if it needs one."""
    snapshot, stored = log.snapshot, state.stored
    if stored.db_id is None:
        database, written = append_database(log, VLSN_MAP_DB, is_member=True)
        why = "the index has no database"
    else:
        database = log.database(VLSN_MAP_DB)
        if not stored.is_damaged:
            return database, old_versions(snapshot, database)
        written = append_empty_tree(log, database)
        why = "the tree of the index is damaged"
    new = "an empty tree"
    change = PlannedChange("tree", written.lsn, why, db_id=database.db_id, db=VLSN_MAP_DB, new=new)
    log.note(change)
    return database, _replayed(snapshot, database)


def _replayed(snapshot: Snapshot, database: Database) -> dict[bytes, OldVersion]:
    """Return the records that recovery replays into a new tree."""
    lns, data = snapshot.interval.lns, snapshot.image.data
    found: dict[bytes, OldVersion] = {}
    own = (lns.db_id == database.db_id) & (lns.flags & COMMITTED != 0)
    for row in np.flatnonzero(own & (lns.flags & INVISIBLE == 0)).tolist():
        start, lsn = int(lns.key_position[row]), int(lns.lsn[row])
        key = data[start : start + int(lns.key_size[row])].tobytes()
        entry = snapshot.entry(lsn)
        if int(lns.flags[row]) & DELETED or entry is None:
            found.pop(key, None)
        else:
            found[key] = OldVersion(lsn, entry.header.size)
    return found


def _write_records(
    log: AppendLog, plan: RebuildPlan, database: Database, old: dict[bytes, OldVersion]
) -> None:
    """Append the transaction that turns the stored records into the new ones."""
    assert plan.new is not None
    has_new_tree = bool(log.changes)
    new, texts = plan.new.encode(), dict(_texts(plan.new))
    stored = {} if has_new_tree else dict(_stored_data(plan.state))
    old_texts = dict(_stored_texts(plan.state))
    transaction = log.local_transaction()
    for key in [*sorted(old.keys() - new.keys()), *new]:
        data, version = new.get(key), old.get(key)
        if data is not None and stored.get(key) == data:
            continue
        why = "the tree is new" if has_new_tree else _why(plan, key, version, data)
        change = WrittenRecord(transaction, database, key, data, version)
        change.write(log, why, old_texts.get(key), texts.get(key))
    written = transaction.commit()
    log.note(PlannedChange("commit", written.lsn, "the index changes at once"))


def _why(plan: RebuildPlan, key: bytes, version: OldVersion | None, data: bytes | None) -> str:
    if key == long_key(RANGE_KEY):
        return "the range of the new index"
    if data is None:
        return "the new index has no bucket there"
    if version is None:
        return "VLSNs without a bucket"
    wrong = 0 if plan.judged is None else plan.judged.wrong_counts.get(key, 0)
    return f"wrong mappings: {wrong:,}" if wrong else "not as the log has it"


def _stored_data(state: IndexState) -> Iterator[tuple[bytes, bytes]]:
    """Yield the records of the stored index that can be read, as they are stored."""
    for each in state.stored.records:
        if not isinstance(each.record, Unreadable):
            yield each.record.encode()


def _stored_texts(state: IndexState) -> Iterator[tuple[bytes, str]]:
    for each in state.stored.records:
        if not isinstance(each.record, Unreadable):
            yield each.record.encode()[0], _text(each.record)
        elif each.key is not None:
            yield long_key(each.key), f"unreadable: {each.record.reason}"


def _texts(index: VlsnIndex) -> Iterator[tuple[bytes, str]]:
    for each in (*index.buckets, index.range):
        yield each.encode()[0], _text(each)


def _text(record: VlsnBucket | GhostBucket | VlsnRange) -> str:
    """Return a record in words."""
    if isinstance(record, GhostBucket):
        return f"ghost from VLSN {record.first} on"
    if isinstance(record, VlsnBucket):
        count = sum(offset != 0 for offset in record.offsets)
        return (
            f"VLSN {record.first} to {record.last} in file {record.file_no:#x}, {count:,} mappings"
        )
    return (
        f"VLSN {record.first} to {record.last}, sync={record.last_sync}, "
        f"txnEnd={record.last_txn_end}"
    )
