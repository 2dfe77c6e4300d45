"""Counts of lost keys, and of those of which the rest of the log has a record."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from je_tools.formats.je.btree.keysort import equal_keys, order_keys, search_sorted
from je_tools.missing.lost_ranges import range_bounds
from je_tools.salvage.stored_keys import stored_keys

if TYPE_CHECKING:
    from je_tools.btree.tree import Tree
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.missing.losses import DatabaseLoss
    from je_tools.recovery.database import Database
    from je_tools.recovery.snapshot import Snapshot
    from je_tools.salvage.survivors import Survivors


class SurvivorCounts(Struct, frozen=True):
    """Counts of the lost keys that survive in other files.

    Attributes:
        snapshot: the log with all files that exist.
        survivors: records in the remaining files.
        is_gone: returns a mask of the LSNs that lie in files treated as missing.
    """

    snapshot: Snapshot
    survivors: Survivors
    is_gone: Callable[[Ints], Mask]

    def count(self, loss: DatabaseLoss) -> None:
        """Set the counts of a loss.

        A key is kept if the remaining files have a record with it, even an older one.
        """
        database = self.snapshot.databases.get(loss.db_id)
        if loss.is_whole or database is None:
            groups = self.survivors.keys(loss.db_id, two_part=False)
            loss.whole_kept_count = sum(map(len, groups))
            return
        tree = self.snapshot.tree(database)
        kept = np.zeros(len(loss.keys), np.bool_)
        kept_counts = np.zeros(len(loss.ranges), np.int64)
        for group in self.survivors.keys(loss.db_id, two_part=tree.two_part):
            keys = group.select(order_keys(group, two_part=tree.by_parts))
            at = search_sorted(keys, loss.keys, two_part=tree.by_parts)
            kept |= equal_keys(keys.select(np.minimum(at, len(keys) - 1)), loss.keys)
            bounds = range_bounds(tree, keys, loss.ranges)
            kept_counts += np.array([high - low for low, high in bounds], np.int64)
        loss.kept = kept
        counts = self._keys_in(loss, database, tree)
        loss.ranges = [
            replace(one, key_count=count, kept_count=kept_count)
            for one, count, kept_count in zip(
                loss.ranges, counts, kept_counts.tolist(), strict=True
            )
        ]

    def _keys_in(self, loss: DatabaseLoss, database: Database, tree: Tree) -> list[int | None]:
        """Return the number of keys in each range; None if its node cannot be read."""
        lsns = np.array([one.lsn for one in loss.ranges], np.int64)
        is_known = self.is_gone(lsns)
        if not tree.ordered:
            is_known &= np.array([one.is_everything for one in loss.ranges], np.bool_)
        counts = np.zeros(len(lsns), np.int64)
        for batch in self.snapshot.records(database, with_data=False) if is_known.any() else ():
            keys = stored_keys(batch) if tree.two_part else batch.key
            counts += [high - low for low, high in range_bounds(tree, keys, loss.ranges)]
        pairs = zip(counts.tolist(), is_known.tolist(), strict=True)
        return [count if known else None for count, known in pairs]
