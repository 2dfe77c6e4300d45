"""Undo and redo of the keys written since the last checkpoint, decided for all keys at once.

The engine undoes and redoes entry by entry. Each step reads and writes only the slot of its own
key, so the outcome of a key follows from its slot, the LN to which the slot points, and the newest
LN that counts. One sort groups the LNs by key.

Source: RecoveryManager.undoLNs, redoLNs, abortUndo, redo, JE 7.5.11 and 18.3.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from je_tools.btree.faults import Faults
from je_tools.core.memory import give_back_memory
from je_tools.core.ordered import map_in_order
from je_tools.formats.je.btree.keysort import group_keys
from je_tools.formats.je.flags import LnFlag, LnFlag2
from je_tools.formats.je.header import NULL_LSN
from je_tools.formats.je.log.fetch import fetch
from je_tools.formats.je.types import Family
from je_tools.formats.spans import Spans
from je_tools.recovery.interval_tables import (
    DELETED,
    INVISIBLE,
    SKIPPED,
    Lns,
    Writes,
)
from je_tools.recovery.outcomes import KeyOutcome, Overlay, is_open, no_overlay
from je_tools.recovery.slot_matching import match_slots

if TYPE_CHECKING:
    from je_tools.btree.children import Children
    from je_tools.btree.fault_kinds import Fault
    from je_tools.btree.tree import Tree
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.je.btree.slots import Slots
    from je_tools.recovery.replay_rules import ReplayRules


_NO_SLOT = -2

_AT_ONCE = 1 << 16
"""Number of keys or LNs processed together, so that temporary arrays stay small."""


class _Groups(Struct, frozen=True):
    """LNs grouped by key.

    Attributes:
        lns: sorted by key; those of one key are in log order.
        of_row: int32 (lns,); group of each LN.
        first: int64 (groups + 1,); LNs of group i are [first[i], first[i + 1]).
        key: key of each group.
    """

    lns: Writes
    of_row: npt.NDArray[np.int32]
    first: Ints
    key: Spans


def decide_outcomes(
    tree: Tree, lns: Lns, rows: npt.NDArray[np.int32], rules: ReplayRules, threads: int = 1
) -> tuple[Overlay, Faults]:
    """Decide the outcome of undo and redo in one database.

    Args:
        tree: tree of the database.
        lns: LNs since the first active one, in log order.
        rows: int32; rows of `lns` that belong to this database, ascending.
        rules: rules of undo and redo.
        threads: number of threads that read BINs.

    Returns:
        The keys that change, and the faults of the BINs that were read.
    """
    if not len(rows):
        return no_overlay(), Faults()
    groups = _group(tree, lns, rows)
    slot_lsn, deleted, faults = _slots_of(tree, groups.key, threads)
    state = _KeyState(slot_lsn, deleted, np.full(len(slot_lsn), -1, np.int8), slot_lsn.copy())
    undone = _undo(tree, groups, rules, state)
    redone = _redo(groups, rules, state)
    # Free the sorted LNs before building the result.
    keys = groups.key
    del groups
    if len(rows) > _AT_ONCE:
        give_back_memory()
    changed = (state.outcome >= 0) & ((state.outcome > 0) | (slot_lsn != _NO_SLOT))
    chosen = np.flatnonzero(changed)
    overlay = Overlay(
        keys.select(chosen),
        state.outcome[chosen].astype(np.uint8),
        state.source[chosen],
        undone,
        redone,
    )
    return overlay, faults


class _KeyState(Struct):
    """The slot of each group during undo and redo.

    Attributes:
        lsn: int64; LSN in the slot, NULL_LSN if it has none, _NO_SLOT if there is no slot.
        deleted: bool.
        outcome: int8; a `KeyOutcome`, -1 while the slot is as in the tree.
        source: int64; LSN of the LN to which the outcome refers.
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
    keys = keys.select(order)
    # Free columns of all LNs as early as possible: they are most of the memory of recovery.
    del order
    of_row = np.cumsum(is_new, dtype=np.int32)
    of_row -= 1
    starts = np.flatnonzero(is_new)
    keys = keys.select(starts)
    first = np.append(starts, len(rows))
    groups = _Groups(Writes.of(lns, rows), of_row, first, keys)
    del starts, is_new, rows
    if len(lns) > _AT_ONCE:
        give_back_memory()
    return groups


def _slots_of(tree: Tree, keys: Spans, threads: int) -> tuple[Ints, Mask, Faults]:
    """Return the LSN of the slot of each key, a mask of deleted slots, and the faults found."""
    lsns = np.full(len(keys), _NO_SLOT, np.int64)
    deleted = np.zeros(len(keys), np.bool_)
    faults = Faults()

    def read_slots(children: Children) -> tuple[Ints, Slots, list[Fault]]:
        slots, found = tree.slots_in_range(tree.read(children))
        at, same = match_slots(tree, keys, slots)
        return at[same], slots.select(same), found

    for at, slots, found in map_in_order(read_slots, tree.unread_bins(keys), threads):
        lsns[at], deleted[at] = slots.lsn, slots.deleted
        faults.extend(found)
    return lsns, deleted, faults


def _undo(tree: Tree, groups: _Groups, rules: ReplayRules, state: _KeyState) -> int:
    """Revert slots that hold uncommitted or rolled back LNs; return the number of slots."""
    rolled_back = rules.is_rolled_back(groups.lns)
    flags = groups.lns.flags
    row = np.flatnonzero((rolled_back | is_open(flags)) & (flags & SKIPPED == 0))
    row = row[state.lsn[groups.of_row[row]] == groups.lns.lsn[row]]
    if not len(row):
        return 0
    row, stays = _before_rollback(groups, row, rolled_back)
    group = groups.of_row[row].astype(np.int64)
    _revert_to_ln(groups, group[stays], row[stays], state)
    _revert_to_abort_version(tree, group[~stays], groups.lns.lsn[row[~stays]], state)
    return len(row)


def _before_rollback(groups: _Groups, rows: Ints, rolled_back: Mask) -> tuple[Ints, Mask]:
    """Follow rollbacks back to the LN at which the undo of each row ends.

    A rollback reverts a key to the last LN of the same transaction that it does not undo. If
    there is none, it reverts to the version that the first LN of the transaction replaced. If the
    transaction of the LN that is reached has no Commit, that LN is undone too.

    Returns:
        The rows of these LNs, and a mask of those whose LN stays. For the others, the slot gets the
        version that the LN replaced.
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


def _revert_to_ln(groups: _Groups, group: Ints, rows: Ints, state: _KeyState) -> None:
    lns = groups.lns.select(rows)
    gone = lns.flags & DELETED != 0
    state.lsn[group], state.deleted[group] = lns.lsn, gone
    state.outcome[group] = np.where(gone, KeyOutcome.NO_RECORD, KeyOutcome.LN)
    state.source[group] = lns.lsn


def _revert_to_abort_version(tree: Tree, group: Ints, undone: Ints, state: _KeyState) -> None:
    """Revert slots to the versions that undone LNs replaced."""
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
                gone[some] = head.number("flags") & LnFlag.ABORT_KNOWN_DELETED != 0
            if head.has("flags2"):
                blind[some] = head.number("flags2") & LnFlag2.BLIND_DELETION != 0
    # A blind deletion does not know the LSN of the record that it deletes: its own LSN stays.
    abort_lsn[blind] = undone[blind]
    none = abort_lsn >> 32 & 0xFFFFFFFF == 0xFFFFFFFF
    gone |= none
    state.lsn[group] = np.where(none, NULL_LSN, abort_lsn)
    state.deleted[group] = gone
    state.outcome[group] = np.where(gone, KeyOutcome.NO_RECORD, KeyOutcome.ABORT_VERSION)
    state.source[group] = undone


def _redo(groups: _Groups, rules: ReplayRules, state: _KeyState) -> int:
    """Apply the newest LN that counts to each slot; return the number of slots changed."""
    n = len(state.lsn)
    return sum(
        _redo_some(groups, rules, state, first, min(first + _AT_ONCE, n))
        for first in range(0, n, _AT_ONCE)
    )


def _redo_some(groups: _Groups, rules: ReplayRules, state: _KeyState, first: int, last: int) -> int:
    begin, end = int(groups.first[first]), int(groups.first[last])
    lns = groups.lns.select(slice(begin, end))
    counts = lns.flags & INVISIBLE == 0
    counts &= lns.lsn >= rules.ckpt_start_lsn
    counts &= ~is_open(lns.flags)
    rows = np.where(counts, np.arange(len(lns)), -1)
    newest = np.maximum.reduceat(rows, groups.first[first:last] - begin)
    some = newest >= 0
    newest = np.maximum(newest, 0)
    lsn, gone = lns.lsn[newest], lns.flags[newest] & DELETED != 0
    own_lsn, was_deleted = state.lsn[first:last], state.deleted[first:last]
    empty = (own_lsn == _NO_SLOT) | (was_deleted & (own_lsn == NULL_LSN))
    alive = ~empty & ~was_deleted
    newer = lsn > own_lsn
    written = some & ~gone & (empty | newer)
    deleted = some & gone & (alive & (newer | (lsn == own_lsn)))
    state.outcome[first:last][written] = KeyOutcome.LN
    state.source[first:last][written] = lsn[written]
    state.outcome[first:last][deleted] = KeyOutcome.NO_RECORD
    state.source[first:last][deleted] = lsn[deleted]
    return int(np.count_nonzero(written | deleted))
