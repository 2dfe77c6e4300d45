"""Logs of nodes with other records in their VLSN index, written as the engine writes them."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from je_tools.checkpoint.checkpoint_log import CheckpointLog
from je_tools.checkpoint.last_ids import find_last_ids
from je_tools.checkpoint.old_versions import old_versions
from je_tools.formats.je.flags import HeaderFlag
from je_tools.formats.je.internal.names import VLSN_MAP_DB
from je_tools.formats.je.internal.replication import VlsnBucket
from je_tools.formats.je.write.transactions import TransactionWriter
from je_tools.formats.je.write.writer import Appender, LogTail
from je_tools.log.opening import open_environment
from je_tools.log.scan import Scanner
from je_tools.recovery.internal_databases import internal_database
from je_tools.recovery.opening import take_snapshot
from je_tools.recovery.snapshot import Snapshot
from je_tools.vlsn.index import VlsnIndex
from tests.je_tools.checkpoint.nodes import FILE_MAX, appending

NOW_MS = 1_800_000_000_000


def snapshot_of_node(home: Path) -> Snapshot:
    """Return the snapshot of a node, without its group."""
    return take_snapshot(open_environment([home]), Scanner(threads=1, wide=True), now_ms=NOW_MS)


def copy_of(home: Path, target: Path) -> Path:
    """Return a writable copy of an environment."""
    shutil.copytree(home, target)
    for path in target.iterdir():
        path.chmod(0o644)
    target.chmod(0o755)
    return target


def write_records(
    home: Path, records: Mapping[bytes, bytes | None], database_name: str = VLSN_MAP_DB
) -> None:
    """Append a local transaction that writes records of an internal database; None removes one."""
    snapshot = snapshot_of_node(home)
    appender = _appender(snapshot, home)
    log = CheckpointLog(appender, snapshot.image.data, find_last_ids(snapshot))
    database = internal_database(snapshot, database_name)
    assert database is not None
    replaced = old_versions(snapshot, database)
    transaction = TransactionWriter(log, log.last_ids.next_local("txn"), NOW_MS)
    for key, data in records.items():
        transaction.write(database.db_id, key, data, replaced.get(key))
    transaction.commit()
    appender.flush()


def cut_index(index: VlsnIndex, vlsn: int, lsn: int) -> dict[bytes, bytes | None]:
    """Return records of an index that ends with a Commit in its last bucket."""
    last = index.buckets[-1]
    assert isinstance(last, VlsnBucket)
    offsets = last.offsets[: (vlsn - last.first) // last.stride + 1]
    cut = replace(last, last=vlsn, last_lsn=lsn, offsets=offsets)
    ends = dict.fromkeys(("last", "last_sync", "last_txn_end"), vlsn)
    return dict([cut.encode(), replace(index.range, **ends).encode()])


def append_entry(
    home: Path, name: str, fields: Mapping[str, Any], *, vlsn: int | None = None
) -> int:
    """Append one entry, with the flags of the stream if it has a VLSN; return its LSN."""
    appender = _appender(snapshot_of_node(home), home)
    flags = 0 if vlsn is None else HeaderFlag.REPLICATED | HeaderFlag.VLSN_PRESENT
    lsn = appender.append(name, fields, flags=flags, vlsn=vlsn)
    appender.flush()
    return lsn


def _appender(snapshot: Snapshot, home: Path) -> Appender:
    last = snapshot.end.files[-1]
    tail = LogTail(
        last.file_no,
        snapshot.end.next_offset,
        snapshot.end.last_lsn & 0xFFFFFFFF,
        last.version,
    )
    return Appender(tail, file_max=FILE_MAX, created_ms=NOW_MS, emit=appending(home))
