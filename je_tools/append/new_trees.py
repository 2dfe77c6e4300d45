"""An empty tree for an internal database whose tree is damaged, or which does not exist.

A BIN without slots and a root over it are followed by the descriptor of the database with the root.
Recovery then replays changes to records into the new tree.

Source: Tree.initialRootCreation, DbTree.createDb, RecoveryManager.replayOneIN, JE 18.3.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from je_tools.checkpoint.descriptors import MAX_ENTRIES, complete_descriptor, new_descriptor
from je_tools.formats.je.flags import MAIN_LEVELS, DatabaseFlag, HeaderFlag, NodeFlag
from je_tools.formats.je.header import NULL_LSN
from je_tools.formats.je.internal.records import database_key
from je_tools.formats.je.write.transactions import NO_LN
from je_tools.recovery.database import ID_DB, NAME_DB, Database

if TYPE_CHECKING:
    from je_tools.append.operation import AppendLog
    from je_tools.formats.je.write.transactions import WrittenEntry

_SIZES_OF_BINS_SINCE, _SIZES_OF_INS_SINCE = 9, 21
_NONE = -1


def append_database(log: AppendLog, name: str, *, is_member: bool) -> tuple[Database, WrittenEntry]:
    """Append a new internal database that is not replicated; return it and its MapLN.

    Args:
        log: log to append to.
        name: name of the database.
        is_member: True if the log is that of a node of a group.
    """
    db_id = log.new_id("db")
    flags = DatabaseFlag.NOT_REPLICATED.value if is_member else 0
    descriptor = new_descriptor(db_id, name, log.version, flags)
    database = Database(db_id, name, descriptor, NULL_LSN, NULL_LSN, log.version)
    written = append_empty_tree(log, database)
    fields = {"db_id": NAME_DB, "key": name.encode(), "data": b"", "operation": 0}
    log.entry("NameLN", {**NO_LN, **fields, "name_db_id": db_id, "deleted": 0})
    return database, written


def append_empty_tree(log: AppendLog, database: Database) -> WrittenEntry:
    """Append an empty tree and the descriptor that leads to it; return the descriptor's MapLN."""
    version = log.version
    max_entries = int(database.record.get("max_entries", 0)) or MAX_ENTRIES

    def node(level: int, booleans: int, slots: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "db_id": database.db_id,
            "last_full_lsn": NULL_LSN,
            "last_full_size": 0,
            "last_delta_lsn": NULL_LSN,
            "last_delta_size": 0,
            "expiration_base": _NONE,
            "created_base_ms": _NONE,
            "modified_base_ms": _NONE,
            "node_id": log.new_id("node"),
            "identifier_key": b"",
            "booleans": booleans,
            "compact_max_key_size": _NONE,
            "slot_count": len(slots),
            "level": MAIN_LEVELS | level,
            "max_entries": max_entries,
            "compact_lsns": 0,
            "slots": slots,
        }

    sized = NodeFlag.HAS_SIZES.value
    bin_ = node(1, sized if version >= _SIZES_OF_BINS_SINCE else 0, [])
    child = log.entry("BIN", bin_, flags=HeaderFlag.PROVISIONAL_YES)
    slot = {"key": b"", "lsn": child.lsn, "state": 0, "logged_size": child.size}
    of_root = NodeFlag.ROOT | (sized if version >= _SIZES_OF_INS_SINCE else 0)
    root = log.entry("IN", node(2, of_root, [slot]))
    record = complete_descriptor(database.record, root.lsn)
    key = database_key(database.db_id)
    fields = {"db_id": ID_DB, "key": key, "database": record, "data": b"", "deleted": 0}
    return log.entry("MapLN", {**NO_LN, **fields})
