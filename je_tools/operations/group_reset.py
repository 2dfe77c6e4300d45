"""Reset of a replication group: one new group with this node alone, as DbResetRepGroup makes it.

The records of all databases stay. VLSNs and node ids continue where they were, so that no id in the
log gets a second meaning. The VLSN index begins with the reset: nodes that join later copy the
whole log (network restore), and never replay the history of the old group.

Unlike the engine, the reset writes one transaction of the group instead of four, and neither a new
file nor a checkpoint.

Source: DbResetRepGroup, RepNode.reinitSelfElect, RepGroupDB.reinitFirstNode and ensureMember,
VLSNIndex.truncateFromHead, JE 18.3.12.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.append.operation import AppendLog, AppendOperation, PlannedChange
from je_tools.checkpoint.old_versions import old_versions
from je_tools.checkpoint.vlsn_records import is_outdated, read_index
from je_tools.core.escaping import quoted
from je_tools.errors import RefusedError, UsageError
from je_tools.formats.je.internal.names import REP_GROUP_DB, VLSN_MAP_DB
from je_tools.formats.je.internal.replication import NODE_TYPES, RepGroup, RepNode, VlsnRange
from je_tools.formats.je.write.transactions import GroupAuthor
from je_tools.group.members import read_group
from je_tools.operations.record_changes import WrittenRecord, other_changes
from je_tools.recovery.interval_tables import INVISIBLE
from je_tools.recovery.opening import held_snapshot
from je_tools.vlsn.index import BucketRules, VlsnIndex, build_buckets
from je_tools.vlsn.stream import ReplicationStream

if TYPE_CHECKING:
    from je_tools.group.members import GroupRecords
    from je_tools.recovery.snapshot import Snapshot

_NODE_ID_MAX = (1 << 31) - 1
"""Largest id of a node. Source: NameIdPair.getId, an int, JE 18.3.12."""
_ELECTABLE = NODE_TYPES.index("electable")
_CHANGE_VERSION = 1
"""Change version of a group to which one node was added, and of this node."""

_WITH_RELEASE = 3
"""Format version since which records of nodes have a format and a release."""

_INDEX_VERSION = 1
"""Version in the record of the range of a VLSN index."""


class NodeIdentity(Struct, frozen=True):
    """The node that remains, as the user names it.

    Attributes:
        node_name: name of the node.
        host, port: its address; None to keep that of its record.
        group_name: name of the group; None to keep it.
    """

    node_name: str
    host: str | None = None
    port: int | None = None
    group_name: str | None = None


class GroupReset(AppendOperation):
    """The reset of a group to one node.

    Attributes:
        identity: the node.
        group_id: id of the new group, which no other group has.
    """

    name = "group reset"

    def __init__(self, identity: NodeIdentity, group_id: uuid.UUID | None = None) -> None:
        self.identity = identity
        self.group_id = group_id or uuid.uuid4()

    def write(self, log: AppendLog) -> None:
        """Abort what is open, replace the records of the group, and begin the VLSN index anew.

        Raises:
            InputError: the environment is not a node of a replication group.
            UsageError: the address of the node is neither given nor known.
            RefusedError: the records of the group are damaged, or changed by an open transaction;
                or the VLSN index on disk is not up to date.
        """
        records = read_group(log.snapshot)
        _check(log.snapshot, records)
        old_last = log.next_vlsn - 1
        group, node = self._new_records(records, old_last, log.now_ms)
        author = GroupAuthor(node.node_id, log.now_ms)
        self._abort_open(log, author)
        self._replace_group(log, author, records, (group, node))
        _restart_index(log, old_last + 1)

    def _new_records(
        self, records: GroupRecords, last_vlsn: int, now_ms: int
    ) -> tuple[RepGroup, RepNode]:
        """Return the record of the new group, and that of its node.

        Raises:
            UsageError: the address of the node is neither given nor known.
            RefusedError: no node id is left.
        """
        old, wanted = records.group, self.identity
        assert old is not None
        known = records.node(wanted.node_name)
        host = wanted.host or (known.host if known else None)
        port = wanted.port or (known.port if known else None)
        if not host or not port:
            names = ", ".join(str(node.name) for node in records.nodes)
            raise UsageError(
                f"--node-name {wanted.node_name}: the group has no such node, so its address is "
                f"not known: add --node-host-port, or name one of: {names}"
            )
        node_id = old.node_id_sequence + 1
        if node_id > _NODE_ID_MAX:
            raise RefusedError(
                f"the last node id of the group is {old.node_id_sequence}, the largest there is, "
                "so a new node cannot get one"
            )
        releases = [node.je_version for node in (known, *records.nodes) if node is not None]
        group = RepGroup(
            wanted.group_name or old.name,
            self.group_id,
            old.format_version,
            _CHANGE_VERSION,
            node_id,
            old.min_je_version,
        )
        node = RepNode(
            name=wanted.node_name,
            node_id=node_id,
            format_version=old.format_version if old.format_version >= _WITH_RELEASE else None,
            node_type=_ELECTABLE,
            quorum_ack=True,
            is_removed=False,
            host=host,
            port=port,
            barrier_vlsn=last_vlsn,
            barrier_ms=now_ms,
            change_version=_CHANGE_VERSION,
            je_version=releases[0] if releases else "",
        )
        return group, node

    def _abort_open(self, log: AppendLog, author: GroupAuthor) -> None:
        """Append an Abort for each transaction of the group that has no end."""
        lns = log.snapshot.interval.lns
        for txn_id in sorted(log.snapshot.kept_txns, reverse=True):
            own = lns.lsn[(lns.txn_id == txn_id) & (lns.flags & INVISIBLE == 0)]
            if not len(own):
                continue
            transaction = log.group_transaction(author, txn_id=txn_id)
            written = transaction.abort(int(own.max()))
            why = f"transaction {txn_id} has no end, and its master is not in the new group"
            vlsn = log.next_vlsn - 1
            log.note(PlannedChange("abort", written.lsn, why, vlsn=vlsn))

    def _replace_group(
        self,
        log: AppendLog,
        author: GroupAuthor,
        records: GroupRecords,
        new: tuple[RepGroup, RepNode],
    ) -> None:
        """Append the transaction that replaces all records of the group database."""
        database = records.database
        old = old_versions(log.snapshot, database)
        texts = dict(_texts(records))
        wanted = dict(record.encode() for record in new)
        group_key, node_key = wanted
        # The id of the group is random, and would differ between a plan and the work.
        group_text = f"group {new[0].name}, a new id, last node id {new[0].node_id_sequence}"
        added = {group_key: group_text, node_key: _text(new[1])}
        transaction = log.group_transaction(author)
        whys = {group_key: "the new group", node_key: "its only node, with an id of its own"}
        for key in sorted(old.keys() | wanted.keys()):
            why = whys.get(key, "the node is not in the new group")
            change = WrittenRecord(transaction, database, key, wanted.get(key), old.get(key))
            change.write(log, why, texts.get(key), added.get(key))
        written = transaction.commit()
        why = "all changes to the group take effect at once"
        log.note(PlannedChange("commit", written.lsn, why, vlsn=log.next_vlsn - 1))

    def difference(self, before: Snapshot, after: Snapshot) -> str:
        """Compare the group, the VLSN index and all records with what they should be."""
        records = read_group(after)
        group, wanted = records.group, self.identity
        if group is None or group.group_id != self.group_id or len(records.nodes) != 1:
            return "its group is not the new one"
        if records.problems or records.nodes[0].name != wanted.node_name:
            return "the record of the node is not the new one"
        if read_index(after).range.first <= read_index(before).range.last:
            return "the VLSN index still has the history of the old group"
        own = {REP_GROUP_DB, VLSN_MAP_DB}
        if not before.kept_txns:
            return other_changes(before, after, own)
        # Open transactions count as undone from now on.
        scanner, now_ms = before.scanner, before.now_ms
        with held_snapshot(before.environment, scanner, now_ms=now_ms) as undone:
            return other_changes(undone, after, own)


def _check(snapshot: Snapshot, records: GroupRecords) -> None:
    """Check that the group is known, and that the index on disk ends where the log does.

    Raises:
        RefusedError: they are not.
    """
    name = snapshot.environment.name
    show = f"`je-tools group show {quoted(name)}`"
    is_torn = any(fault.db_id == records.database.db_id for fault in snapshot.faults.damage)
    if records.problems or is_torn:
        raise RefusedError(
            f"{name}: the group database is damaged, so the last node id is not certain. {show} "
            "reports the damage. Restore the node from a backup, or from another node (network "
            "restore)."
        )
    lns = snapshot.interval.lns
    own = lns.txn_id[lns.db_id == records.database.db_id]
    open_txns = sorted(snapshot.kept_txns & set(np.unique(own).tolist()))
    if open_txns:
        listed = ", ".join(map(str, open_txns))
        raise RefusedError(
            f"{name}: transaction {listed} changes the group, and has no end. `je-tools vlsn "
            f"rollback {quoted(name)}` rolls it back."
        )
    if is_outdated(snapshot):
        raise RefusedError(
            f"{name}: VLSNs were logged since the last checkpoint, and recovery would merge them "
            f"into the new VLSN index. First write a checkpoint: `je-tools checkpoint "
            f"{quoted(name)} --apply`, with `--output DIR` on a copy."
        )


def _restart_index(log: AppendLog, first_vlsn: int) -> None:
    """Append the transaction that drops the old VLSN index and begins one with the reset."""
    snapshot = log.snapshot
    database = log.database(VLSN_MAP_DB)
    old = old_versions(snapshot, database)
    stream = ReplicationStream.of(log.appended)
    last = int(stream.vlsn[-1])
    buckets = build_buckets(stream, BucketRules.of(Path(snapshot.environment.name)))
    stored = read_index(snapshot)
    index = VlsnIndex(VlsnRange(_INDEX_VERSION, first_vlsn, last, last, last), buckets)
    new = index.encode()
    texts = {key: _bucket_text(each) for each in stored.buckets for key, _ in (each.encode(),)}
    added = {key: _bucket_text(each) for each in buckets for key, _ in (each.encode(),)}
    range_key, _ = stored.range.encode()
    texts[range_key], added[range_key] = map(_range_text, (stored.range, index.range))
    transaction = log.local_transaction()
    for key in [*sorted(old.keys() - new.keys()), *new]:
        why = "the history of the old group" if key not in new else "the transaction of the reset"
        why = "the index begins with the reset" if key == range_key else why
        change = WrittenRecord(transaction, database, key, new.get(key), old.get(key))
        change.write(log, why, texts.get(key), added.get(key))
    written = transaction.commit()
    log.note(PlannedChange("commit", written.lsn, "the index changes at once"))


def _bucket_text(bucket: object) -> str:
    first, last = getattr(bucket, "first", None), getattr(bucket, "last", None)
    return f"VLSN {first} to {last}" if last is not None else f"from VLSN {first} on"


def _range_text(found: VlsnRange) -> str:
    return f"VLSN {found.first} to {found.last}"


def _texts(records: GroupRecords) -> Iterator[tuple[bytes, str]]:
    """Yield the key of each record, and the record in words."""
    for record in (records.group, *records.nodes):
        if record is not None:
            yield record.encode()[0], _text(record)


def _text(record: RepGroup | RepNode) -> str:
    if isinstance(record, RepGroup):
        return f"group {record.name}, id {record.group_id}, last node id {record.node_id_sequence}"
    kind = NODE_TYPES[record.node_type]
    return f"node {record.name} at {record.host}:{record.port}, id {record.node_id}, {kind}"
