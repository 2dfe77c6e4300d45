"""Small logs in which little can be erased, for one rule of erasures each."""

from __future__ import annotations

from je_tools.formats.je.internal.cleaner import ReservedFile
from je_tools.formats.je.internal.names import RESERVED_FILES_DB
from tests.builders.logs import CREATED_MS
from tests.builders.trees import TreeLog, slot

RESERVED_ID = 90


def old(log: TreeLog, name: str, **more: int) -> bytes:
    """Append a record that no tree names, and return its data, which are nowhere else."""
    data = b"Qz7-" + name.encode() + b"-4Wk"
    log.ln(name.encode(), data, **more)
    return data


def used(log: TreeLog, name: str, *, db: int = 6, **more: object) -> bytes:
    """Append a database of this name with one record, and return the data of that."""
    data = b"Qz7-live-" + name.encode() + b"-4Wk"
    lsn = log.ln(b"key", data, db=db)
    log.database(name.encode(), log.tree([slot(b"key", lsn)], db=db), db=db, **more)
    return data


def begin_checkpoint(log: TreeLog) -> int:
    """Append the beginning of a checkpoint, and return its LSN."""
    return log.put("CkptStart", {"time_ms": CREATED_MS, "ckpt_id": 1, "invoker": "test"})


def end_checkpoint(log: TreeLog, start: int, *, tree_flags: int = 4, **more: int) -> None:
    """Append the databases, with the flags of the environment, and the end of a checkpoint."""
    root = log.db_tree(log.tree(log.mapped, db=0), log.tree(log.named, db=1), flags=tree_flags)
    log.ckpt_end(start, root, **more)


def reserve(log: TreeLog, *file_nos: int) -> None:
    """Append the cleaner's database with the files that it has reserved."""
    records = [ReservedFile(no, 0, -1, -1, ()).encode() for no in file_nos]
    slots = [slot(key, log.ln(key, data, db=RESERVED_ID)) for key, data in records]
    name = RESERVED_FILES_DB.encode()
    log.database(name, log.tree(slots, db=RESERVED_ID), db=RESERVED_ID)
