"""Rollbacks of a node, and the entries that they leave in the stream.

A RollbackStart undoes every VLSN above its matchpoint, even of entries that are not marked
invisible. If a rollback ended without marking them, they stay visible for good.

Source: RollbackTracker, RollbackStart, RollbackEnd, JE 7.5.11 and 18.3.12.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.formats.je.header import NULL_LSN
from je_tools.formats.je.types import ROLLBACK_END_NO, ROLLBACK_START_NO, mask_of

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.je.log.entry_rows import Rows

ROLLBACK_TYPES: Mask = mask_of((ROLLBACK_START_NO, ROLLBACK_END_NO))


class NodeRollback(Struct, frozen=True):
    """A rollback of a node.

    Attributes:
        start_lsn: LSN of its RollbackStart.
        matchpoint_vlsn, matchpoint_lsn: the last entry that it does not undo.
        time_ms: time of the RollbackStart.
        txn_count: number of transactions that it undoes, in whole or in part.
        end_lsn: LSN of its RollbackEnd; NULL_LSN without one.
    """

    start_lsn: int
    matchpoint_vlsn: int
    matchpoint_lsn: int
    time_ms: int
    txn_count: int
    end_lsn: int = NULL_LSN


class LoggedRollback(Struct, frozen=True):
    """A RollbackStart or a RollbackEnd, with the fields of `NodeRollback` that it has."""

    lsn: int
    is_start: bool
    fields: dict[str, int]


_START_FIELDS = ("matchpoint_vlsn", "matchpoint_lsn", "time_ms", "active_txn_count")
_END_FIELDS = ("matchpoint_lsn", "rollback_start_lsn")


def logged_rollbacks(rows: Rows) -> list[LoggedRollback]:
    """Return the good RollbackStarts and RollbackEnds of some rows that decode, in log order."""
    if rows.surveyed is not None and not rows.surveyed.counts[ROLLBACK_TYPES].any():
        return []
    found = []
    lsns = rows.lsn
    for row in np.flatnonzero(ROLLBACK_TYPES[rows.type] & rows.good).tolist():
        is_start = int(rows.type[row]) == ROLLBACK_START_NO
        names = _START_FIELDS if is_start else _END_FIELDS
        fields = rows.fields(row)
        if fields:
            known = {name: int(fields[name]) for name in names}
            found.append(LoggedRollback(int(lsns[row]), is_start, known))
    return found


def joined_rollbacks(logged: Sequence[LoggedRollback]) -> list[NodeRollback]:
    """Return the rollbacks whose RollbackStart is among these entries, in log order."""
    ends = {each.fields["rollback_start_lsn"]: each.lsn for each in logged if not each.is_start}
    return [
        NodeRollback(
            each.lsn,
            each.fields["matchpoint_vlsn"],
            each.fields["matchpoint_lsn"],
            each.fields["time_ms"],
            each.fields["active_txn_count"],
            ends.get(each.lsn, NULL_LSN),
        )
        for each in logged
        if each.is_start
    ]


def is_left(lsns: Ints, vlsns: Ints, rollbacks: Sequence[tuple[int, int]]) -> Mask:
    """Return a mask of the entries that no later rollback undoes.

    Args:
        lsns, vlsns: int64; entries in any order.
        rollbacks: LSN of each RollbackStart, ascending, and the VLSN of its matchpoint.
    """
    left: Mask = vlsns <= highest_left(lsns, rollbacks)
    return left


def highest_left(lsns: Ints, rollbacks: Sequence[tuple[int, int]]) -> Ints:
    """Return for each LSN the highest VLSN that no later rollback undoes there, int64.

    Args:
        lsns: int64; LSNs in any order.
        rollbacks: as for `is_left`.
    """
    if not rollbacks:
        return np.full(len(lsns), np.iinfo(np.int64).max)
    starts, matchpoints = np.array(rollbacks, np.int64).T
    # Of the rollbacks after an entry, the lowest matchpoint counts.
    lowest = np.append(np.minimum.accumulate(matchpoints[::-1])[::-1], np.iinfo(np.int64).max)
    return lowest[np.searchsorted(starts, lsns)]


def bounds_of(rollbacks: Sequence[NodeRollback]) -> list[tuple[int, int]]:
    """Return the LSN of each RollbackStart and the VLSN of its matchpoint, for `is_left`."""
    return [(each.start_lsn, each.matchpoint_vlsn) for each in rollbacks]
