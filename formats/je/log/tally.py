"""Counts and bytes of entries by type, and of the keys and values of user records.

No entry is kept: the extension steps over the declared fields of a record up to its key and value,
and adds up. `layout` remains the only place that knows the fields.

Entries count as in the engine's own statistics. Source: StatsFileReader.processEntry,
JE 18.3.12 and 25.3.17.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, field

from je_tools.formats import _native
from je_tools.formats.je.entry.steps import TYPES, Role, of_users, programs

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints
    from je_tools.formats.je.log.entry_rows import Rows

COUNT, TOTAL, MIN, MAX, PROVISIONAL = range(5)
"""Columns of a tally: count, total bytes, smallest, largest, and count of provisional entries."""

KEY, DATA, BROKEN = int(Role.KEY), int(Role.DATA), 2
"""Lines of a tally of sizes: keys, values, and records that end inside a field."""

NO_MINIMUM = 1 << 62
"""Minimum of a line that has counted nothing."""

_WIDTH = 5


def _empty(lines: int) -> Ints:
    out = np.zeros((lines, _WIDTH), np.int64)
    out[:, MIN] = NO_MINIMUM
    return out


class Tally(Struct):
    """Counts and bytes; tallies of several ranges can be added.

    Attributes:
        types: int64 (256, 5) by entry type; columns COUNT, TOTAL, MIN, MAX, PROVISIONAL.
        sizes: int64 (3, 5); lines KEY, DATA, BROKEN. A deleted record has no value to count.
    """

    types: Ints = field(default_factory=lambda: _empty(TYPES))
    sizes: Ints = field(default_factory=lambda: _empty(3))

    def add(self, other: Tally) -> None:
        """Add another tally to this one."""
        for mine, others in ((self.types, other.types), (self.sizes, other.sizes)):
            smallest = np.minimum(mine[:, MIN], others[:, MIN])
            largest = np.maximum(mine[:, MAX], others[:, MAX])
            mine += others
            mine[:, MIN], mine[:, MAX] = smallest, largest


def tally_rows(rows: Rows) -> Tally:
    """Return the tally of some entries; damaged ones do not count."""
    lines = rows.tallied or _native.tally(rows, programs(rows.version, of_users))
    return Tally(*(each.reshape(-1, _WIDTH) for each in lines))


def count_types(rows: Rows) -> Ints:
    """Return the counts and bytes of entries by type, as in `Tally.types`."""
    types, _ = rows.tallied or _native.tally(rows, None)
    return types.reshape(-1, _WIDTH)
