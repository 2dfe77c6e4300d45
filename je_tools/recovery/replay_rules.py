"""The rules of undo and redo: which LNs count, and which a rollback undoes.

Source: RecoveryManager.undoLNs, redoLNs, JE 7.5.11 and 18.3.12.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.recovery.interval_tables import (
    INVISIBLE,
    SKIPPED,
    Lns,
    RollbackPeriod,
    TxnEnds,
    Writes,
)
from je_tools.recovery.outcomes import is_open
from je_tools.recovery.rollbacks import Periods

if TYPE_CHECKING:
    from je_tools.formats.arrays import Mask


class ReplayRules(Struct, frozen=True, dict=True):
    """The rules of undo and redo for one log.

    Attributes:
        ckpt_start_lsn: LSN from which LNs are redone; below 0 for all.
        periods: rollbacks that count: those without an end, or with one after `ckpt_start_lsn`.
    """

    ckpt_start_lsn: int
    periods: Sequence[RollbackPeriod]

    @cached_property
    def _by_txn(self) -> Periods:
        return Periods.of(
            (txn_id, period.matchpoint_lsn, period.start_lsn)
            for period in self.periods
            for txn_id in period.txn_ids or ()
        )

    def is_rolled_back(self, lns: Lns | Writes) -> Mask:
        """Return a mask of the LNs that a rollback undoes."""
        return self._by_txn.contain(lns.txn_id, lns.lsn)

    def is_undone(self, lns: Lns) -> Mask:
        """Return a mask of the LNs that undo reverts because their transaction has no Commit.

        LNs that a rollback marked invisible, or undoes, no longer belong to the transaction.
        """
        undone: Mask = is_open(lns.flags) & (lns.flags & (INVISIBLE | SKIPPED) == 0)
        return undone & ~self.is_rolled_back(lns)

    def takes_back_commits(self, ends: TxnEnds) -> bool:
        """Return True if a Commit of the group, visible or not, lies in a rollback period."""
        lsns = ends.lsn[ends.is_commit & (ends.txn_id < 0)]
        bounds = ((0, each.matchpoint_lsn, each.start_lsn) for each in self.periods)
        return bool(Periods.of(bounds).contain(np.zeros(len(lsns), np.int64), lsns).any())
