"""Entries that recovery replays, as tables: LNs, nodes, ends of transactions, rollbacks."""

from __future__ import annotations

from enum import IntFlag
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import astuple

from je_tools.core.memory import give_back_memory

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints, Mask


class LnMark(IntFlag):
    """Bits of an LN's `flags`."""

    DELETED = 1
    """It deletes its record."""
    TRANSACTIONAL = 2
    INVISIBLE = 4
    """A rollback has marked it in the log."""
    REPLICATED = 8
    COMMITTED = 16
    """The backward passes read the Commit of its transaction."""
    SKIPPED = 32
    """The backward passes skip it."""


DELETED, TRANSACTIONAL, INVISIBLE, REPLICATED, COMMITTED, SKIPPED = (mark.value for mark in LnMark)
"""The bits as plain numbers: combined with a `LnMark`, numpy would widen the column `flags`."""


class ColumnTable(Struct, frozen=True):
    """A table: columns of the same length."""

    def __len__(self) -> int:
        return len(getattr(self, self.__struct_fields__[0]))


class Lns(ColumnTable, frozen=True):
    """LNs in log order.

    Attributes:
        lsn, db_id: int64.
        txn_id: int64; 0 outside transactions.
        key_position: int64; position of the key in the image.
        key_size: int32.
        flags: uint8; bits of `LnMark`.
    """

    lsn: Ints
    db_id: Ints
    txn_id: Ints
    key_position: Ints
    key_size: npt.NDArray[np.int32]
    flags: npt.NDArray[np.uint8]

    def select(self, keep: npt.NDArray[Any]) -> Lns:
        """Select rows by a mask, or by an index array in its order."""
        return Lns(*(column[keep] for column in astuple(self)))


class Writes(ColumnTable, frozen=True):
    """The columns of `Lns` that undo and redo need."""

    lsn: Ints
    txn_id: Ints
    flags: npt.NDArray[np.uint8]

    @classmethod
    def of(cls, lns: Lns, rows: npt.NDArray[Any]) -> Writes:
        """Select the columns of some rows, in their order."""
        return cls(lns.lsn[rows], lns.txn_id[rows], lns.flags[rows])

    def select(self, keep: npt.NDArray[Any] | slice) -> Writes:
        """Select rows by a mask, by an index array in its order, or by a slice."""
        return Writes(self.lsn[keep], self.txn_id[keep], self.flags[keep])


class LoggedNodes(ColumnTable, frozen=True):
    """Nodes that recovery replays, in log order.

    Attributes:
        lsn, db_id: int64.
        node_id: int64; for a delta of the old form, the LSN of its full version.
        key_position: int64; position of the identifier key in the image.
        key_size: int32; -1 for a delta of the old form, which has none.
        level: int32; as logged, without the bits that mark the tree; 0 for a delta of the old form.
        is_root, is_old_delta: bool.
    """

    lsn: Ints
    db_id: Ints
    node_id: Ints
    key_position: Ints
    key_size: npt.NDArray[np.int32]
    level: npt.NDArray[np.int32]
    is_root: Mask
    is_old_delta: Mask

    def select(self, keep: npt.NDArray[Any]) -> LoggedNodes:
        """Select rows by a mask, or by an index array in its order."""
        return LoggedNodes(*(column[keep] for column in astuple(self)))


class TxnEnds(ColumnTable, frozen=True):
    """Commits and Aborts.

    Attributes:
        lsn, txn_id, time_ms: int64.
        is_commit: bool.
    """

    lsn: Ints
    txn_id: Ints
    time_ms: Ints
    is_commit: Mask

    def select(self, keep: npt.NDArray[Any]) -> TxnEnds:
        """Select rows by a mask, or by an index array in its order."""
        return TxnEnds(*(column[keep] for column in astuple(self)))


class RollbackPeriod(Struct, frozen=True):
    """A rollback: it undoes LNs of some transactions between matchpoint and RollbackStart.

    Attributes:
        matchpoint_lsn, start_lsn: bounds of the period, both exclusive.
        end_lsn: LSN of the RollbackEnd; NULL_LSN if there is none.
        txn_ids: ids of the transactions that were active; None if the RollbackStart was not read.
    """

    matchpoint_lsn: int
    start_lsn: int
    end_lsn: int
    txn_ids: frozenset[int] | None


T = TypeVar("T", Lns, LoggedNodes, TxnEnds)

_GIVEN_BACK_FROM = 1 << 20
"""Least size of a column, in bytes, for which giving memory back is worth the time."""

_NONE, _FALSE = np.empty(0, np.int64), np.empty(0, np.bool_)

NO_LNS = Lns(_NONE, _NONE, _NONE, _NONE, np.empty(0, np.int32), np.empty(0, np.uint8))

NO_NODES = LoggedNodes(
    _NONE, _NONE, _NONE, _NONE, np.empty(0, np.int32), np.empty(0, np.int32), _FALSE, _FALSE
)

NO_ENDS = TxnEnds(_NONE, _NONE, _NONE, _FALSE)


def joined(parts: list[T], none: T) -> T:
    """Concatenate the parts; empty the list, and free each of their columns once it is copied."""
    if not parts:
        return none
    columns = {name: [getattr(part, name) for part in parts] for name in none.__struct_fields__}
    parts.clear()
    columns_joined = {}
    for name in none.__struct_fields__:
        columns_joined[name] = np.concatenate(columns.pop(name))
        if columns_joined[name].nbytes >= _GIVEN_BACK_FROM:
            # malloc would hold on to the memory of many small arrays.
            give_back_memory()
    return type(none)(**columns_joined)
