"""Operations at the end of a log for tests, each with a log to do it on."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from je_tools.append.apply import apply_append
from je_tools.append.operation import AppendLog, AppendOperation, AppendResult, PlannedChange
from je_tools.checkpoint.old_versions import iterate_old_versions
from je_tools.journal.front_end import FrontEnd
from je_tools.log.scan import Scanner
from je_tools.operations.group_reset import GroupReset, NodeIdentity
from je_tools.operations.journal_truncate import JournalTruncate
from je_tools.operations.stream_rollback import StreamRollback
from je_tools.recovery.snapshot import Snapshot
from je_tools.writing.disk import Disk
from tests.corpus import FIXTURES
from tests.je_tools.snapshots import NOW_MS, contents_of


class Deletion(AppendOperation):
    """A deletion of the first records of a database, in one local transaction."""

    name = "deletion"

    def __init__(self, database: str, count: int) -> None:
        self.database = database
        self.count = count

    def write(self, log: AppendLog) -> None:
        database = log.database(self.database)
        transaction = log.local_transaction()
        versions = iterate_old_versions(log.snapshot, database)
        for _, (key, old) in zip(range(self.count), versions, strict=False):
            written = transaction.write(database.db_id, key, None, old)
            log.note(PlannedChange("delete", written.lsn, "a test", key=key))
        transaction.commit()

    def difference(self, before: Snapshot, after: Snapshot) -> str:
        old, new = contents_of(before), contents_of(after)
        old[self.database] = old[self.database][self.count :]
        return "" if old == new else "other records are left"


class Appending(NamedTuple):
    """An operation, and the log on which tests do it.

    Attributes:
        log: directory below fixtures/.
        make: makes the operation.
        is_long: True if a power cut can leave some entries of a transaction of the group without
            its end. A member keeps them until the master aborts the transaction; tests/engine
            has the engine do that.
    """

    log: str
    make: Callable[[], AppendOperation]
    is_long: bool = False

    def copy(self, target: Path) -> Path:
        """Copy the log, and return its directory."""
        home = Path(shutil.copytree(FIXTURES / self.log, target))
        for path in (home, *home.iterdir()):
            path.chmod(0o755 if path.is_dir() else 0o644)
        return home


_ID = uuid.UUID(int=1)

OPERATIONS = {
    "deletion": Appending("v17-crash-txn/env", lambda: Deletion("people", 40)),
    "reset": Appending(
        "v17-rep-uncommitted-before/node2", lambda: GroupReset(NodeIdentity("node2"), _ID)
    ),
    "rollback": Appending("v17-rep-uncommitted-before/node1", lambda: StreamRollback(1224)),
    "truncation": Appending(
        "starrocks-fe-hole/node1", lambda: JournalTruncate(FrontEnd(Path()), 790), is_long=True
    ),
}


def apply(home: Path, operation: AppendOperation, disk: Disk | None = None) -> AppendResult:
    """Do an operation in place."""
    return apply_append(home, Scanner(threads=1), operation, NOW_MS, disk=disk)[1]
