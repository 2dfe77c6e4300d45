"""The check of the B-trees of a log: every node, every slot, and every record that a slot names.

The trees are those that recovery would leave. Each is read from its root down, its bottom nodes
in threads. Each problem is reported with its place, and reading continues after it.

Source: je-log.md "Nodes"; BtreeVerifier, JE 25.3.17.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from je_tools.btree.check.checked_nodes import CheckedNodes, checked_nodes
from je_tools.btree.check.expected_records import ExpectedRecords
from je_tools.btree.check.newest_versions import judged_slots
from je_tools.btree.check.node_problems import node_problems
from je_tools.btree.check.problems import TreeProblem, TreeProblems
from je_tools.btree.check.record_problems import garbage_nodes, record_problems
from je_tools.btree.children import BINS_AT_ONCE, Children, batch_size_below
from je_tools.btree.number_set import NumberSet
from je_tools.core.ordered import map_in_order
from je_tools.formats.je.header import NULL_LSN, lsn_text
from je_tools.formats.je.internal.names import UTILIZATION_DB
from je_tools.formats.je.log.fingerprints import Fingerprints, SlotChecks
from je_tools.formats.je.types import Family
from je_tools.recovery.database import ID_DB, NAME_DB, Database
from je_tools.recovery.record_reader import RecordReader

if TYPE_CHECKING:
    from je_tools.btree.check.cleaner_metadata import CleanerMetadata
    from je_tools.btree.faults import UnreadableRecords
    from je_tools.btree.tree import Tree
    from je_tools.formats.arrays import Ints
    from je_tools.recovery.snapshot import Snapshot

_IDENTIFIERS_SINCE = 15
"""A log that began at this version has only BINs whose identifier key is the key of a slot."""

_CHANGES_AT_ONCE = 1 << 14


class _UnreadNodes(Struct, frozen=True):
    """Nodes that are not yet read.

    Attributes:
        children: the nodes, as their parents' slots name them.
        slot: int64; number of the slot that names each in its parent, -1 for a root.
    """

    children: Children
    slot: Ints

    def select(self, keep: Ints) -> _UnreadNodes:
        return _UnreadNodes(self.children.select(keep), self.slot[keep])


class _NodeIds(Struct):
    """Ids of all nodes seen so far, with their places.

    Attributes:
        rows: int64 (n, 5); node id, LSN, LSN and slot number of the parent, database id.
    """

    rows: list[Ints] = field(default_factory=list)

    def add(self, part: CheckedNodes) -> None:
        nodes = part.nodes
        columns = (
            nodes.node_id,
            nodes.lsn,
            part.children.parent_lsn,
            part.slot,
            np.full(len(nodes), part.tree.db_id, np.int64),
        )
        self.rows.append(np.stack(columns, axis=1)[nodes.good])


def check_trees(
    snapshot: Snapshot, cleaner: CleanerMetadata, prints: Fingerprints | None = None
) -> Iterator[tuple[Database, TreeProblems]]:
    """Yield the problems of each database's tree, internal databases included.

    Node ids are compared at the end: a database in which ids are wrong is yielded once more.

    Args:
        snapshot: the log.
        cleaner: cleaner metadata.
        prints: fingerprints of records that a scan found good; these are not read again.
    """
    ids = _NodeIds()
    has_identifiers = _has_identifiers(snapshot)
    checks = None
    if prints is not None:
        checks = SlotChecks(snapshot.image, prints, cleaner.obsolete, cleaner.reserved)
    for database in list(snapshot.databases.values()):
        yield (
            database,
            _OneTreeCheck(
                snapshot, database, cleaner, checks, ids, has_identifiers=has_identifiers
            ).problems(),
        )
    for db_id, problems in _node_id_problems(snapshot, ids):
        yield snapshot.databases[db_id], problems


def _has_identifiers(snapshot: Snapshot) -> bool:
    """Return True if the identifier key of each BIN is the key of one of its slots."""
    root = snapshot.entry(snapshot.checkpoint.root_lsn)
    version = root.fields.get("initial_log_version", -1) if root is not None else -1
    return bool(version >= _IDENTIFIERS_SINCE)


class _OneTreeCheck:
    """The check of one tree."""

    def __init__(
        self,
        snapshot: Snapshot,
        database: Database,
        cleaner: CleanerMetadata,
        checks: SlotChecks | None,
        ids: _NodeIds,
        *,
        has_identifiers: bool,
    ) -> None:
        self.snapshot = snapshot
        self.has_identifiers = has_identifiers
        self.cleaner = cleaner
        self.ids = ids
        self.tree: Tree = snapshot.tree(database)
        self._read = NumberSet()
        family = _family(database)
        # Slot checks know only LNs of this family, and old duplicates are in separate trees.
        is_known = family is Family.LN and not self.tree.old_duplicates
        overlay = snapshot.overlay(database.db_id)
        self.expected = ExpectedRecords(
            family, overlay, cleaner, snapshot.now_ms, checks if is_known else None
        )

    def problems(self) -> TreeProblems:
        """Return all problems of the tree, in key order; those of open slots are last."""
        found = TreeProblems()
        counts: Counter[str] = Counter()
        if self.tree.root_lsn != NULL_LSN:
            root = _UnreadNodes(self.tree.root(), np.full(1, -1, np.int64))
            bottom = self._below(root, found, counts)
            for part, some in map_in_order(self._bottom_nodes, bottom, self.snapshot.threads):
                self.ids.add(part)
                found.merge(some, counts)
        found.merge(self._changes(), counts)
        found.merge_listed(judged_slots(self.snapshot, self.tree, found.open_slots), counts)
        return found

    def _below(
        self, parents: _UnreadNodes, found: TreeProblems, counts: Counter[str]
    ) -> Iterator[_UnreadNodes]:
        """Check upper nodes, and yield the bottom nodes unread, in batches."""
        part, problems = self._nodes(parents)
        found.merge(problems, counts)
        self.ids.add(part)
        # Descend from each node once: a damaged tree may have exponentially many paths.
        again = part.nodes.good.copy()
        again[again] = ~self._read.first_times(part.nodes.lsn[again])
        nodes = part.nodes.without(again)
        children = self.tree.children_of(replace(part.loaded, nodes=nodes))
        slot = np.arange(len(children)) - nodes.first[nodes.slot_node]
        # A slot without an LSN is already reported.
        named = _UnreadNodes(children, slot).select(np.flatnonzero(children.lsn != NULL_LSN))
        size = batch_size_below(nodes, BINS_AT_ONCE)
        for first in range(0, len(named.children), size):
            some = named.select(np.arange(first, min(first + size, len(named.children))))
            if children.level <= 1:
                yield some
            else:
                yield from self._below(some, found, counts)

    def _nodes(self, named: _UnreadNodes) -> tuple[CheckedNodes, TreeProblems]:
        loaded = self.tree.read(named.children)
        part = checked_nodes(self.tree, loaded, named.slot)
        part, problems = node_problems(part, self.expected, has_identifiers=self.has_identifiers)
        problems.merge(garbage_nodes(part, self.cleaner), Counter())
        return part, problems

    def _bottom_nodes(self, named: _UnreadNodes) -> tuple[CheckedNodes, TreeProblems]:
        part, problems = self._nodes(named)
        problems.merge(record_problems(part, self.expected), Counter())
        return part, problems

    def _changes(self) -> TreeProblems:
        """Return problems of records that undo or redo restores but that cannot be read."""
        problems = TreeProblems()
        reader = RecordReader(self.tree, self.expected.overlay, with_data=True, now_ms=None)
        for first in range(0, len(self.expected.overlay), _CHANGES_AT_ONCE):
            unreadable = reader.unreadable_changes(first, first + _CHANGES_AT_ONCE)
            rows = np.arange(len(unreadable))
            problems.add("tree-record", rows, partial(_of_change, unreadable))
        return problems


def _of_change(unreadable: UnreadableRecords, row: int) -> TreeProblem:
    fault = unreadable.fault(row)
    return TreeProblem(
        code="tree-record",
        db_id=fault.db_id,
        lsn=fault.lsn,
        parent_lsn=NULL_LSN,
        slot=-1,
        expected="the record that recovery restores",
        found=f"none: {fault.kind.value}",
        low=fault.low,
        high=fault.high,
    )


def _family(database: Database) -> Family:
    """Return the family of the entries that hold a database's records."""
    if database.db_id == ID_DB:
        return Family.MAP_LN
    if database.db_id == NAME_DB:
        return Family.NAME_LN
    return Family.FILE_SUMMARY_LN if database.name == UTILIZATION_DB else Family.LN


def _node_id_problems(snapshot: Snapshot, ids: _NodeIds) -> Iterator[tuple[int, TreeProblems]]:
    """Yield problems of node ids, by database.

    An id is wrong if several nodes have it, or if it is above the last id that the checkpoint names
    although the node was logged before the checkpoint began: recovery notes the ids of later nodes
    itself. A thread may log nodes while a checkpoint ends, after it has read the last id.
    """
    rows = np.concatenate([np.empty((0, 5), np.int64), *ids.rows])
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    again = np.flatnonzero(np.diff(rows[:, 0]) == 0) + 1
    last = snapshot.checkpoint.fields.get("last_local_node_id")
    known = rows[:, 1] < snapshot.checkpoint.start_lsn
    above = np.flatnonzero(known & (rows[:, 0] > last)) if last is not None else again[:0]
    about = np.concatenate((again, above))

    def of_id(at: int) -> TreeProblem:
        row = about[at]
        if at >= len(again):
            expected = f"a node id up to {last}, the last id of the checkpoint"
            return _node_id_problem(rows[row].tolist(), expected, f"{rows[row, 0]}")
        first = rows[row - 1].tolist()
        where = "a root" if first[2] == NULL_LSN else f"slot {first[3]} of {lsn_text(first[2])}"
        found = f"id {first[0]} of the node of {where}, at {lsn_text(first[1])}"
        return _node_id_problem(rows[row].tolist(), "a unique node id", found)

    db_ids = rows[about, 4]
    order = np.argsort(db_ids, kind="stable")
    starts = np.flatnonzero(np.diff(db_ids[order], prepend=-(1 << 62)))
    for own in np.split(order, starts[1:]) if len(order) else ():
        problems = TreeProblems()
        problems.add("tree-node-id", own, of_id)
        yield int(db_ids[own[0]]), problems


def _node_id_problem(row: list[int], expected: str, found: str) -> TreeProblem:
    _, lsn, parent_lsn, slot, db_id = row
    return TreeProblem("tree-node-id", db_id, lsn, parent_lsn, slot, expected, found, loses=False)
