"""Catalogue of a snapshot: its databases, found by the trees of their descriptors and names.

Source: je-log.md "Recovery"; RecoveryManager, DbTree, JE 7.5.11 and 18.3.12.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from je_tools.btree.fault_kinds import Fault, FaultKind
from je_tools.errors import InputError
from je_tools.formats.je.flags import DatabaseFlag
from je_tools.formats.je.header import NULL_LSN, lsn_text
from je_tools.formats.je.internal.names import EXPIRATION_DB, INTERNAL_PREFIX
from je_tools.formats.je.log.fetch import Found, fetch
from je_tools.recovery.database import ID_DB, NAME_DB, Database
from je_tools.recovery.end import (
    Refusal,
)

if TYPE_CHECKING:
    from je_tools.recovery.snapshot import Snapshot

_TEMPORARY_UNTIL = 17
"""Newest log version whose engine is known to remove temporary databases.

The engine of version 26 has none any more, and treats one that it finds like any other. Source:
DatabaseImpl, JE 18.3.12 and that of Oracle NoSQL with log version 26.
"""


def find_databases(snapshot: Snapshot) -> None:
    """Fill in the databases of a snapshot, from the tree of descriptors and the tree of names.

    Descriptors and names that cannot be read become faults of the snapshot, or refusals if the
    engine needs them.

    Raises:
        InputError: the DbTree, which names both trees, cannot be read.
    """
    tree = snapshot.entry(snapshot.checkpoint.root_lsn)
    if tree is None or "id_database" not in tree.fields:
        raise InputError(
            f"{snapshot.environment.name}: the root of the databases, which should be at "
            f"{lsn_text(snapshot.checkpoint.root_lsn)}, cannot be read, so the engine would not "
            "open the log either. `je-tools salvage` gets records out without a tree."
        )
    for db_id, name, group in (
        (ID_DB, "_jeIdMap", "id_database"),
        (NAME_DB, "_jeNameMap", "name_database"),
    ):
        record = tree.fields[group]
        root = snapshot.root_of(db_id, record)
        snapshot.databases[db_id] = Database(db_id, name, record, root, NULL_LSN, tree.version)
    names = _names(snapshot)
    # Computed from the names: `faults` keeps only a limited number.
    lacks_internal = any(name.startswith(INTERNAL_PREFIX) for name in snapshot.lost_names)
    for key, lsn in _lsns_of(snapshot, ID_DB):
        entry = snapshot.entry(lsn)
        if entry is None or "database" not in entry.fields:
            snapshot.faults.append(_unreadable(snapshot, ID_DB, key, lsn))
            continue
        record = entry.fields["database"]
        db_id = record["id"]
        root = snapshot.root_of(db_id, record)
        version = entry.version
        snapshot.databases[db_id] = Database(db_id, names.get(db_id), record, root, lsn, version)
    snapshot.names = names | _names_by_descriptors(snapshot)
    if _remove_temporary_names(snapshot):
        snapshot.refusals += (Refusal.NAMELESS_TEMPORARY,)
    if _has_unlogged_root(snapshot):
        snapshot.refusals += (Refusal.UNLOGGED_ROOT,)
    if lacks_internal or _lacks_internal_database(snapshot) or _lacks_expirations(snapshot):
        snapshot.refusals += (Refusal.OWN_DATABASE_LOST,)


def _names(snapshot: Snapshot) -> dict[int, str]:
    """Return names of databases by id."""
    names = {}
    for key, lsn in _lsns_of(snapshot, NAME_DB):
        entry = snapshot.entry(lsn)
        name = key.decode("utf-8", "surrogateescape")
        if entry is None or "name_db_id" not in entry.fields:
            snapshot.faults.append(_unreadable(snapshot, NAME_DB, key, lsn))
            snapshot.lost_names.add(name)
            continue
        names[int(entry.fields["name_db_id"])] = name
    return names


def _names_by_descriptors(snapshot: Snapshot) -> dict[int, str]:
    """Name databases by their descriptors if the name's entry is lost; return names by id."""
    unnamed = [each for each in snapshot.databases.values() if each.name is None]
    counts = Counter(each.record.get("name") for each in unnamed)
    found = {}
    for each in unnamed:
        name = each.record.get("name")
        if name in snapshot.lost_names and counts[name] == 1:
            snapshot.databases[each.db_id] = replace(each, name=name)
            snapshot.lost_names.remove(name)
            found[each.db_id] = str(name)
    return found


def _remove_temporary_names(snapshot: Snapshot) -> bool:
    """Remove the names of temporary databases, which last only until they are closed.

    Each checkpoint logs the descriptors of all open ones, and recovery removes those that it reads.
    Source: RecoveryManager.redoOneLN and removeTempDbs, JE 7.5.11 and 18.3.12.

    Returns:
        True if one has no name. The engine fails to remove such a database.
    """
    is_nameless = False
    if snapshot.end.files[-1].version > _TEMPORARY_UNTIL:
        return is_nameless
    for db_id, database in snapshot.databases.items():
        is_read = database.map_ln_lsn >= max(snapshot.checkpoint.start_lsn, 0)
        if not database.flags & DatabaseFlag.TEMPORARY or not is_read:
            continue
        if database.name is None:
            is_nameless = True
            continue
        snapshot.temporary[db_id] = database.name
        snapshot.databases[db_id] = replace(database, name=None)
        del snapshot.names[db_id]
    return is_nameless


def _has_unlogged_root(snapshot: Snapshot) -> bool:
    """Return True if a descriptor lacks the LSN of its root, although a root was logged.

    Source: RecoveryManager.RootUpdater.doWork, DbLsn.compareTo, JE 18.3.12.
    """
    return any(
        each.record["tree_exists"] & 1
        and int(each.record["root_lsn"]) == NULL_LSN
        and each.root_lsn != NULL_LSN
        for each in snapshot.databases.values()
    )


def _lacks_internal_database(snapshot: Snapshot) -> bool:
    """Return True if the engine cannot find one of its own databases when it opens the log."""
    if any(
        name.startswith(INTERNAL_PREFIX) and db_id not in snapshot.databases
        for db_id, name in snapshot.names.items()
    ):
        return True
    prefix = INTERNAL_PREFIX.encode()
    return any(
        fault.db_id == NAME_DB
        and fault.kind not in (FaultKind.STRAY_SLOTS, FaultKind.SPLIT_CUT_SHORT)
        and (fault.low is None or fault.low[: len(prefix)] <= prefix)
        and (fault.high is None or fault.high >= prefix)
        for fault in snapshot.faults
    )


def _lacks_expirations(snapshot: Snapshot) -> bool:
    """Return True if records of expirations are lost, which the engine reads at each open.

    Source: ExpirationProfile.populateCache, JE 7.5.11 and 18.3.12.
    """
    lacks = False
    for database in list(snapshot.databases.values()):
        if database.name != EXPIRATION_DB:
            continue
        # Without data no entry is decoded; data in slots is there in any case.
        for batch in snapshot.records(database, with_data=False):
            rows = np.flatnonzero(batch.data.sizes < 0)
            found = fetch(snapshot.image, batch.lsn[rows]).found
            for row in rows[found != Found.GOOD].tolist():
                key, lsn = batch.key[row] or b"", int(batch.lsn[row])
                snapshot.faults.append(_unreadable(snapshot, database.db_id, key, lsn))
                lacks = True
    return lacks


def _unreadable(snapshot: Snapshot, db_id: int, key: bytes, lsn: int) -> Fault:
    """Return the fault of an unreadable record of an internal database."""
    found = fetch(snapshot.image, np.array([lsn], np.int64)).found[0]
    kind = FaultKind.MISSING if found < Found.BAD else FaultKind.DAMAGED
    if found == Found.GOOD:
        kind = FaultKind.NOT_A_RECORD
    return Fault(kind, db_id, lsn, NULL_LSN, key, key)


def _lsns_of(snapshot: Snapshot, db_id: int) -> list[tuple[bytes, int]]:
    """Return key and LSN of each record of an internal database."""
    database = snapshot.databases[db_id]
    return [
        (batch.key[row] or b"", int(batch.lsn[row]))
        for batch in snapshot.records(database, with_data=False)
        for row in range(len(batch))
    ]
