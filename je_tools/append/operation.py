"""Operations that append to a log: what they append, which bits they flip, and what they note.

Source: the project's own; the entries are described where they are made.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from je_tools.checkpoint.checkpoint_log import CheckpointLog
from je_tools.checkpoint.log_end import must_begin_file
from je_tools.checkpoint.vlsn_records import recovered_vlsn_index
from je_tools.errors import RefusedError
from je_tools.formats.je.header import NULL_LSN
from je_tools.formats.je.types import BY_NAME
from je_tools.formats.je.write.transactions import (
    GroupAuthor,
    TransactionWriter,
    WrittenEntry,
)
from je_tools.formats.je.write.writer import Appender, Emit, LogTail
from je_tools.recovery.internal_databases import internal_database

if TYPE_CHECKING:
    from je_tools.checkpoint.rollbacks import InvisibleMark
    from je_tools.checkpoint.utilization_tracker import TrackedUtilization
    from je_tools.findings import Finding
    from je_tools.recovery.database import Database
    from je_tools.recovery.snapshot import Snapshot
    from je_tools.vlsn.index import VlsnIndex
    from je_tools.vlsn.stream import ReplicationStream

FlipBits = Callable[[Sequence["InvisibleMark"]], None]
"""Receiver of bits to flip; all bytes emitted before are durable first, and the bits on return."""


class PlannedChange(Struct, frozen=True):
    """A change to a log.

    Attributes:
        change: kind of the change, such as `delete`.
        lsn: LSN of the entry that is appended, or whose bits are flipped.
        why: reason.
        vlsn: VLSN of the entry; None if it has none.
        db_id, db: database of the record; None if the change is not to a record.
        key: key of the record.
        old, new: descriptions of the state before and after; None for none.
    """

    change: str
    lsn: int
    why: str
    vlsn: int | None = None
    db_id: int | None = None
    db: str | None = None
    key: bytes | None = None
    old: str | None = None
    new: str | None = None


class AppendResult(Struct, frozen=True):
    """Changes that an operation makes, or has made.

    Attributes:
        operation: name of the operation.
        changes: the changes, in the order in which they are made.
        first_lsn, last_lsn: LSNs of the first and last appended entry; NULL_LSN if there is none.
        size: number of appended bytes, headers of new files included.
        entry_counts: appended entries and their bytes, by type.
        flipped: headers in which bits are flipped.
        last_file_no: number of the file in which the log then ends.
        journal_no: number of the undo journal; None if nothing was written in place.
    """

    operation: str
    changes: tuple[PlannedChange, ...]
    first_lsn: int
    last_lsn: int
    size: int
    entry_counts: Mapping[str, tuple[int, int]]
    flipped: tuple[InvisibleMark, ...]
    last_file_no: int
    journal_no: int | None = None

    @property
    def is_empty(self) -> bool:
        """True if nothing is written."""
        return not self.size and not self.flipped


class AppendLog:
    """The end of a log, to which an operation appends.

    Attributes:
        snapshot: the log before the operation, as a member of its group sees it.
        now_ms: time of the operation, in milliseconds since 1970.
        stream: replication stream since the last checkpoint began.
        appended: LSN, VLSN and type number of each entry that was appended to the stream.
        changes: the changes noted so far.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        tracked: TrackedUtilization,
        *,
        file_max: int,
        emit: Emit,
        flip_bits: FlipBits,
    ) -> None:
        """Begin at the end of a log.

        Args:
            snapshot: the log.
            tracked: the ids given so far, and the replication stream since the last checkpoint
                began, as `track_utilization` returns them without files; they stay as they are.
            file_max: maximum size of a log file, in bytes.
            emit: receiver of the appended bytes, in log order.
            flip_bits: receiver of the bits to flip.
        """
        self.snapshot = snapshot
        self.now_ms = now_ms = snapshot.now_ms
        self.stream: ReplicationStream = tracked.stream
        self.appended: list[tuple[int, int, int]] = []
        self.changes: list[PlannedChange] = []
        self._flip_bits = flip_bits
        self._flipped: list[InvisibleMark] = []
        self._first_lsn = self._last_lsn = NULL_LSN
        self._index: VlsnIndex | None = None
        self._next_vlsn: int | None = None
        self._size = 0
        last = snapshot.end.files[-1]
        end_offset = snapshot.end.next_offset
        tail = LogTail(last.file_no, end_offset, snapshot.end.last_lsn & 0xFFFFFFFF, last.version)

        def counted(file_no: int, offset: int, data: bytes) -> None:
            self._size += len(data)
            emit(file_no, offset, data)

        appender = Appender(tail, file_max=file_max, created_ms=now_ms, emit=counted)
        last_ids = copy.deepcopy(tracked.last_ids)
        self._log = CheckpointLog(appender, snapshot.image.data, last_ids)

    @property
    def version(self) -> int:
        """Log version of the appended entries."""
        return self._log.version

    @property
    def index(self) -> VlsnIndex:
        """The VLSN index as the engine has it after recovery, before the operation.

        Raises:
            RefusedError: the engine would not continue with it.
        """
        if self._index is None:
            self._index = recovered_vlsn_index(self.snapshot, self.stream)
        return self._index

    @property
    def next_vlsn(self) -> int:
        """VLSN of the next entry of the replication stream.

        Raises:
            RefusedError: as `index`.
        """
        if self._next_vlsn is None:
            last = self.index.range.last
            self._next_vlsn = max(last, 0) + 1
        return self._next_vlsn

    def database(self, name: str) -> Database:
        """Return a database by its name.

        Raises:
            RefusedError: the log has none of this name.
        """
        found = internal_database(self.snapshot, name)
        if found is None:
            raise RefusedError(f"{self.snapshot.environment.name}: the log has no database {name}")
        return found

    def entry(
        self, name: str, fields: Mapping[str, Any], *, flags: int = 0, vlsn: int | None = None
    ) -> WrittenEntry:
        """Append one entry, by its type name and fields; see `CheckpointLog.entry`."""
        if vlsn is not None and vlsn != self.next_vlsn:
            raise ValueError(f"VLSN {vlsn} follows {self.next_vlsn - 1}")
        if self._first_lsn == NULL_LSN and must_begin_file(self.snapshot):
            self._log.appender.flip()
        written = self._log.entry(name, fields, flags=flags, vlsn=vlsn)
        self._first_lsn = written.lsn if self._first_lsn == NULL_LSN else self._first_lsn
        self._last_lsn = written.lsn
        if vlsn is not None:
            self.appended.append((written.lsn, vlsn, BY_NAME[name].no))
            self._next_vlsn = vlsn + 1
        return written

    def new_id(self, kind: str) -> int:
        """Allocate an id of this environment for a new `node` or `db`."""
        return self._log.last_ids.next_local(kind)

    def local_transaction(self) -> TransactionWriter:
        """Begin a transaction of this environment alone."""
        return TransactionWriter(self, self._log.last_ids.next_local("txn"), self.now_ms)

    def group_transaction(
        self, author: GroupAuthor, *, txn_id: int | None = None
    ) -> TransactionWriter:
        """Begin a transaction of the replication group, or continue an open one.

        Args:
            author: master in whose name it is written.
            txn_id: id of an open transaction; None for a new one.

        Raises:
            RefusedError: the engine would not continue with the VLSN index.
        """
        number = self._log.last_ids.next_replicated("txn") if txn_id is None else txn_id
        return TransactionWriter(self, number, self.now_ms, author=author, next_vlsn=self.next_vlsn)

    def flip(self, marks: Iterable[InvisibleMark]) -> None:
        """Flip bits in place, once all entries appended before are durable.

        The bits are durable before the next entry is written.

        Args:
            marks: bytes of headers that existed before the operation, and their new values.
        """
        self._log.appender.flush()
        chosen = list(marks)
        self._flipped += chosen
        self._flip_bits(chosen)

    def note(self, change: PlannedChange) -> None:
        """Note a change for the plan."""
        self.changes.append(change)

    def finish(self, operation: str) -> AppendResult:
        """Emit what is still buffered, and return the result."""
        self._log.appender.flush()
        return AppendResult(
            operation=operation,
            changes=tuple(self.changes),
            first_lsn=self._first_lsn,
            last_lsn=self._last_lsn,
            size=self._size,
            entry_counts=dict(self._log.appender.counts),
            flipped=tuple(self._flipped),
            last_file_no=self._log.appender.tail.file_no,
        )


class AppendOperation(ABC):
    """An operation on the end of a log.

    Attributes:
        name: name in messages and in the undo journal, such as `group reset`.
    """

    name: str

    @property
    def findings(self) -> Sequence[Finding]:
        """Findings on what the operation repairs, known once it is planned."""
        return ()

    def repairs(self, finding: Finding) -> bool:
        """Return True if the operation removes the cause of a finding on the log."""
        return False

    @abstractmethod
    def write(self, log: AppendLog) -> None:
        """Append the entries, flip the bits, and note the changes.

        Raises:
            RefusedError: the operation cannot be done on this log; nothing is written then.
        """

    @abstractmethod
    def difference(self, before: Snapshot, after: Snapshot) -> str:
        """Compare the written log with the plan; return what is wrong, or ''.

        Args:
            before: the log before the operation.
            after: the written log, read again.
        """
