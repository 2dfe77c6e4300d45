"""Databases in a checkpoint: their trees, their descriptors and their names.

Descriptors and names are records of two databases of their own. Their changes are collected, and
their trees are written last.

Source: je-log.md "Checkpoints"; Checkpointer.doCheckpoint, DbTree, JE 18.3.12.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from je_tools.checkpoint.changed_databases import CHANGED_DATABASES
from je_tools.checkpoint.changes import SlotChanges
from je_tools.checkpoint.descriptors import MAX_ENTRIES, complete_descriptor
from je_tools.checkpoint.trees import TreeWriter
from je_tools.formats.je.flags import DatabaseFlag
from je_tools.formats.je.header import NULL_LSN
from je_tools.formats.je.internal.records import database_key
from je_tools.formats.je.write.node_writer import DELTAS_MIN
from je_tools.formats.je.write.transactions import NO_LN
from je_tools.recovery.database import ID_DB, NAME_DB
from je_tools.recovery.utilization import record_places

if TYPE_CHECKING:
    from je_tools.checkpoint.checkpoint_log import CheckpointLog
    from je_tools.checkpoint.contents import CheckpointSettings
    from je_tools.checkpoint.record_changes import RecordChanges
    from je_tools.formats.je.write.transactions import WrittenEntry
    from je_tools.recovery.database import Database
    from je_tools.recovery.snapshot import Snapshot


class DatabaseWriter(Struct, frozen=True):
    """Writer of the databases of one checkpoint.

    Attributes:
        snapshot: the log as recovery leaves it.
        log: log to append to.
        settings: settings of the checkpoint.
        created: internal databases that the log lacks, by id.
        map_lns: databases whose descriptor was written, by id, with the root LSN in it.
        changed_maps, changed_names: changes of the databases of descriptors and of names.
    """

    snapshot: Snapshot
    log: CheckpointLog
    settings: CheckpointSettings
    created: Mapping[int, Database]
    map_lns: dict[int, int] = field(default_factory=dict)
    changed_maps: RecordChanges = field(default_factory=dict)
    changed_names: RecordChanges = field(default_factory=dict)

    def on_trial(self, log: CheckpointLog) -> DatabaseWriter:
        """Return a writer in the same state that appends to another log."""
        return replace(
            self,
            log=log,
            map_lns=dict(self.map_lns),
            changed_maps=dict(self.changed_maps),
            changed_names=dict(self.changed_names),
        )

    def write_recovered(self, removed: frozenset[int]) -> None:
        """Write the databases as recovery leaves them, except those that the checkpoint changes.

        Args:
            removed: ids of databases whose removal the checkpoint completes.
        """
        databases = self.snapshot.databases
        for db_id, database in databases.items():
            if db_id in (ID_DB, NAME_DB) or db_id in removed or database.name in CHANGED_DATABASES:
                continue
            self._write(database, {})
        for db_id in sorted(removed):
            self._write_removal(databases[db_id])
        for database in self.created.values():
            key = (database.name or "").encode()
            self.changed_names[key] = self._write_name_ln(key, database.db_id)

    def write_changed(self, records: Mapping[str, RecordChanges]) -> None:
        """Write the internal databases that the checkpoint changes.

        Args:
            records: changes to their records, by database name.
        """
        for database in self.snapshot.databases.values():
            if database.name in CHANGED_DATABASES:
                self._write(database, records[database.name])

    def _write(self, database: Database, records: RecordChanges) -> None:
        """Write the tree of a database, and its descriptor if that changes."""
        root_lsn = self._write_tree(database, records)
        named = database.record.get("name", database.name)
        stays = root_lsn == database.stored_root_lsn and named == database.name
        if stays and database.db_id not in self.created:
            return
        self.map_lns[database.db_id] = root_lsn
        self._write_map_ln(database, root_lsn if root_lsn != NULL_LSN else None, deleted=False)

    def write_temporary_names(self) -> None:
        """Log the names of temporary databases again, before the checkpoint begins.

        The engine cannot open a log in which such a database has a descriptor but no name. If the
        checkpoint does not become complete, recovery finds both. Otherwise it finds neither.
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

    def _write_removal(self, database: Database) -> None:
        """Remove the descriptor of a database."""
        if database.db_id not in self.snapshot.temporary:
            self._write_map_ln(database, None, deleted=True)
            return
        self.log.replaced_lns.append(database.map_ln_lsn)
        self.changed_maps[database_key(database.db_id)] = None

    def write_roots(self) -> dict[str, Any]:
        """Write the trees of names and descriptors; return their descriptors, by DbTree field."""
        databases = self.snapshot.databases
        names = self._write_tree(databases[NAME_DB], self.changed_names)
        ids = self._write_tree(databases[ID_DB], self.changed_maps)
        return {
            "id_database": complete_descriptor(databases[ID_DB].record, ids),
            "name_database": complete_descriptor(databases[NAME_DB].record, names),
        }

    def _write_tree(self, database: Database, records: RecordChanges) -> int:
        snapshot = self.snapshot
        tree = snapshot.tree(database)
        changes = SlotChanges.of(snapshot, tree)
        is_rewritten = database.db_id in self.settings.rewritten
        has_deltas = self.log.version >= DELTAS_MIN
        writer = TreeWriter(
            tree,
            changes.with_written(records),
            self.log,
            prefixing=bool(database.flags & (DatabaseFlag.PREFIXING | DatabaseFlag.DUPLICATES)),
            max_entries=int(database.record["max_entries"]) or MAX_ENTRIES,
            delta_percent=self.settings.delta_percent if has_deltas else 0,
            since_lsn=max(snapshot.checkpoint.start_lsn, 0),
            is_rewritten=is_rewritten,
        )
        return writer.write()

    def _write_name_ln(self, key: bytes, db_id: int) -> WrittenEntry:
        fields = NO_LN | {"db_id": NAME_DB, "key": key, "data": b"", "operation": 0}
        return self.log.entry("NameLN", fields | {"name_db_id": db_id, "deleted": 0})

    def _write_map_ln(self, database: Database, root_lsn: int | None, *, deleted: bool) -> None:
        record = complete_descriptor(database.record, root_lsn)
        if database.name is not None:
            record["name"] = database.name
        key = database_key(database.db_id)
        fields = NO_LN | {"db_id": ID_DB, "key": key, "database": record}
        fields |= {"data": None, "deleted": 1} if deleted else {"data": b"", "deleted": 0}
        written: WrittenEntry | None = self.log.entry("MapLN", fields)
        if database.map_ln_lsn != NULL_LSN:
            self.log.replaced_lns.append(database.map_ln_lsn)
        self.changed_maps[key] = None if deleted else written
