"""Rollbacks that a crash has cut short: what has to be marked as taken back.

A RollbackStart names the transactions whose LNs, behind its matchpoint, are no part of the log any
more. Each of them is then marked in its header, and a RollbackEnd says that this was done. Where it
is missing, recovery marks again. It appends no RollbackEnd: the next checkpoint makes the trees
what the rollback leaves, and from then on marks are all that matters. So they have to be in the
files before that checkpoint has an end.

Source: je-log.md "The VLSN index"; RollbackTracker.Scanner.rollback and setInvisible,
FileManager.makeInvisible, RecoveryManager.undoLNs, JE 7.5.11.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from je_tools.formats.je.header import NULL_LSN, invisible_mask
from je_tools.recovery.interval import INVISIBLE, TRANSACTIONAL
from je_tools.snapshot import Snapshot

_FLAGS_AT = 5
_OFFSET = (1 << 32) - 1


class Mark(Struct, frozen=True):
    """A flags byte in the header of an entry, and what it has to become.

    Attributes:
        file_no, offset: where it is.
        old, new: one byte each.
    """

    file_no: int
    offset: int
    old: bytes
    new: bytes


def lacking_marks(snapshot: Snapshot) -> list[Mark]:
    """What recovery marks as taken back, in the order of the log.

    Of rollbacks inside one another the innermost decides that has the LN's transaction.
    """
    lns = snapshot.interval.lns
    if all(period.end_lsn != NULL_LSN for period in snapshot.interval.periods):
        return []
    wanted = np.zeros(len(lns), np.bool_)
    decided = np.zeros(len(lns), np.bool_)
    for period in snapshot.interval.periods:
        # They come in the order of their starts, and so those inside first.
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
        file_no, offset = lsn >> 32, (lsn & _OFFSET) + _FLAGS_AT
        of_file = int(np.searchsorted(image.file_nos, file_no))
        old = int(image.data[int(image.starts[of_file]) + offset])
        new = old | invisible_mask(int(image.versions[of_file]))
        if new != old:
            marks.append(Mark(file_no, offset, bytes([old]), bytes([new])))
    return marks
