"""Sets of records that batches are compared with: by key and, among duplicates, by data too."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.formats.je.btree.key_sets import NOT_IN_SET, KeySet
from je_tools.formats.je.btree.keys import join_two_part
from je_tools.formats.spans import Spans

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.log.records import Records


class RecordSet(Struct, frozen=True):
    """Records of one database.

    Attributes:
        count: number of different records. It includes those that the database cannot have: with
            data although its keys are unique, or without data although keys have duplicates.
        slot_keys: keys as slots have them, ascending: two-part arrays among duplicates.
        keys: the keys.
        data: the data; None if keys are unique.
        pairs: int64; rank of the key and of the data of each record as one number, ascending.
    """

    count: int
    slot_keys: Spans
    keys: KeySet
    data: KeySet | None
    pairs: Ints

    @classmethod
    def of(cls, records: Iterable[tuple[bytes, bytes | None]], *, two_part: bool) -> RecordSet:
        """Return the set of some records.

        Args:
            records: key and data; the data is None except in a database with duplicates.
            two_part: True for a database with duplicates.
        """
        distinct = set(records)
        keys = KeySet.of(key for key, data in distinct if (data is not None) is two_part)
        if not two_part:
            return cls(len(distinct), keys.keys, keys, None, np.arange(len(keys)))
        pairs = sorted((key, data) for key, data in distinct if data is not None)
        values = KeySet.of(data for _, data in pairs)
        ranks = _paired(
            keys.ranks(Spans.of([key for key, _ in pairs])),
            values.ranks(Spans.of([data for _, data in pairs])),
            len(values),
        )
        slot_keys = Spans.of([join_two_part(*pair) for pair in pairs])
        return cls(len(distinct), slot_keys, keys, values, ranks)

    def holds(self, records: Records) -> Mask:
        """Return a mask of the records of a batch that are in the set."""
        ranks = self.keys.ranks(records.key)
        if self.data is None:
            has_key: Mask = ranks != NOT_IN_SET
            return has_key
        pairs = _paired(ranks, self.data.ranks(records.data), len(self.data))
        found: Mask = pairs != NOT_IN_SET
        if found.any():
            at = np.searchsorted(self.pairs, pairs[found])
            found[found] = self.pairs[np.minimum(at, len(self.pairs) - 1)] == pairs[found]
        return found


def _paired(keys: Ints, data: Ints, data_count: int) -> Ints:
    """Return two ranks as one number, or NOT_IN_SET if one of them is."""
    both = (keys != NOT_IN_SET) & (data != NOT_IN_SET)
    return np.where(both, keys * data_count + data, NOT_IN_SET)
