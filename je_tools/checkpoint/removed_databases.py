"""Databases that a checkpoint removes: the entries of each file that become obsolete."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from je_tools.checkpoint.obsolete_entries import ObsoleteEntries, joined_obsolete, obsolete_by_file
from je_tools.formats.je.header import NULL_LSN
from je_tools.recovery.live_entries import LiveEntries, map_live_entries
from je_tools.recovery.utilization import FileSummary

if TYPE_CHECKING:
    from je_tools.btree.tree import Tree
    from je_tools.recovery.snapshot import Snapshot


def sum_removed(snapshot: Snapshot, db_ids: Iterable[int]) -> dict[int, FileSummary]:
    """Sum the entries of each file that become obsolete when databases are removed."""
    found: dict[int, FileSummary] = defaultdict(FileSummary)
    for db_id in sorted(db_ids):
        database = snapshot.databases[db_id]
        if database.root_lsn == NULL_LSN:
            continue
        for part in map_live_entries(snapshot, database, _all_of):
            for file_no, (summary, _) in part.items():
                found[file_no] += summary
    return found


def _all_of(_: Tree, live: LiveEntries) -> dict[int, tuple[FileSummary, tuple[int, ...]]]:
    nodes = np.concatenate((live.nodes, live.bases, live.deltas))
    return obsolete_by_file(
        joined_obsolete(
            (
                ObsoleteEntries.of(live.records, live.record_sizes, is_ln=True, is_listed=False),
                ObsoleteEntries.of(nodes, is_ln=False, is_listed=False),
            )
        )
    )
