"""Checkpoints: the environment as recovery leaves it, in the order in which the engine writes it.

The entries are the same whether the checkpoint is written or only planned; the caller's `emit`
decides what happens to the bytes.

Source: je-log.md "Checkpoints"; Checkpointer.doCheckpoint, RecoveryManager.recover, JE 18.3.12.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct, field

from je_tools.btree.fault_kinds import FaultKind
from je_tools.checkpoint.changes import Changes, Written
from je_tools.checkpoint.directories import check_layout
from je_tools.checkpoint.internal_records import (
    MAX_ENTRIES,
    NO_LN,
    OWN,
    Fields,
    Records,
    count_files,
    finished_removals,
    gone_reserved_files,
    lacking_expirations,
    lacking_summaries,
    stale_records,
    with_own_databases,
    write_expirations,
    write_summaries,
)
from je_tools.checkpoint.log import CheckpointLog
from je_tools.checkpoint.rollbacks import lacking_marks
from je_tools.checkpoint.trees import TreeWriter
from je_tools.checkpoint.truncation import INVOKER, files_behind
from je_tools.checkpoint.utilization_tracker import Survey, look_at_log
from je_tools.checkpoint.vlsn_records import check_index, is_behind, write_index
from je_tools.core.escaping import quoted
from je_tools.core.properties import BIN_DELTA, FORCE_NEW_FILE, NUMBERS, read_settings
from je_tools.errors import RefusedError
from je_tools.formats.je.flags import DatabaseFlag
from je_tools.formats.je.header import NULL_LSN, lsn_text
from je_tools.formats.je.internal import database_key
from je_tools.formats.je.internal_names import (
    EXPIRATION_DB,
    EXTINCT_SCANS_DB,
    RESERVED_FILES_DB,
    UTILIZATION_DB,
    VLSN_MAP_DB,
)
from je_tools.formats.je.node_writer import DELTAS_MIN
from je_tools.formats.je.types import CKPT_START_NO
from je_tools.formats.je.writer import Appender, Emit, Tail
from je_tools.recovery.database import ID_DB, NAME_DB, Database
from je_tools.recovery.end import MENDED_REFUSALS, EndReason
from je_tools.recovery.interval_tables import DELETED
from je_tools.recovery.marks import IMMUTABLE_NO
from je_tools.recovery.utilization import record_places

if TYPE_CHECKING:
    from je_tools.recovery.snapshot import Snapshot

_LEFT_BY_ALL = (UTILIZATION_DB, VLSN_MAP_DB)
"""Databases that the engine's own checkpoints change after the trees of these are written."""

_ROOT_PRESENT = 1
_CLEANER_NOTHING: dict[str, Any] = {
    "cleaner_last_file_no": -1,
    "cleaner_initial_adjustment_count": 0,
    "cleaner_adjustment_count": 0,
    "cleaner_adjustments": (),
    "completed_scan_count": 0,
    "completed_scans": (),
}
"""CkptEnd fields that only some log versions have. Source: CheckpointEnd, JE 5.0.73."""

_OLD_RECORD: dict[str, Any] = {
    "max_dup_entries": MAX_ENTRIES,
    "file_count": 0,
    "file_utilization": (),
    "trigger_count": 0,
    "triggers": (),
}
"""Descriptor fields that another log version may lack."""


class Settings(Struct, frozen=True):
    """Settings of a checkpoint.

    Attributes:
        file_max: maximum size of a log file, in bytes.
        now_ms: time of the checkpoint, in milliseconds since 1970.
        delta_percent: largest percentage of a BIN's slots that a BIN-delta may hold.
    """

    file_max: int
    now_ms: int
    delta_percent: int = NUMBERS[BIN_DELTA].default


class Checkpoint(Struct):
    """Contents of a checkpoint.

    Attributes:
        start_lsn, root_lsn, end_lsn: LSNs of its CkptStart, DbTree and CkptEnd.
        first_active_lsn: LSN from which the next recovery begins to undo.
        map_lns: databases whose descriptor is written, by id, with the root LSN in it.
        made: internal databases that the log lacked, by id.
        removed: ids of databases whose removal it completes.
        records: changes to internal databases, by database name.
        node_counts, node_sizes: nodes written and their bytes, by database, level and entry type.
        entry_counts: entries written and their bytes, by type.
        last_file_no: number of the file in which it ends.
    """

    start_lsn: int = NULL_LSN
    root_lsn: int = NULL_LSN
    end_lsn: int = NULL_LSN
    first_active_lsn: int = NULL_LSN
    map_lns: dict[int, int] = field(default_factory=dict)
    made: Mapping[int, Database] = field(default_factory=dict)
    removed: frozenset[int] = frozenset()
    records: dict[str, Records] = field(default_factory=dict)
    node_counts: Mapping[tuple[int, int, str], int] = field(default_factory=dict)
    node_sizes: Mapping[tuple[int, int, str], int] = field(default_factory=dict)
    entry_counts: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    last_file_no: int = 0

    @property
    def size(self) -> int:
        """Size of all entries, in bytes."""
        return sum(size for _, size in self.entry_counts.values())


def is_to_cut(snapshot: Snapshot) -> bool:
    """Return True if anything after the end of the log has to be cut off or set aside."""
    if snapshot.end.reason is EndReason.CHOSEN and files_behind(snapshot):
        return True
    return snapshot.end.cut_size > 0 or any(each.put_aside for each in snapshot.end.skipped)


def is_needed(snapshot: Snapshot) -> bool:
    """Return True if a checkpoint would leave the engine less to do when it opens the environment.

    The engine writes no checkpoint if the log ends with one, even if transactions that were open
    at that time have to be undone at each opening.
    """
    if snapshot.checkpoint.end_lsn != snapshot.end.last_lsn:
        return True
    removed = _removed(snapshot)
    if removed or finished_removals(snapshot, removed) or with_own_databases(snapshot)[1]:
        return True
    if stale_records(snapshot):
        return True
    if lacking_summaries(snapshot, snapshot.checkpoint.start_lsn) or lacking_expirations(snapshot):
        return True
    if is_behind(snapshot) or lacking_marks(snapshot):
        return True
    return any(
        len(snapshot.overlay(db_id)) or database.root_lsn != _stored_root(database)
        for db_id, database in snapshot.databases.items()
        if database.name not in _LEFT_BY_ALL and db_id != ID_DB
    )


def _stored_root(database: Database) -> int:
    """Return the root LSN in the descriptor, or `NULL_LSN` if there is no tree."""
    record = database.record
    return int(record["root_lsn"]) if record["tree_exists"] & 1 else NULL_LSN


def check_openable(snapshot: Snapshot) -> None:
    """Check that the engine would open the log, at least after a checkpoint.

    Raises:
        RefusedError: it would not; the message says why.
    """
    check_layout(snapshot.environment)
    fatal = [each for each in snapshot.refusals if each not in MENDED_REFUSALS]
    if fatal:
        name = snapshot.environment.name
        said = ", ".join(str(each) for each in fatal)
        steps = " and ".join(f"`je-tools explain refusal:{each}`" for each in fatal)
        raise RefusedError(
            f"{name}: the engine would not open this log ({said}), and a checkpoint would not "
            f"change that. {steps} tells what to do, `je-tools recover {quoted(name)}` what the "
            "log holds."
        )


def check_writable(snapshot: Snapshot, *, cuts: bool) -> None:
    """Check that a checkpoint can be written.

    Args:
        snapshot: the log as recovery leaves it.
        cuts: True if everything after the end of the log is cut off first.

    Raises:
        RefusedError: it cannot; the message says why and what to do.
    """
    name = snapshot.environment.name
    for database in snapshot.databases.values():
        snapshot.overlay(database.db_id)
        snapshot.read_upper_nodes(database)
    check_openable(snapshot)
    if snapshot.interval.in_doubt:
        said = ", ".join(map(str, sorted(snapshot.interval.in_doubt)))
        raise RefusedError(
            f"{name}: prepared (XA) and not decided: transaction {said}. A checkpoint would take "
            "it back; open the environment with the application, whose transaction manager "
            "decides, first."
        )
    # A crash leaves nodes whose identifier key is out of range; rewriting keeps what is in range.
    bad = [
        each
        for each in snapshot.faults.damage
        if not (snapshot.was_crashed and each.kind is FaultKind.OTHER_RANGE)
    ]
    if bad:
        raise RefusedError(
            f"{name}: the trees are damaged, first at {lsn_text(bad[0].lsn)} ({bad[0].kind}), and "
            f"a checkpoint would make the loss permanent. `je-tools verify --tree {quoted(name)}` "
            f"tells what is lost, `je-tools salvage {quoted(name)} --output DIR` gets the records "
            "out."
        )
    for database in snapshot.databases.values():
        if database.comparators and snapshot.is_changed(database.db_id):
            raise RefusedError(
                f"{name}: database {database.name} has a comparator of its application, so only "
                "the engine, with the application's classes, can put changed records in order. "
                "Open the environment with it; `je-tools export` reads it as it is."
            )
    recover = f"`je-tools recover {quoted(name)} --apply`"
    if not cuts and is_to_cut(snapshot):
        raise RefusedError(
            f"{name}: the log does not end with its last entry; what is behind it has to be cut "
            f"off first. {recover} does both; without --apply it tells what would go."
        )
    if not cuts and lacking_marks(snapshot):
        raise RefusedError(f"{name}: a rollback has begun and not ended. {recover} finishes it.")
    check_index(snapshot)


def begins_file(snapshot: Snapshot) -> bool:
    """Return True if nothing may be appended to the last file because a backup holds it as it is.

    Source: RecoveryManager.findEndOfLog, recover, DbBackup.startBackup, JE 7.5.11.
    """
    if any(mark.type_no == IMMUTABLE_NO for mark in snapshot.end.marks):
        return True
    return read_settings(Path(snapshot.environment.name)).switch(FORCE_NEW_FILE)


def write_checkpoint(snapshot: Snapshot, settings: Settings, emit: Emit) -> Checkpoint:
    """Write the entries of a checkpoint after the end of a log.

    Args:
        snapshot: the log as recovery leaves it.
        settings: settings of the checkpoint.
        emit: called with file number, offset and bytes, in log order.

    Raises:
        RefusedError: a tree cannot be written; what was emitted so far does no harm.
    """
    return _Checkpointer(snapshot, settings, emit).write()


class _Checkpointer:
    def __init__(self, snapshot: Snapshot, settings: Settings, emit: Emit) -> None:
        snapshot, self.made = with_own_databases(snapshot)
        self.snapshot = snapshot
        self.settings = settings
        last = snapshot.end.files[-1]
        tail = Tail(
            last.file_no,
            snapshot.end.next_offset,
            snapshot.end.last_lsn & 0xFFFFFFFF,
            last.version,
        )
        self.survey = self._look()
        self.scanner = snapshot.scanner.staged("checkpoint", 0)
        self.emit = emit
        self.log = self._log_at(tail, self._emit_and_tell)
        made = {each.db_id: each for each in self.made}
        self.done = Checkpoint(made=made, removed=_removed(snapshot))
        self.counted: Mapping[bytes, Fields | None] = {}
        self.changed_maps: Records = {}
        self.changed_names: Records = {}

    def _log_at(self, tail: Tail, emit: Emit) -> CheckpointLog:
        appender = Appender(
            tail, file_max=self.settings.file_max, created_ms=self.settings.now_ms, emit=emit
        )
        return CheckpointLog(appender, self.snapshot.image.data, self.survey.sequences)

    def _emit_and_tell(self, file_no: int, offset: int, data: bytes) -> None:
        self.emit(file_no, offset, data)
        self.scanner.advance(len(data))

    def _look(self) -> Survey:
        snapshot = self.snapshot
        last = snapshot.end.files[-1].file_no
        wanted = (
            lacking_summaries(snapshot, snapshot.end.next_lsn)
            | lacking_expirations(snapshot)
            | {last}
        )
        return look_at_log(snapshot, wanted)

    def write(self) -> Checkpoint:
        """Write the whole checkpoint."""
        snapshot, done = self.snapshot, self.done
        if begins_file(snapshot):
            self.log.appender.flip()
        self._write_temporary_names()
        started = {"time_ms": self.settings.now_ms, "ckpt_id": self._ckpt_id(), "invoker": INVOKER}
        done.start_lsn = self.log.entry("CkptStart", started).lsn
        done.records[VLSN_MAP_DB] = write_index(
            snapshot, self.survey, self.log, self.settings.now_ms
        )
        done.first_active_lsn = _first_active(snapshot, done.start_lsn)
        for db_id, database in snapshot.databases.items():
            if db_id in (ID_DB, NAME_DB) or db_id in done.removed or database.name in OWN:
                continue
            self._write_database(database, {})
        for db_id in sorted(done.removed):
            self._write_removal(snapshot.databases[db_id])
        for database in self.made:
            self._write_name(database)
        self.counted = count_files(snapshot, self.survey, self.log, done.start_lsn, done.removed)
        self._write_rest(self._last_file_no())
        self.log.appender.flush()
        done.node_counts, done.node_sizes = self.log.node_counts, self.log.node_sizes
        done.entry_counts = self.log.appender.counts
        done.last_file_no = self.log.appender.tail.file_no
        return done

    def _last_file_no(self) -> int:
        """Return the number of the file in which the checkpoint will end.

        Internal databases also get records of the files that these records fill up. So the rest is
        written to nowhere until the number no longer changes.
        """
        guess, found = -1, self.log.appender.tail.file_no
        while found != guess:
            guess = found
            trial = copy.copy(self)
            trial.done = copy.deepcopy(self.done)
            trial.changed_maps = dict(self.changed_maps)
            trial.changed_names = dict(self.changed_names)
            trial.log = self._log_at(self.log.appender.tail, nowhere)
            trial.log.sequences = copy.deepcopy(self.log.sequences)
            trial.log.expiring = copy.deepcopy(self.log.expiring)
            trial._write_rest(guess)
            found = trial.log.appender.tail.file_no
        return found

    def _write_rest(self, last_file_no: int) -> None:
        self._write_own(last_file_no)
        self._write_end()

    def _write_own(self, last_file_no: int) -> None:
        """Write the records and trees of internal databases."""
        snapshot, done = self.snapshot, self.done
        done.records |= {
            RESERVED_FILES_DB: gone_reserved_files(snapshot),
            EXTINCT_SCANS_DB: finished_removals(snapshot, done.removed),
            UTILIZATION_DB: write_summaries(self.counted, self.log),
            EXPIRATION_DB: write_expirations(snapshot, self.survey, self.log, last_file_no),
        }
        for database in snapshot.databases.values():
            if database.name in OWN:
                self._write_database(database, done.records[database.name])

    def _write_database(self, database: Database, records: Records) -> None:
        """Write the tree of a database, and its descriptor if that changes."""
        root_lsn = self._write_tree(database, records)
        named = database.record.get("name", database.name)
        stays = root_lsn == _stored_root(database) and named == database.name
        if stays and database not in self.made:
            return
        rooted = {"tree_exists": 1, "root_key": b"", "root_lsn": root_lsn, "root_state": 0}
        self.done.map_lns[database.db_id] = root_lsn
        self._write_map_ln(database, rooted if root_lsn != NULL_LSN else {}, deleted=False)

    def _write_tree(self, database: Database, records: Records) -> int:
        snapshot = self.snapshot
        tree = snapshot.tree(database)
        changes = Changes.of(snapshot, tree)
        writer = TreeWriter(
            tree,
            changes.with_written(records),
            self.log,
            prefixing=bool(database.flags & (DatabaseFlag.PREFIXING | DatabaseFlag.DUPLICATES)),
            max_entries=int(database.record["max_entries"]) or MAX_ENTRIES,
            delta_percent=self.settings.delta_percent if self.log.version >= DELTAS_MIN else 0,
            since_lsn=max(snapshot.checkpoint.start_lsn, 0),
        )
        return writer.write()

    def _write_temporary_names(self) -> None:
        """Log the names of temporary databases again, before the checkpoint begins.

        The engine cannot open a log in which such a database has a descriptor but no name. Until
        the checkpoint is complete, recovery replays both; after that it replays neither.
        """
        snapshot = self.snapshot
        if not snapshot.temporary:
            return
        lsns = dict(record_places(snapshot, snapshot.databases[NAME_DB].name or ""))
        for db_id, name in sorted(snapshot.temporary.items()):
            key = name.encode("utf-8", "surrogateescape")
            self._write_name_ln(key, db_id)
            self.log.replaced_lns.append(lsns[key])
            self.changed_names[key] = None

    def _write_name(self, database: Database) -> None:
        """Write the name of a new internal database."""
        key = (database.name or "").encode()
        self.changed_names[key] = self._write_name_ln(key, database.db_id)

    def _write_name_ln(self, key: bytes, db_id: int) -> Written:
        fields = NO_LN | {"db_id": NAME_DB, "key": key, "data": b"", "operation": 0}
        return self.log.entry("NameLN", fields | {"name_db_id": db_id, "deleted": 0})

    def _write_removal(self, database: Database) -> None:
        if database.db_id not in self.snapshot.temporary:
            self._write_map_ln(database, {}, deleted=True)
            return
        self.log.replaced_lns.append(database.map_ln_lsn)
        self.changed_maps[database_key(database.db_id)] = None

    def _write_map_ln(
        self, database: Database, rooted: Mapping[str, Any], *, deleted: bool
    ) -> None:
        record = {**_OLD_RECORD, **database.record, **rooted}
        if database.name is not None:
            record["name"] = database.name
        key = database_key(database.db_id)
        fields = NO_LN | {"db_id": ID_DB, "key": key, "database": record}
        fields |= {"data": None, "deleted": 1} if deleted else {"data": b"", "deleted": 0}
        written: Written | None = self.log.entry("MapLN", fields)
        if database.map_ln_lsn != NULL_LSN:
            self.log.replaced_lns.append(database.map_ln_lsn)
        self.changed_maps[key] = None if deleted else written

    def _write_end(self) -> None:
        """Write the trees of the name and id databases, the DbTree and the CkptEnd."""
        snapshot, done = self.snapshot, self.done
        root = snapshot.entry(snapshot.checkpoint.root_lsn)
        assert root is not None
        names = self._write_tree(snapshot.databases[NAME_DB], self.changed_names)
        ids = self._write_tree(snapshot.databases[ID_DB], self.changed_maps)
        records = {}
        for group, db_id, root_lsn in (
            ("id_database", ID_DB, ids),
            ("name_database", NAME_DB, names),
        ):
            record = snapshot.databases[db_id].record
            rooted = {"tree_exists": 1, "root_key": b"", "root_lsn": root_lsn, "root_state": 0}
            records[group] = {**_OLD_RECORD, **record, **rooted}
        sequences = self.log.sequences.fields
        last_ids = {name: sequences[name] for name in root.fields if name.startswith("last_")}
        done.root_lsn = self.log.entry("DbTree", {**root.fields, **records, **last_ids}).lsn
        fields = {**_CLEANER_NOTHING, **snapshot.checkpoint.fields, **sequences}
        fields |= {"invoker": INVOKER, "time_ms": self.settings.now_ms, "flags": _ROOT_PRESENT}
        fields |= {"ckpt_start_lsn": done.start_lsn, "root_lsn": done.root_lsn}
        fields |= {"first_active_lsn": done.first_active_lsn, "ckpt_id": self._ckpt_id()}
        done.end_lsn = self.log.entry("CkptEnd", fields).lsn

    def _ckpt_id(self) -> int:
        """Return one more than the last checkpoint id in the log."""
        known = [int(self.snapshot.checkpoint.fields.get("ckpt_id", 0))]
        known += [
            int(mark.fields["ckpt_id"])
            for mark in self.snapshot.end.marks
            if mark.type_no == CKPT_START_NO and "ckpt_id" in mark.fields
        ]
        return max(known) + 1


def _first_active(snapshot: Snapshot, start_lsn: int) -> int:
    """Return the first LSN of the transactions that stay open, or `start_lsn` if there are none."""
    lns = snapshot.interval.lns
    kept = np.isin(lns.txn_id, list(snapshot.kept_txns))
    return int(lns.lsn[kept].min(initial=start_lsn))


def nowhere(_file_no: int, _offset: int, _data: bytes) -> None:
    """Discard bytes that only have to be counted."""


def _removed(snapshot: Snapshot) -> frozenset[int]:
    """Return the ids of databases that an unfinished removal or undone creation left nameless.

    A removal whose transaction stays open is left out: it may still be rolled back.
    """
    nameless = {
        db_id
        for db_id, database in snapshot.databases.items()
        if database.name is None and db_id not in (ID_DB, NAME_DB)
    }
    lns = snapshot.interval.lns
    open_removals = (lns.db_id == NAME_DB) & (lns.flags & DELETED != 0)
    open_removals &= np.isin(lns.txn_id, list(snapshot.kept_txns))
    for lsn in lns.lsn[open_removals].tolist():
        entry = snapshot.entry(lsn)
        if entry is not None:
            nameless.discard(int(entry.fields["name_db_id"]))
    return frozenset(nameless)
