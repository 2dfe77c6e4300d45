"""Stored keys of databases with duplicates: the key, the data, and the packed key length."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from je_tools.formats.spans import Spans

if TYPE_CHECKING:
    from je_tools.log.records import Records

_PACKED_LIMITS = np.array([119, 119 + 0xFF, 119 + 0xFFFF, 119 + 0xFFFFFF], np.int64)
"""Largest numbers whose packed form takes one byte, two bytes, and so on."""


def stored_keys(records: Records) -> Spans:
    """Return the stored keys of records of a database with duplicates, without a copy.

    A stored key is the key, the data, and the packed length of the key. The records must lie in
    their stored keys, as `split_two_part_keys` leaves them.
    """
    key = records.key
    tails = np.searchsorted(_PACKED_LIMITS, key.sizes).astype(np.int64) + 1
    return Spans(key.data, key.starts, key.sizes + np.maximum(records.data.sizes, 0) + tails)
