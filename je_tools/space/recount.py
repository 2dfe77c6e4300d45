"""Recount of the bytes of a log that are in use: entries that trees name, and all others.

It walks once over the headers of all entries, and once over the trees as they are after recovery;
it looks up no record by its key.

Source: je-log.md "Utilization"; UtilizationFileReader.processEntry, isLNActive, isINActive,
JE 25.3.17.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from msgspec import Struct, field

from je_tools.btree.children import BINS_AT_ONCE, Children, Leaves
from je_tools.core.memory import keep_freed_memory
from je_tools.core.ordered import in_background
from je_tools.formats.je import header as h
from je_tools.formats.je.fetch import fetch
from je_tools.formats.je.flags import LnFlag
from je_tools.formats.je.header import NULL_LSN
from je_tools.formats.je.types import FILE_HEADER_NO, Family
from je_tools.recovery.overlay import KeyOutcome

if TYPE_CHECKING:
    from je_tools.btree.fault_kinds import Fault
    from je_tools.btree.tree import Tree
    from je_tools.formats.arrays import Ints
    from je_tools.formats.je.entry_rows import Rows
    from je_tools.recovery.database import Database
    from je_tools.recovery.reading import RecordReader
    from je_tools.recovery.snapshot import Snapshot


class Recount(Struct):
    """Bytes of entries, by file number.

    Attributes:
        total: all entries except file headers and invisible ones.
        live_records: records that slots of trees name.
        live_nodes: nodes of trees, without deltas but with their full versions.
        live_deltas: deltas of trees. The engine's own recount counts them as obsolete.
        bases: full versions among `live_nodes` that only deltas need.
    """

    total: Counter[int] = field(default_factory=Counter)
    live_records: Counter[int] = field(default_factory=Counter)
    live_nodes: Counter[int] = field(default_factory=Counter)
    live_deltas: Counter[int] = field(default_factory=Counter)
    bases: Counter[int] = field(default_factory=Counter)

    def take(self, part: Recount) -> None:
        """Add the counts of a part of a tree."""
        for mine, others in (
            (self.live_records, part.live_records),
            (self.live_nodes, part.live_nodes),
            (self.live_deltas, part.live_deltas),
            (self.bases, part.bases),
        ):
            mine.update(others)

    def obsolete_size(self, file_no: int) -> int:
        """Return the bytes of a file that nothing needs, as in the engine's recount."""
        live = self.live_records[file_no] + self.live_nodes[file_no]
        return max(self.total[file_no] - live, 0)


def recount(snapshot: Snapshot) -> Recount:
    """Count the bytes of each file that are in use; add faults of trees to `snapshot.faults`."""
    counted = Recount()
    keep_freed_memory()
    # Reading trees is Python between native calls and leaves cores idle: scan at the same time.
    total: Callable[[], Counter[int]] = partial(_total, snapshot)
    if snapshot.threads > 1:
        total = in_background(total)
    for database in list(snapshot.databases.values()):
        if database.root_lsn != NULL_LSN:
            _count_tree(snapshot, database, counted)
    counted.total = total()
    return counted


def _total(snapshot: Snapshot) -> Counter[int]:
    """Return the bytes of all entries except file headers and invisible ones, by file number."""
    end = snapshot.end.next_lsn
    total: Counter[int] = Counter()

    def size_up(rows: Rows) -> tuple[int, int]:
        wanted = (rows.type != FILE_HEADER_NO) & rows.good
        wanted &= rows.flags & h.invisible_mask(rows.version) == 0
        wanted &= rows.lsn < end
        return rows.file_no, int(rows.size[wanted].sum(dtype=np.int64))

    for part in snapshot.scanner.scan(snapshot.environment, size_up):
        for file_no, size in part.results:
            total[file_no] += size
    return total


def _count_tree(snapshot: Snapshot, database: Database, counted: Recount) -> None:
    for part in of_live(snapshot, database, _recounted):
        counted.take(part)


class Live(Struct, frozen=True):
    """Live entries of a part of a tree.

    Attributes:
        records, nodes, bases, deltas: int64 LSNs; as in `Recount`, but `nodes` without `bases`.
        record_sizes: int64; bytes of each record.
    """

    records: Ints
    record_sizes: Ints
    nodes: Ints
    bases: Ints
    deltas: Ints


T = TypeVar("T")


def of_live(snapshot: Snapshot, database: Database, work: Callable[[Tree, Live], T]) -> Iterator[T]:
    """Yield results of `work` on the live parts of a tree; add its faults to `snapshot.faults`.

    Args:
        snapshot: the log.
        database: a database that has a root.
        work: called with each part, in threads.
    """
    reading = snapshot.reading(database, with_data=False, show_expired=True)
    tree = reading.tree
    uppers: list[T] = []

    def look(leaves: Leaves) -> None:
        uppers.append(work(tree, _live(_NONE, _NONE, leaves)))

    def measure(children: Children) -> tuple[T, list[Fault]]:
        leaves = tree.read(children)
        slots, alive, changes, faults = reading.alive(leaves)
        # Embedded and duplicate data makes the record's own entry obsolete at once.
        outside = alive & (slots.data_size < 0) & (slots.lsn != NULL_LSN)
        if tree.two_part:
            outside[:] = False
        lsns, sizes = slots.lsn[outside], slots.logged_size[outside]
        lsns = np.concatenate((lsns, _lns_of(reading, changes)))
        sizes = np.concatenate((sizes, np.zeros(len(lsns) - len(sizes), np.int64)))
        unknown = np.flatnonzero(sizes <= 0)
        if len(unknown):
            sizes[unknown] = _sizes(tree, lsns[unknown])
        return work(tree, _live(lsns, sizes, leaves)), faults

    for part, faults in snapshot.in_order(
        tree.leaf_children(seen=look, at_once=BINS_AT_ONCE), measure
    ):
        yield part
        yield from uppers
        uppers.clear()
        snapshot.faults.extend(faults)
    yield from uppers
    if reading.has_left:
        left = _lns_of(reading, reading.left_changes())
        yield work(tree, Live(left, _sizes(tree, left), _NONE, _NONE, _NONE))
    snapshot.faults.extend(tree.faults)


_NONE = np.empty(0, np.int64)


def _live(lsns: Ints, sizes: Ints, leaves: Leaves) -> Live:
    """Return records, full nodes, full versions of deltas, and deltas as one part."""
    nodes = leaves.logged[0]
    used = leaves.nodes.good & nodes.good
    deltas = used & nodes.is_delta
    bases = nodes.last_full_lsn[deltas]
    return Live(lsns, sizes, nodes.lsn[used & ~deltas], bases[bases != NULL_LSN], nodes.lsn[deltas])


def _lns_of(reading: RecordReader, changes: Ints) -> Ints:
    """Return the LSNs of the entries that hold the records of changes, outside of slots."""
    overlay = reading.overlay
    outcomes = overlay.outcome[changes]
    lsns = overlay.lsn[changes]
    if reading.tree.two_part or not len(lsns):
        return np.empty(0, np.int64)
    entries = fetch(reading.tree.image, lsns, check=False)
    holding = np.where(outcomes == KeyOutcome.LN, lsns, NULL_LSN)
    for family in (Family.LN, Family.NAME_LN):
        rows = np.flatnonzero(entries.is_family(family))
        wanted = frozenset({"flags", "abort_lsn"})
        for some, decoded in entries.decode(family, rows, wanted=wanted):
            head = decoded.fields
            flags = head.number("flags") if head.has("flags") else np.zeros(len(some), np.int64)
            back = outcomes[some] == KeyOutcome.ABORT_VERSION
            if head.has("abort_lsn"):
                known = back & head.is_present("abort_lsn") & (flags & LnFlag.ABORT_DATA == 0)
                holding[some[known]] = head.number("abort_lsn")[known]
            holding[some[~back & (flags & LnFlag.EMBEDDED != 0)]] = NULL_LSN
    outside: Ints = holding[holding != NULL_LSN]
    return outside


def _recounted(tree: Tree, live: Live) -> Recount:
    lsns = [live.nodes, live.bases, live.deltas]
    sizes = np.split(_sizes(tree, np.concatenate(lsns)), np.cumsum([len(some) for some in lsns]))
    fulls, bases, deltas = (_by_file(tree, some, of) for some, of in zip(lsns, sizes, strict=False))
    return Recount(
        live_records=_by_file(tree, live.records, live.record_sizes),
        live_nodes=fulls + bases,
        bases=bases,
        live_deltas=deltas,
    )


def _sizes(tree: Tree, lsns: Ints) -> Ints:
    """Return the sizes of the entries at LSNs; 0 if there is none."""
    found = fetch(tree.image, lsns, check=False)
    sizes: Ints = np.where(found.good, found.size, 0)
    return sizes


def _by_file(tree: Tree, lsns: Ints, sizes: Ints) -> Counter[int]:
    """Return the sum of the sizes for each file of the log."""
    file_nos = tree.image.file_nos
    wanted = lsns >> 32 & 0xFFFFFFFF
    at = np.minimum(np.searchsorted(file_nos, wanted), len(file_nos) - 1)
    there = file_nos[at] == wanted
    sums = np.zeros(len(file_nos), np.int64)
    np.add.at(sums, at[there], sizes[there])
    some = np.flatnonzero(sums)
    return Counter(dict(zip(file_nos[some].tolist(), sums[some].tolist(), strict=True)))
