"""Comparison of the records in a log before and after it was written.

The trees before and after mostly refer to the same bottom nodes. If a node has the same LSN and the
same range of keys in both, and if neither replay, undo nor redo touches it, its records are the
same. The records of all other nodes are read through both trees, and compared. Records that were to
be deleted are left out of the comparison, so nodes that hold them are read too.

Source: the project's own; `je_tools.checkpoint.run` says what a checkpoint writes.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.btree.children import NODES_AT_ONCE, Children, joined_children
from je_tools.core.escaping import printable
from je_tools.formats.je.btree.keysort import equal_keys
from je_tools.recovery.database import ID_DB, NAME_DB, Database

if TYPE_CHECKING:
    from je_tools.btree.tree import Tree
    from je_tools.formats.arrays import Mask
    from je_tools.log.record_sets import RecordSet
    from je_tools.log.records import Records
    from je_tools.recovery.snapshot import Snapshot


NOTHING_DELETED: Mapping[int, RecordSet] = MappingProxyType({})


class Compared(Struct, frozen=True):
    """Result of a comparison.

    Attributes:
        database_count: databases whose records were compared.
        record_count: records that were read through both trees.
        shared_node_count: bottom nodes that both trees share, so that they were not read.
        different: databases whose records are not the same, or that only one side has.
    """

    database_count: int
    record_count: int
    shared_node_count: int
    different: tuple[str, ...] = ()


class _Side(Struct, frozen=True):
    """A database before the checkpoint, or after it.

    Attributes:
        snapshot, database, tree: the database in its log.
        nodes: its bottom nodes, unread.
        untouched: bool; nodes that hold no record to leave out, and that neither replay, undo nor
            redo touches.
        left_out: records that are not compared; None for none.
    """

    snapshot: Snapshot
    database: Database
    tree: Tree
    nodes: Children
    untouched: Mask
    left_out: RecordSet | None = None

    @classmethod
    def of(cls, snapshot: Snapshot, database: Database, left_out: RecordSet | None = None) -> _Side:
        """Read the upper nodes of a database."""
        tree = snapshot.tree(database)
        nodes = joined_children(list(tree.unread_bins()))
        touched = tree.holding(nodes, tree.replayed.sorted_keys)
        touched |= tree.holding(nodes, snapshot.overlay(database.db_id).key)
        if left_out is not None:
            touched |= tree.holding(nodes, left_out.slot_keys)
        return cls(snapshot, database, tree, nodes, ~touched, left_out)

    def records(self, skipped: Mask) -> Iterator[Records]:
        """Yield the records of all nodes that are not skipped, except those left out."""
        reader = self.snapshot.record_reader(self.database, with_data=True, show_expired=True)
        for records, _ in self.snapshot.in_order(self._parts(skipped), reader.read):
            if self.left_out is not None:
                records = records.select(~self.left_out.holds(records))
            if len(records):
                yield records

    def _parts(self, skipped: Mask) -> Iterator[Children]:
        read = self.nodes.select(~skipped)
        for first in range(0, len(read), NODES_AT_ONCE):
            yield read.select(slice(first, first + NODES_AT_ONCE))


def compare_records(
    before: Snapshot,
    after: Snapshot,
    written: Container[str],
    deleted: Mapping[int, RecordSet] = NOTHING_DELETED,
) -> Compared:
    """Compare the records of all databases of a log before it was written and after.

    Args:
        before: the log as recovery would have left it.
        after: the log with the checkpoint.
        written: names of the internal databases that the checkpoint creates or changes.
        deleted: records that the log must no longer have afterwards, by database id.

    Raises:
        StoppedError: a file shrank meanwhile.
    """
    old, new = (_compared(snapshot, written, deleted) for snapshot in (before, after))
    different = [_text(*each) for each in sorted(old.keys() ^ new.keys())]
    record_count = shared_count = 0
    both = sorted(old.keys() & new.keys())
    for each in both:
        left_out = deleted.get(old[each].db_id)
        if left_out is None and _is_unchanged(before, old[each], after, new[each]):
            continue
        ones, others = _Side.of(before, old[each], left_out), _Side.of(after, new[each])
        in_old, in_new = _shared(ones, others)
        shared_count += int(np.count_nonzero(in_old))
        count, is_same = _compare(ones.records(in_old), others.records(in_new))
        record_count += count
        if not is_same:
            different.append(_text(*each))
    return Compared(len(both), record_count, shared_count, tuple(different))


def _compare(ones: Iterator[Records], others: Iterator[Records]) -> tuple[int, bool]:
    """Return the number of equal records before the first difference, and True if there is none.

    The batches of the two streams may end at different records.
    """
    count = 0
    one, other = next(ones, None), next(others, None)
    while one is not None and other is not None:
        size = min(len(one), len(other))
        if not _are_equal(one.select(slice(size)), other.select(slice(size))):
            return count, False
        count += size
        one = one.select(slice(size, None)) if len(one) > size else next(ones, None)
        other = other.select(slice(size, None)) if len(other) > size else next(others, None)
    return count, one is None and other is None


def _are_equal(ones: Records, others: Records) -> bool:
    # Expirations are not compared: a checkpoint repairs those that lost their unit.
    numbers = [(each.lsn, each.key.sizes, each.data.sizes) for each in (ones, others)]
    if not all(map(np.array_equal, *numbers)):
        return False
    known = ones.data.sizes >= 0
    same_data = equal_keys(ones.data.select(known), others.data.select(known))
    return bool(same_data.all() and equal_keys(ones.key, others.key).all())


def _compared(
    snapshot: Snapshot, written: Container[str], deleted: Container[int]
) -> dict[tuple[str, int], Database]:
    """Return the databases to compare, by name and id; the name is '' if there is none."""
    return {
        (each.name or "", each.db_id): each
        for each in snapshot.databases.values()
        if each.name is not None or each.db_id in deleted
        if each.db_id not in (ID_DB, NAME_DB) and each.name not in written
    }


def _text(name: str, db_id: int) -> str:
    return f"{printable(name)} (id:{db_id})"


def _is_unchanged(before: Snapshot, old: Database, after: Snapshot, new: Database) -> bool:
    """Return True if both sides have the same root, and recovery changes nothing below it."""
    idle = all(
        not len(snapshot.tree(database).replayed) and not len(snapshot.overlay(database.db_id))
        for snapshot, database in ((before, old), (after, new))
    )
    return idle and old.root_lsn == new.root_lsn


def _shared(ones: _Side, others: _Side) -> tuple[Mask, Mask]:
    """Return for each side a mask of the nodes that both share, untouched and for the same keys."""
    old, new = ones.nodes, others.nodes
    of_new = np.zeros(len(new), np.bool_)
    if not len(new):
        return np.zeros(len(old), np.bool_), of_new
    order = np.argsort(new.lsn, kind="stable")
    place = np.minimum(np.searchsorted(new.lsn[order], old.lsn), len(new) - 1)
    twin = order[place]
    same = (new.lsn[twin] == old.lsn) & ones.untouched & others.untouched[twin]
    for low_or_high, twins in ((old.low, new.low), (old.high, new.high)):
        same &= equal_keys(low_or_high, twins.select(twin))
    of_new[twin[same]] = True
    return same, of_new
