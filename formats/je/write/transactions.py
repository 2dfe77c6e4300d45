"""Encoding of a transaction: the LNs that change records, and the Commit or Abort that ends it.

An LN names the one before it in its transaction, and the version of its record to which an undo
returns. A local transaction belongs to one environment. Entries of a group transaction are part of
the replication stream: each has the next VLSN.

Source: je-log.md "Records"; LNLogEntry, TxnEnd, Txn.commit, MasterTxn, JE 5.0.73 to 25.3.17.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from msgspec import Struct

from je_tools.formats.je.flags import HeaderFlag, LnFlag, LnFlag2, LnFlag3
from je_tools.formats.je.header import NULL_LSN

_ABORT_LSN_FLAG_SINCE, _MODIFIED_SINCE, _NOBODY_SINCE = 12, 19, 22
"""Log versions since which a flag marks an abort LSN, LNs have modification times, and the id
of no master is -1, not 0."""

_GROUP_FLAGS = HeaderFlag.REPLICATED.value | HeaderFlag.VLSN_PRESENT.value

NO_LN = {"flags": 0, "flags2": 0, "flags3": 0, "modified_ms": 0}
"""Fields that are empty in an LN outside transactions."""


class WrittenEntry(Struct, frozen=True):
    """An entry that was appended.

    Attributes:
        lsn: its LSN.
        size: its size with the header, in bytes.
    """

    lsn: int
    size: int


class EntryLog(Protocol):
    """A log to which entries are appended."""

    @property
    def version(self) -> int:
        """Log version of the appended entries."""

    def entry(
        self, name: str, fields: Mapping[str, Any], *, flags: int = 0, vlsn: int | None = None
    ) -> WrittenEntry:
        """Append one entry, by its type name and fields."""


class OldVersion(Struct, frozen=True):
    """The committed version of a record, which a transaction replaces or deletes.

    Attributes:
        lsn: LSN of its LN.
        size: size of the LN, in bytes; None if the LN is embedded, or cannot be read.
        data: data of the record if the slot in its BIN holds them; None if only the LN does.
        modified_ms: time of its last change; 0 if the log does not have it.
    """

    lsn: int
    size: int | None
    data: bytes | None = None
    modified_ms: int = 0


class GroupAuthor(Struct, frozen=True):
    """The master in whose name a group transaction is written.

    Attributes:
        node_id: id of the node.
        term: its term, in milliseconds since 1970; only log versions from 22 on have it.
        dtvlsn: VLSN up to which a majority has the stream, for the Commit; None for the VLSN of
            the Commit itself, as in a group of one.
    """

    node_id: int
    term: int
    dtvlsn: int | None = None


class TransactionWriter:
    """A transaction that is appended to a log.

    Attributes:
        txn_id: its id: positive if it is local, negative if it belongs to the group.
        last_lsn: LSN of its last LN; NULL_LSN before the first.
        next_vlsn: VLSN of the next entry; None for a local transaction.
    """

    def __init__(
        self,
        log: EntryLog,
        txn_id: int,
        now_ms: int,
        *,
        author: GroupAuthor | None = None,
        next_vlsn: int | None = None,
    ) -> None:
        """Begin a transaction; nothing is written yet.

        Args:
            log: log to append to.
            txn_id: id that no transaction in the log has.
            now_ms: time of the changes, in milliseconds since 1970.
            author: master of a group transaction; None for a local one.
            next_vlsn: first VLSN of a group transaction.
        """
        if (author is None) != (next_vlsn is None) or (author is None) != (txn_id > 0):
            raise ValueError(f"transaction {txn_id} is half local and half of the group")
        self.txn_id = txn_id
        self.last_lsn = NULL_LSN
        self.next_vlsn = next_vlsn
        self._log = log
        self._now_ms = now_ms
        self._author = author

    def write(
        self, db_id: int, key: bytes, data: bytes | None, old: OldVersion | None
    ) -> WrittenEntry:
        """Append an insertion, an update, or a deletion.

        Args:
            db_id: id of the database, without duplicates.
            key: key of the record.
            data: new data, which the engine does not embed in the BIN, as in its own databases;
                None to delete the record.
            old: version that the record has now; None if there is no record.
        """
        fields: dict[str, Any] = {"db_id": db_id, "key": key, "data": data}
        fields |= {"modified_ms": self._now_ms, "created_ms": 0}
        if old is None:
            return self.ln("INS_LN_TX", {"flags3": LnFlag3.CREATED_IN_INSERT, **fields})
        return self.ln("DEL_LN_TX" if data is None else "UPD_LN_TX", fields, old)

    def ln(
        self, name: str, fields: Mapping[str, Any], old: OldVersion | None = None
    ) -> WrittenEntry:
        """Append an LN of a transactional type, by its type name and fields.

        Args:
            name: name of the entry type.
            fields: fields except those of the transaction and the old version.
            old: version of the record that it replaces; None if it creates the record.
        """
        replaced = {} if old is None else self._of_old(old)
        chain = {"txn_id": self.txn_id, "txn_prev_lsn": self.last_lsn, "abort_lsn": NULL_LSN}
        written = self._append(name, {**NO_LN, **chain, **fields, **replaced})
        self.last_lsn = written.lsn
        return written

    def commit(self) -> WrittenEntry:
        """Append the Commit."""
        return self._end("Commit")

    def abort(self, last_lsn: int) -> WrittenEntry:
        """Append the Abort of a transaction that another writer has begun.

        Args:
            last_lsn: LSN of its last LN.
        """
        self.last_lsn = last_lsn
        return self._end("Abort")

    def _of_old(self, old: OldVersion) -> dict[str, Any]:
        """Return the fields that describe the version before an LN."""
        version = self._log.version
        flags = LnFlag.ABORT_LSN.value if version >= _ABORT_LSN_FLAG_SINCE else 0
        found: dict[str, Any] = {"abort_lsn": old.lsn}
        if old.data is None:
            flags2 = 0 if old.size is None else LnFlag2.PRIOR_SIZE.value
            return {**found, "flags": flags, "flags2": flags2, "prior_size": old.size}
        # The slot loses the data, and the LN that has them may be gone.
        flags |= LnFlag.ABORT_DATA.value | LnFlag.EMBEDDED.value
        flags2 = LnFlag2.ABORT_MODIFIED.value if version >= _MODIFIED_SINCE else 0
        found |= {"abort_data": old.data, "abort_modified_ms": old.modified_ms}
        return {**found, "flags": flags, "flags2": flags2}

    def _end(self, name: str) -> WrittenEntry:
        fields: dict[str, Any] = {"last_lsn": self.last_lsn, "txn_id": self.txn_id}
        fields |= {"time_ms": self._now_ms}
        author = self._author
        if author is None:
            nobody = 0 if self._log.version < _NOBODY_SINCE else -1
            fields |= {"master_node_id": nobody, "dtvlsn": 0, "master_term": 0}
        else:
            dtvlsn = self.next_vlsn if author.dtvlsn is None else author.dtvlsn
            fields |= {"master_node_id": author.node_id, "master_term": author.term}
            fields |= {"dtvlsn": dtvlsn}
        return self._append(name, fields)

    def _append(self, name: str, fields: Mapping[str, Any]) -> WrittenEntry:
        if self.next_vlsn is None:
            return self._log.entry(name, fields)
        written = self._log.entry(name, fields, flags=_GROUP_FLAGS, vlsn=self.next_vlsn)
        self.next_vlsn += 1
        return written
