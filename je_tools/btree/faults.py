"""Faults of trees as they are found: as many as can be told are kept, the others counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from je_tools.btree.tree import Fault, FaultKind, Known
from je_tools.formats.arrays import Ints
from je_tools.formats.je.header import NULL_LSN
from je_tools.formats.spans import Spans

TOLD = 100
"""Places of damage in trees that are told one by one."""

REMEMBERED = 1 << 20
"""Places that are remembered, so that one which is met again counts once; 8 bytes each."""

FORETOLD = frozenset({FaultKind.STRAY_SLOTS, FaultKind.SPLIT_CUT_SHORT, FaultKind.EXPIRATION_UNIT})
"""What is no damage, but makes the engine go wrong."""

LACKING = (
    FaultKind.MISSING,
    FaultKind.DAMAGED,
    FaultKind.NOT_A_RECORD,
    FaultKind.NOT_TWO_PARTS,
)
"""Why a record cannot be had."""

_Group = tuple[FaultKind, int]


class Lacking(Struct, frozen=True):
    """Records of one database whose data cannot be had.

    Attributes:
        db_id: of the database.
        kind: uint8, index in LACKING.
        lsn: int64; of the LN.
        key: of the record.
    """

    db_id: int
    kind: npt.NDArray[np.uint8]
    lsn: Ints
    key: Spans

    def __len__(self) -> int:
        return len(self.lsn)

    def fault(self, row: int) -> Fault:
        """One of them."""
        key, lsn = self.key[row], int(self.lsn[row])
        return Fault(LACKING[self.kind[row]], self.db_id, lsn, NULL_LSN, key, key)


class Faults(Struct):
    """Faults as they are found.

    Trees are read more than once, and then the same faults are met again. Each that is kept is
    kept once. Of the others a place, which is an LSN, counts once for each kind and database, as
    long as there are not more than REMEMBERED; further ones count as often as they are met.

    Attributes:
        damage: the first TOLD, in the order in which they were found.
        foretold: of what is no damage the first of each kind and database.
    """

    damage: list[Fault] = field(default_factory=list)
    foretold: dict[_Group, Fault] = field(default_factory=dict)
    _told: set[Fault] = field(default_factory=set)
    _places: dict[_Group, Known] = field(default_factory=dict)
    _counts: Counter[_Group] = field(default_factory=Counter)
    _loose: Counter[_Group] = field(default_factory=Counter)
    _room: int = REMEMBERED

    def __bool__(self) -> bool:
        return bool(self.damage or self.foretold)

    def __iter__(self) -> Iterator[Fault]:
        """Those that are kept."""
        yield from self.damage
        yield from self.foretold.values()

    @property
    def untold_count(self) -> int:
        """Places of damage beyond those that are kept."""
        return sum(count for (kind, _), count in self._counts.items() if kind not in FORETOLD)

    def foretold_count(self, kind: FaultKind, db_id: int) -> int:
        """Places of what is no damage, the one included that is kept."""
        return self._counts[kind, db_id]

    def append(self, fault: Fault) -> None:
        """Take one."""
        self.extend([fault])

    def extend(self, others: Iterable[Fault] | Faults) -> None:
        """Take those of a part of a tree."""
        if isinstance(others, Faults):
            self._join(others)
            return
        places: dict[_Group, list[int]] = {}
        for fault in others:
            group = (fault.kind, fault.db_id)
            if fault.kind in FORETOLD:
                self.foretold.setdefault(group, fault)
            elif self._tell(fault):
                continue
            places.setdefault(group, []).append(fault.lsn)
        for group, lsns in places.items():
            self._count(group, np.array(lsns, np.int64))

    def lack(self, lacking: Lacking) -> None:
        """Take records that cannot be had; no more is made of them than is told."""
        if not len(lacking):
            return
        told = 0
        while told < len(lacking) and len(self.damage) < TOLD:
            self._tell(lacking.fault(told))
            told += 1
        for index, kind in enumerate(LACKING):
            some = lacking.kind[told:] == index
            if some.any():
                self._count((kind, lacking.db_id), lacking.lsn[told:][some])

    def _join(self, others: Faults) -> None:
        for fault in others.damage:
            # What has no place is not among theirs.
            if not self._tell(fault) and fault.lsn == NULL_LSN:
                self._count((fault.kind, fault.db_id), np.array([NULL_LSN], np.int64))
        for group, fault in others.foretold.items():
            self.foretold.setdefault(group, fault)
        for group, known in others._places.items():
            for lsns in known.arrays:
                self._count(group, lsns)
        self._counts += others._loose
        self._loose += others._loose

    def _tell(self, fault: Fault) -> bool:
        """Keep damage that is to be told; whether it is kept now."""
        if fault in self._told:
            return True
        if len(self.damage) >= TOLD:
            return False
        self._told.add(fault)
        self.damage.append(fault)
        self._remember((fault.kind, fault.db_id), np.array([fault.lsn], np.int64))
        return True

    def _count(self, group: _Group, lsns: Ints) -> None:
        """Count places that are not known yet, and such as cannot be remembered."""
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
        """Remember places; how many were not known."""
        real = lsns[lsns != NULL_LSN]
        known = self._places.setdefault(group, Known())
        new = int(np.count_nonzero(known.first_times(real))) if len(real) else 0
        self._room -= new
        return new
