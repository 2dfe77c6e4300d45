"""Interrupted rollbacks: LNs that still have to be marked invisible.

A RollbackStart names the transactions whose LNs after its matchpoint are no longer part of the
log. The engine then marks each of these LNs invisible in its header, and logs a RollbackEnd. If
the RollbackEnd is missing, recovery marks the LNs again, and logs none. The next checkpoint writes
the trees without these LNs. After it nothing but the marks excludes them, so the marks must be in
the files before that checkpoint ends.

Source: je-log.md "The VLSN index"; RollbackTracker.Scanner.rollback and setInvisible,
FileManager.makeInvisible, RecoveryManager.undoLNs, JE 7.5.11.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.formats.je.header import FLAGS_AT, NULL_LSN, invisible_mask
from je_tools.recovery.interval_tables import INVISIBLE, TRANSACTIONAL

if TYPE_CHECKING:
    from je_tools.recovery.snapshot import Snapshot

_OFFSET = (1 << 32) - 1


class InvisibleMark(Struct, frozen=True):
    """The flags byte in the header of an LN that is to be marked invisible.

    Attributes:
        file_no, offset: position of the byte.
        old, new: its value before and after; one byte each.
    """

    file_no: int
    offset: int
    old: bytes
    new: bytes


def missing_invisible_marks(snapshot: Snapshot) -> list[InvisibleMark]:
    """Return the marks that recovery would set, in log order.

    Of nested rollbacks, the innermost one that names the LN's transaction decides.
    """
    lns = snapshot.interval.lns
    if all(period.end_lsn != NULL_LSN for period in snapshot.interval.periods):
        return []
    wanted = np.zeros(len(lns), np.bool_)
    decided = np.zeros(len(lns), np.bool_)
    for period in snapshot.interval.periods:
        # Periods are in the order of their starts, so inner ones come first.
        first = int(np.searchsorted(lns.lsn, period.matchpoint_lsn, "right"))
        inside = slice(first, max(first, int(np.searchsorted(lns.lsn, period.start_lsn))))
        taken_back = np.isin(lns.txn_id[inside], list(period.txn_ids or ())) & ~decided[inside]
        decided[inside] |= taken_back
        if period.end_lsn == NULL_LSN:
            wanted[inside] |= taken_back
    wanted &= lns.flags & (INVISIBLE | TRANSACTIONAL) == TRANSACTIONAL
    image = snapshot.image
    marks = []
    for lsn in lns.lsn[wanted].tolist():
        file_no, offset = lsn >> 32, (lsn & _OFFSET) + FLAGS_AT
        of_file = int(np.searchsorted(image.file_nos, file_no))
        old = int(image.data[int(image.starts[of_file]) + offset])
        new = old | invisible_mask(int(image.versions[of_file]))
        if new != old:
            marks.append(InvisibleMark(file_no, offset, bytes([old]), bytes([new])))
    return marks
