"""Recount of the bytes of a log that are in use: entries that trees name, and all others.

The headers of all entries are read once. The trees, as they are after recovery, are also read once.
No record is looked up by its key.

Source: je-log.md "Utilization"; UtilizationFileReader.processEntry, isLNActive, isINActive,
JE 25.3.17.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, field

from je_tools.core.ordered import in_background
from je_tools.formats.je import header as h
from je_tools.formats.je.header import NULL_LSN
from je_tools.formats.je.types import FILE_HEADER_NO
from je_tools.recovery.live_entries import LiveEntries, entry_sizes, map_live_entries

if TYPE_CHECKING:
    from je_tools.btree.tree import Tree
    from je_tools.formats.arrays import Ints
    from je_tools.formats.je.log.entry_rows import Rows
    from je_tools.recovery.database import Database
    from je_tools.recovery.snapshot import Snapshot


class Recount(Struct):
    """Bytes of entries, by file number.

    Attributes:
        total: all entries except file headers and invisible ones.
        live_records: LNs that slots of trees name and need.
        live_nodes: full nodes of trees, and the full versions that deltas need.
        live_deltas: deltas of trees. The engine's own recount counts them as obsolete.
        bases: full versions among `live_nodes` that only deltas need.
    """

    total: Counter[int] = field(default_factory=Counter)
    live_records: Counter[int] = field(default_factory=Counter)
    live_nodes: Counter[int] = field(default_factory=Counter)
    live_deltas: Counter[int] = field(default_factory=Counter)
    bases: Counter[int] = field(default_factory=Counter)

    def merge(self, part: Recount) -> None:
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
    for part in map_live_entries(snapshot, database, _recounted):
        counted.merge(part)


def _recounted(tree: Tree, live: LiveEntries) -> Recount:
    lsns = [live.nodes, live.bases, live.deltas]
    sizes = np.split(
        entry_sizes(tree, np.concatenate(lsns)), np.cumsum([len(some) for some in lsns])
    )
    fulls, bases, deltas = (_by_file(tree, some, of) for some, of in zip(lsns, sizes, strict=False))
    return Recount(
        live_records=_by_file(tree, live.records, live.record_sizes),
        live_nodes=fulls + bases,
        bases=bases,
        live_deltas=deltas,
    )


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
