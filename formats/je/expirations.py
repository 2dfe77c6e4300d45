"""When records expire: numbers of days or hours since 1970, in one form.

Source: je-log.md "Nodes"; TTL, BIN.getExpiration, LNLogEntry, JE 7.5.11.
"""

from __future__ import annotations

import numpy as np

from je_tools.formats.arrays import Ints

HOUR_MS, DAY_MS = 3_600_000, 86_400_000

DAYS_MAX = 100_000
"""An expiration above is in hours, whatever its flag says: days since 1970 are fewer than that,
hours more, and engines up to 18.3 have left flags that are wrong."""

NEVER = 0

_COUNT_MAX = 1 << 31
"""Engines count in an int."""


def expiration_ms(values: Ints) -> Ints:
    """When records expire, in ms since 1970, of expirations as slots and LNs have them.

    Which of the two units it is the number itself tells, and in LNs, where hours are negative, its
    sign.

    Args:
        values: int64; the sum of base and offset of a slot, or what an LN holds; 0 for none.

    Returns:
        Int64; NEVER for 0, and for numbers that no engine counts to.
    """
    if not values.any():
        return np.full(len(values), NEVER, np.int64)
    counted = (values > -_COUNT_MAX) & (values < _COUNT_MAX)
    counts: Ints = np.where(counted, values, NEVER)
    units = np.where((counts < 0) | (counts > DAYS_MAX), HOUR_MS, DAY_MS)
    return np.abs(counts) * units
