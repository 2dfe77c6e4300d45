"""Expiration times of records: logged in days or hours since 1970, converted to one unit.

Source: je-log.md "Nodes"; TTL, BIN.getExpiration, LNLogEntry, JE 7.5.11.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints

HOUR_MS, DAY_MS = 3_600_000, 86_400_000

DAYS_MAX = 100_000
"""Largest expiration in days. A larger one is in hours, whatever its flag says: there are fewer
days since 1970 and more hours, and engines up to 18.3 have written wrong flags."""

NEVER = 0

_COUNT_MAX = 1 << 31
"""Limit of an expiration's magnitude: engines count in an int."""


def expiration_ms(values: Ints) -> Ints:
    """Convert expirations of slots and LNs to milliseconds since 1970.

    The size of a number determines its unit; in LNs a negative number is also in hours.

    Args:
        values: int64; the sum of base and offset of a slot, or the value in an LN; 0 for none.

    Returns:
        Int64; NEVER for 0, and for numbers that do not fit in an int.
    """
    if not values.any():
        return np.full(len(values), NEVER, np.int64)
    counted = (values > -_COUNT_MAX) & (values < _COUNT_MAX)
    counts: Ints = np.where(counted, values, NEVER)
    units = np.where((counts < 0) | (counts > DAYS_MAX), HOUR_MS, DAY_MS)
    return np.abs(counts) * units
