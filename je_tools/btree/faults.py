"""A collection of faults of B-trees: the first are kept, the others only counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from je_tools.btree.fault_kinds import Fault, FaultKind
from je_tools.btree.number_set import NumberSet
from je_tools.formats.je.header import NULL_LSN

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints
    from je_tools.formats.spans import Spans

KEPT_MAX = 100
"""Number of places of damage in trees that are reported one by one."""

REMEMBERED = 1 << 20
"""Number of places that are remembered, so that each counts once; 8 bytes each."""

WARNING_KINDS = frozenset(
    {FaultKind.STRAY_SLOTS, FaultKind.SPLIT_CUT_SHORT, FaultKind.EXPIRATION_UNIT}
)
"""Faults that are no damage, but on which the engine fails or returns wrong records."""

UNREADABLE_KINDS = (
    FaultKind.MISSING,
    FaultKind.DAMAGED,
    FaultKind.NOT_A_RECORD,
    FaultKind.NOT_TWO_PARTS,
)
"""Reasons why a record cannot be read."""

_Group = tuple[FaultKind, int]


class UnreadableRecords(Struct, frozen=True):
    """Records of one database that cannot be read.

    Attributes:
        db_id: id of the database.
        kind: uint8; index in UNREADABLE_KINDS.
        lsn: int64; LSN of the LN.
        key: key of the record.
    """

    db_id: int
    kind: npt.NDArray[np.uint8]
    lsn: Ints
    key: Spans

    def __len__(self) -> int:
        return len(self.lsn)

    def fault(self, row: int) -> Fault:
        """Return the fault of one record."""
        key, lsn = self.key[row], int(self.lsn[row])
        return Fault(UNREADABLE_KINDS[self.kind[row]], self.db_id, lsn, NULL_LSN, key, key)


class Faults(Struct):
    """A collection of faults.

    Trees are read more than once, so the same fault may be added several times. The first KEPT_MAX
    faults are kept, each once. The others are counted once for each place (an LSN), kind and
    database, up to REMEMBERED places. Places beyond these are counted each time they are added.

    Attributes:
        damage: the first KEPT_MAX faults that are damage, in the order found.
        warnings: the first fault of each kind and database that is no damage.
    """

    damage: list[Fault] = field(default_factory=list)
    warnings: dict[_Group, Fault] = field(default_factory=dict)
    _kept: set[Fault] = field(default_factory=set)
    _places: dict[_Group, NumberSet] = field(default_factory=dict)
    _counts: Counter[_Group] = field(default_factory=Counter)
    _loose: Counter[_Group] = field(default_factory=Counter)
    _room: int = REMEMBERED

    def __bool__(self) -> bool:
        return bool(self.damage or self.warnings)

    def __iter__(self) -> Iterator[Fault]:
        """Yield the faults that are kept."""
        yield from self.damage
        yield from self.warnings.values()

    @property
    def left_out_count(self) -> int:
        """Number of places of damage beyond those that are kept."""
        return sum(count for (kind, _), count in self._counts.items() if kind not in WARNING_KINDS)

    def warning_count(self, kind: FaultKind, db_id: int) -> int:
        """Return the number of places of a fault that is no damage, including the one kept."""
        return self._counts[kind, db_id]

    def append(self, fault: Fault) -> None:
        """Add a fault."""
        self.extend([fault])

    def extend(self, others: Iterable[Fault] | Faults) -> None:
        """Add faults, or merge another collection."""
        if isinstance(others, Faults):
            self._join(others)
            return
        places: dict[_Group, list[int]] = {}
        for fault in others:
            group = (fault.kind, fault.db_id)
            if fault.kind in WARNING_KINDS:
                self.warnings.setdefault(group, fault)
            elif self._keep(fault):
                continue
            places.setdefault(group, []).append(fault.lsn)
        for group, lsns in places.items():
            self._count(group, np.array(lsns, np.int64))

    def add_unreadable(self, unreadable: UnreadableRecords) -> None:
        """Add unreadable records; build a `Fault` only for those that are kept."""
        if not len(unreadable):
            return
        row = 0
        while row < len(unreadable) and len(self.damage) < KEPT_MAX:
            self._keep(unreadable.fault(row))
            row += 1
        for index, kind in enumerate(UNREADABLE_KINDS):
            some = unreadable.kind[row:] == index
            if some.any():
                self._count((kind, unreadable.db_id), unreadable.lsn[row:][some])

    def _join(self, others: Faults) -> None:
        for fault in others.damage:
            # A fault without an LSN is not among the places of `others`.
            if not self._keep(fault) and fault.lsn == NULL_LSN:
                self._count((fault.kind, fault.db_id), np.array([NULL_LSN], np.int64))
        for group, fault in others.warnings.items():
            self.warnings.setdefault(group, fault)
        for group, known in others._places.items():
            for lsns in known.arrays:
                self._count(group, lsns)
        self._counts += others._loose
        self._loose += others._loose

    def _keep(self, fault: Fault) -> bool:
        """Keep a fault unless KEPT_MAX are kept; return True if it is kept now or was before."""
        if fault in self._kept:
            return True
        if len(self.damage) >= KEPT_MAX:
            return False
        self._kept.add(fault)
        self.damage.append(fault)
        self._remember((fault.kind, fault.db_id), np.array([fault.lsn], np.int64))
        return True

    def _count(self, group: _Group, lsns: Ints) -> None:
        """Count places that are not remembered yet, and those that cannot be remembered."""
        real = lsns[lsns != NULL_LSN]
        loose = len(lsns) - len(real)
        if self._room > 0:
            self._counts[group] += self._remember(group, real)
        else:
            loose = len(lsns)
        if loose:
            self._counts[group] += loose
            self._loose[group] += loose

    def _remember(self, group: _Group, lsns: Ints) -> int:
        """Remember places; return the number of new ones."""
        real = lsns[lsns != NULL_LSN]
        known = self._places.setdefault(group, NumberSet())
        new = int(np.count_nonzero(known.first_times(real))) if len(real) else 0
        self._room -= new
        return new
