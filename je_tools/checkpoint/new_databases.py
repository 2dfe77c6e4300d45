"""Internal databases that the engine creates when it opens a log without them."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from msgspec.structs import replace

from je_tools.checkpoint.descriptors import new_descriptor
from je_tools.checkpoint.last_ids import find_last_ids
from je_tools.formats.je.flags import DbTreeFlag
from je_tools.formats.je.header import NULL_LSN
from je_tools.formats.je.internal.names import (
    BEFORE_IMAGES_DB,
    EXPIRATION_DB,
    EXTINCT_SCANS_DB,
    RESERVED_FILES_DB,
    UTILIZATION_DB,
)
from je_tools.log.names import FIXED_NAMES
from je_tools.recovery.database import Database
from je_tools.recovery.internal_databases import internal_database

if TYPE_CHECKING:
    from je_tools.recovery.snapshot import Snapshot

_NEEDED_SINCE = {
    UTILIZATION_DB: 0,
    RESERVED_FILES_DB: 15,
    EXPIRATION_DB: 12,
    EXTINCT_SCANS_DB: 17,
    BEFORE_IMAGES_DB: 25,
}
"""Internal databases that the engine creates if they are missing, and the first log version that
has each. Source: DbTree, DbType, JE 7.5.11, 18.3.12 and 25.3.17."""

_BY_GROUP = (EXTINCT_SCANS_DB, BEFORE_IMAGES_DB)
"""Databases that a replication group creates for all members when one first needs them."""


def with_internal_databases(snapshot: Snapshot) -> tuple[Snapshot, tuple[Database, ...]]:
    """Return the snapshot with the internal databases that the engine would create, and these.

    They have no tree yet. A crash while the engine creates an environment leaves such a log.
    """
    version = snapshot.end.files[-1].version
    root = snapshot.entry(snapshot.checkpoint.root_lsn)
    fields = root.fields if root is not None else {}
    names = []
    for name, since in _NEEDED_SINCE.items():
        by_group = name in _BY_GROUP and fields.get("flags", 0) & DbTreeFlag.REPLICATED
        if version < since or by_group or internal_database(snapshot, name) is not None:
            continue
        names.append(name)
    if not names:
        return snapshot, ()
    next_ids = itertools.count(find_last_ids(snapshot).local["db"] + 1)
    fixed_ids = {name: db_id for db_id, name in FIXED_NAMES.items()}
    created = []
    for name in names:
        db_id = fixed_ids[name] if name in fixed_ids else next(next_ids)
        record = new_descriptor(db_id, name, version, db_flags=0)
        created.append(Database(db_id, name, record, NULL_LSN, NULL_LSN, version))
    databases = snapshot.databases | {each.db_id: each for each in created}
    return replace(snapshot, databases=databases), tuple(created)
