"""Numbers of LNs that transactions have written between sync points."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints


class TxnWrites(Struct, frozen=True):
    """Numbers of LNs, by transaction and by the sync point after them.

    Attributes:
        place: int64, ascending; index of the sync point after the LNs. For LNs after the last sync
            point, it is the number of sync points.
        txn_id, count: int64; transaction, and number of its LNs.
    """

    place: Ints
    txn_id: Ints
    count: Ints

    @classmethod
    def of(cls, places: Ints, txn_ids: Ints, counts: Ints) -> TxnWrites:
        """Add up numbers of LNs, in any order."""
        order = np.lexsort((txn_ids, places))
        places, txn_ids = places[order], txn_ids[order]
        is_new = np.ones(len(order), np.bool_)
        is_new[1:] = (places[1:] != places[:-1]) | (txn_ids[1:] != txn_ids[:-1])
        starts = np.flatnonzero(is_new)
        sums = np.add.reduceat(counts[order], starts) if len(starts) else counts[:0]
        return cls(places[starts], txn_ids[starts], sums)
