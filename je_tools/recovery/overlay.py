"""What undo and redo make of the keys that were written since the last checkpoint, by sets.

The engine undoes and redoes entry by entry. Each of these steps reads and writes one slot, that of
its own key, so the outcome of a key follows from its slot, the one LN at which that points, and
the newest LN that counts. One sort brings the LNs of a key together.

Source: RecoveryManager.undoLNs, redoLNs, abortUndo, redo, JE 7.5.11 and 18.3.12.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from functools import cached_property

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from je_tools.ahead import ahead
from je_tools.btree.faults import Faults
from je_tools.btree.tree import Children, Fault, Tree
from je_tools.formats.arrays import Ints, Mask
from je_tools.formats.je.fetch import fetch
from je_tools.formats.je.header import NULL_LSN
from je_tools.formats.je.keysort import (
    equal_keys,
    group_keys,
    search_sorted,
)
from je_tools.formats.je.layout import ABORT_KNOWN_DELETED, BLIND_DELETION
from je_tools.formats.je.nodes import Slots
from je_tools.formats.je.types import Family
from je_tools.formats.spans import Spans
from je_tools.memory import give_back_memory
from je_tools.recovery.interval import (
    COMMITTED,
    DELETED,
    INVISIBLE,
    SKIPPED,
    TRANSACTIONAL,
    Lns,
    RollbackPeriod,
    TxnEnds,
    Writes,
)
from je_tools.recovery.rollbacks import Periods

_NO_SLOT = -2

_AT_ONCE = 1 << 16
"""Keys that are worked on together: what that takes must not count beside all LNs."""


class Outcome(IntEnum):
    """What there is for a key after recovery."""

    NO_RECORD = 0
    LN = 1
    """The record of an LN."""
    ABORT_VERSION = 2
    """The record that an undone LN has replaced."""


class Overlay(Struct, frozen=True):
    """Keys of a database of which recovery changes the slot, each once.

    Attributes:
        key: in the order of the database's keys, or of their bytes where that is not known.
        outcome: uint8, an `Outcome`.
        lsn: int64; of the LN that the outcome speaks of.
        undone_count, redone_count: slots that went back, and that took a newer record.
    """

    key: Spans
    outcome: npt.NDArray[np.uint8]
    lsn: Ints
    undone_count: int = 0
    redone_count: int = 0

    def __len__(self) -> int:
        return len(self.lsn)


def no_overlay() -> Overlay:
    """Nothing is changed."""
    none = np.empty(0, np.int64)
    return Overlay(Spans(np.empty(0, np.uint8), none, none), np.empty(0, np.uint8), none)


class Rules(Struct, frozen=True, dict=True):
    """By what undo and redo go.

    Attributes:
        ckpt_start_lsn: from which on LNs are redone; below 0 for all.
        periods: rollbacks that count: without an end, or with one behind `ckpt_start_lsn`.
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
        """Whether a rollback takes LNs back."""
        return self._by_txn.hold(lns.txn_id, lns.lsn)

    def is_undone(self, lns: Lns) -> Mask:
        """Which LNs are of transactions without a Commit, and not taken back already.

        What a rollback has marked invisible, or takes back, is not the transaction's any more.
        """
        undone: Mask = is_open(lns.flags) & (lns.flags & (INVISIBLE | SKIPPED) == 0)
        return undone & ~self.is_rolled_back(lns)

    def takes_back_commits(self, ends: TxnEnds) -> bool:
        """Whether a rollback has a Commit of the group inside, be it marked invisible."""
        lsns = ends.lsn[ends.is_commit & (ends.txn_id < 0)]
        bounds = ((0, each.matchpoint_lsn, each.start_lsn) for each in self.periods)
        return bool(Periods.of(bounds).hold(np.zeros(len(lsns), np.int64), lsns).any())


class _Groups(Struct, frozen=True):
    """LNs brought together by key.

    Attributes:
        lns: sorted by key, those of a key in the order of the log.
        of_row: int32 (lns,); the group of each.
        first: int64 (groups + 1,).
        key: one a group.
    """

    lns: Writes
    of_row: npt.NDArray[np.int32]
    first: Ints
    key: Spans


def decide(
    tree: Tree, lns: Lns, rows: npt.NDArray[np.int32], rules: Rules, threads: int = 1
) -> tuple[Overlay, Faults]:
    """The outcome of undo and redo in one database.

    Args:
        tree: of the database.
        lns: those since the first active one, in the order of the log.
        rows: int32; which of them are of this database, ascending.
        rules: by what to go.
        threads: how many read BINs.

    Returns:
        What changes, and what was wrong with the BINs that had to be looked at.
    """
    if not len(rows):
        return no_overlay(), Faults()
    groups = _group(tree, lns, rows)
    slot_lsn, deleted, faults = _slots_of(tree, groups.key, threads)
    state = _State(slot_lsn, deleted, np.full(len(slot_lsn), -1, np.int8), slot_lsn.copy())
    undone = _undo(tree, groups, rules, state)
    redone = _redo(groups, rules, state)
    # What was sorted is let go before what comes of it is made.
    keys = groups.key
    del groups
    if len(rows) > _AT_ONCE:
        give_back_memory()
    changed = (state.outcome >= 0) & ((state.outcome > 0) | (slot_lsn != _NO_SLOT))
    chosen = np.flatnonzero(changed)
    overlay = Overlay(
        keys.take(chosen),
        state.outcome[chosen].astype(np.uint8),
        state.source[chosen],
        undone,
        redone,
    )
    return overlay, faults


class _State(Struct):
    """Each group's slot as undo and redo go on.

    Attributes:
        lsn: int64; NULL_LSN for none in the slot, _NO_SLOT for no slot.
        deleted: bool.
        outcome: int8; -1 while the slot is as the tree has it.
        source: int64; the LN that the outcome speaks of.
    """

    lsn: Ints
    deleted: Mask
    outcome: npt.NDArray[np.int8]
    source: Ints


def _group(tree: Tree, lns: Lns, rows: npt.NDArray[np.int32]) -> _Groups:
    data = tree.image.data
    keys = Spans(data, lns.key_position[rows], lns.key_size[rows].astype(np.int64))
    order, is_new = group_keys(keys, two_part=tree.by_parts)
    rows = rows[order]
    keys = keys.take(order)
    # Columns of all LNs are let go as soon as may be: they are what recovery's memory is.
    del order
    of_row = np.cumsum(is_new, dtype=np.int32)
    of_row -= 1
    starts = np.flatnonzero(is_new)
    keys = keys.take(starts)
    first = np.append(starts, len(rows))
    groups = _Groups(Writes.of(lns, rows), of_row, first, keys)
    del starts, is_new, rows
    if len(lns) > _AT_ONCE:
        give_back_memory()
    return groups


def _slots_of(tree: Tree, keys: Spans, threads: int) -> tuple[Ints, Mask, Faults]:
    """LSN and deletion of the slot of each key."""
    lsns = np.full(len(keys), _NO_SLOT, np.int64)
    deleted = np.zeros(len(keys), np.bool_)
    faults = Faults()

    def look(children: Children) -> tuple[Ints, Slots, list[Fault]]:
        slots, found = tree.slots_in_range(tree.read(children))
        at, same = match(tree, keys, slots)
        return at[same], slots.take(same), found

    for at, slots, found in ahead(look, tree.leaf_children(keys), threads):
        lsns[at], deleted[at] = slots.lsn, slots.deleted
        faults.extend(found)
    return lsns, deleted, faults


def match(tree: Tree, keys: Spans, slots: Slots) -> tuple[Ints, Mask]:
    """Where among ascending keys the key of each slot is, and whether it is there at all."""
    at = search_sorted(keys, slots.key, two_part=tree.by_parts)
    inside = np.minimum(at, max(len(keys) - 1, 0))
    if not len(keys):
        return inside, np.zeros(len(slots), np.bool_)
    return inside, equal_keys(keys.take(inside), slots.key)


def _undo(tree: Tree, groups: _Groups, rules: Rules, state: _State) -> int:
    """Take slots back that hold what was not committed."""
    rolled_back = rules.is_rolled_back(groups.lns)
    flags = groups.lns.flags
    row = np.flatnonzero((rolled_back | is_open(flags)) & (flags & SKIPPED == 0))
    row = row[state.lsn[groups.of_row[row]] == groups.lns.lsn[row]]
    if not len(row):
        return 0
    row, stays = _in_front_of_rollback(groups, row, rolled_back)
    group = groups.of_row[row].astype(np.int64)
    _take_back_to_ln(groups, group[stays], row[stays], state)
    _take_back_to_abort(tree, group[~stays], groups.lns.lsn[row[~stays]], state)
    return len(row)


def is_open(flags: npt.NDArray[np.uint8]) -> Mask:
    """Which LNs were written in transactions without a Commit."""
    open_: Mask = flags & (TRANSACTIONAL | COMMITTED) == TRANSACTIONAL
    return open_


def _in_front_of_rollback(groups: _Groups, rows: Ints, rolled_back: Mask) -> tuple[Ints, Mask]:
    """For each LN that must not stay the row where that ends, and whether the LN there stays.

    A rollback goes back in the LNs of a key and its transaction, to the last one that it does not
    take back, or to what the first has replaced. What it comes to may be of a transaction that
    has no Commit, and goes back once more, to what it has replaced itself.
    """
    found = rows.copy()
    stays = np.zeros(len(rows), np.bool_)
    lns = groups.lns
    for i in np.flatnonzero(rolled_back[rows]).tolist():
        row = int(rows[i])
        first = int(groups.first[groups.of_row[row]])
        same = first + np.flatnonzero(lns.txn_id[first : row + 1] == lns.txn_id[row])
        left = same[~rolled_back[same]]
        found[i] = left[-1] if len(left) else same[0]
        stays[i] = len(left) > 0 and not is_open(lns.flags[found[i]])
    return found, stays


def _take_back_to_ln(groups: _Groups, group: Ints, rows: Ints, state: _State) -> None:
    lns = groups.lns.take(rows)
    gone = lns.flags & DELETED != 0
    state.lsn[group], state.deleted[group] = lns.lsn, gone
    state.outcome[group] = np.where(gone, Outcome.NO_RECORD, Outcome.LN)
    state.source[group] = lns.lsn


def _take_back_to_abort(tree: Tree, group: Ints, undone: Ints, state: _State) -> None:
    """Slots go back to what LNs have replaced."""
    if not len(group):
        return
    entries = fetch(tree.image, undone, check=False)
    abort_lsn = np.full(len(group), NULL_LSN, np.int64)
    gone, blind = np.zeros(len(group), np.bool_), np.zeros(len(group), np.bool_)
    for family in (Family.LN, Family.NAME_LN, Family.DEL_DUP_LN, Family.DUP_COUNT_LN):
        rows = np.flatnonzero(entries.is_family(family))
        wanted = frozenset({"flags", "flags2", "abort_lsn"})
        for some, decoded in entries.decode(family, rows, wanted=wanted):
            head = decoded.fields
            if head.has("abort_lsn"):
                own = head.number("abort_lsn")
                abort_lsn[some] = np.where(head.is_present("abort_lsn"), own, NULL_LSN)
            if head.has("flags"):
                gone[some] = head.number("flags") & ABORT_KNOWN_DELETED != 0
            if head.has("flags2"):
                blind[some] = head.number("flags2") & BLIND_DELETION != 0
    # A blind deletion has not seen where the record is that it deletes; its own LSN stands for it.
    abort_lsn[blind] = undone[blind]
    none = abort_lsn >> 32 & 0xFFFFFFFF == 0xFFFFFFFF
    gone |= none
    state.lsn[group] = np.where(none, NULL_LSN, abort_lsn)
    state.deleted[group] = gone
    state.outcome[group] = np.where(gone, Outcome.NO_RECORD, Outcome.ABORT_VERSION)
    state.source[group] = undone


def _redo(groups: _Groups, rules: Rules, state: _State) -> int:
    """Give slots the newest record that counts."""
    n = len(state.lsn)
    return sum(
        _redo_some(groups, rules, state, first, min(first + _AT_ONCE, n))
        for first in range(0, n, _AT_ONCE)
    )


def _redo_some(groups: _Groups, rules: Rules, state: _State, first: int, last: int) -> int:
    begin, end = int(groups.first[first]), int(groups.first[last])
    lns = groups.lns.take(slice(begin, end))
    counts = lns.flags & INVISIBLE == 0
    counts &= lns.lsn >= rules.ckpt_start_lsn
    counts &= ~is_open(lns.flags)
    rows = np.where(counts, np.arange(len(lns)), -1)
    newest = np.maximum.reduceat(rows, groups.first[first:last] - begin)
    some = newest >= 0
    newest = np.maximum(newest, 0)
    lsn, gone = lns.lsn[newest], lns.flags[newest] & DELETED != 0
    own_lsn, deleted = state.lsn[first:last], state.deleted[first:last]
    empty = (own_lsn == _NO_SLOT) | (deleted & (own_lsn == NULL_LSN))
    alive = ~empty & ~deleted
    newer = lsn > own_lsn
    takes = some & ~gone & (empty | newer)
    goes = some & gone & (alive & (newer | (lsn == own_lsn)))
    state.outcome[first:last][takes] = Outcome.LN
    state.source[first:last][takes] = lsn[takes]
    state.outcome[first:last][goes] = Outcome.NO_RECORD
    state.source[first:last][goes] = lsn[goes]
    return int(np.count_nonzero(takes | goes))
