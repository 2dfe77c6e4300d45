"""Changes to the slots of a tree: by undo and redo, and by what a checkpoint has written.

Source: RecoveryManager.redo, abortUndo, BIN.insertEntry, JE 7.5.11 and 18.3.12.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from je_tools.formats.je.btree.keysort import equal_keys, group_keys, order_keys, search_sorted
from je_tools.formats.je.btree.slots import Slots
from je_tools.formats.je.expirations import expiration_ms
from je_tools.formats.je.flags import LnFlag, LnFlag2, SlotState
from je_tools.formats.je.header import NULL_LSN
from je_tools.formats.je.log.fetch import Entries, fetch
from je_tools.formats.je.types import Family
from je_tools.formats.spans import Spans, joined_spans
from je_tools.recovery.interval_tables import DELETED, INVISIBLE
from je_tools.recovery.outcomes import KeyOutcome, Overlay, is_open
from je_tools.recovery.record_values import ABORT_FIELDS

if TYPE_CHECKING:
    from je_tools.btree.tree import Tree
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.je.write.transactions import WrittenEntry
    from je_tools.recovery.snapshot import Snapshot


_FAMILIES = (Family.LN, Family.NAME_LN)

_LN_FIELDS = frozenset({"flags", "flags2", "expiration", "modified_ms", "created_ms", "data"})


class SlotChanges(Struct, frozen=True):
    """Keys of a database whose slots change, each once.

    Attributes:
        key: in the key order of the database.
        outcome: uint8; a `KeyOutcome`.
        lsn: int64; LSN of an LN, as in `Overlay`.
        size: int64; size of that LN if this checkpoint has written it, 0 if the log has it.
        is_pending: bool; deleted by a transaction that stays open. The key keeps a slot until the
            transaction ends.
    """

    key: Spans
    outcome: npt.NDArray[np.uint8]
    lsn: Ints
    size: Ints
    is_pending: Mask

    def __len__(self) -> int:
        return len(self.lsn)

    @classmethod
    def of_overlay(cls, overlay: Overlay) -> SlotChanges:
        """Build the changes of undo and redo."""
        # The overlay may be large; a broadcast constant takes no memory.
        size = np.broadcast_to(np.int64(0), len(overlay))
        return cls(
            overlay.key,
            overlay.outcome,
            overlay.lsn,
            size,
            np.broadcast_to(np.bool_(False), len(overlay)),
        )

    @classmethod
    def of(cls, snapshot: Snapshot, tree: Tree) -> SlotChanges:
        """Build the changes that recovery makes in a database, with pending deletions."""
        changes = cls.of_overlay(snapshot.overlay(tree.db_id))
        if not snapshot.kept_txns:
            return changes
        key, lsn = _pending(snapshot, tree)
        return changes.with_pending(key, lsn, tree)

    @property
    def has_slot(self) -> Mask:
        """Mask of the keys that have a slot."""
        there: Mask = (self.outcome != KeyOutcome.NO_RECORD) | self.is_pending
        return there

    def with_pending(self, key: Spans, lsn: Ints, tree: Tree) -> SlotChanges:
        """Add deletions by transactions that stay open.

        Args:
            key: deleted keys, each once, in the key order of the database.
            lsn: int64; LSN of the LN that deletes each.
            tree: tree of the database.
        """
        if not len(key):
            return self
        at = search_sorted(key, self.key, two_part=tree.by_parts)
        at = np.minimum(at, len(key) - 1)
        same = equal_keys(key.select(at), self.key)
        both = joined_spans([self.key.select(~same), key])
        order = order_keys(both, two_part=tree.by_parts)
        n = len(key)
        gone = np.full(n, KeyOutcome.NO_RECORD, np.uint8)
        return SlotChanges(
            both.select(order),
            np.append(self.outcome[~same], gone)[order],
            np.append(self.lsn[~same], lsn)[order],
            np.append(self.size[~same], np.zeros(n, np.int64))[order],
            np.append(self.is_pending[~same], np.ones(n, np.bool_))[order],
        )

    def with_written(self, written: Mapping[bytes, WrittenEntry | None]) -> SlotChanges:
        """Add records of an internal database that the checkpoint has written or removed (None)."""
        if not written:
            return self
        keys = list(written)
        stale = {row for row in range(len(self)) if (self.key[row] or b"") in written}
        remaining = np.array([row for row in range(len(self)) if row not in stale], np.int64)
        new = [written[key] for key in keys]
        outcome = [KeyOutcome.NO_RECORD if each is None else KeyOutcome.LN for each in new]
        key = joined_spans([self.key.select(remaining), Spans.of(keys)])
        order = order_keys(key, two_part=False)
        lsn = np.array([each.lsn if each else NULL_LSN for each in new], np.int64)
        size = np.array([each.size if each else 0 for each in new], np.int64)
        return SlotChanges(
            key.select(order),
            np.append(self.outcome[remaining], np.array(outcome, np.uint8))[order],
            np.append(self.lsn[remaining], lsn)[order],
            np.append(self.size[remaining], size)[order],
            np.append(self.is_pending[remaining], np.zeros(len(keys), np.bool_))[order],
        )

    def slots(self, tree: Tree, rows: Ints) -> Slots:
        """Return the slots of some changes.

        Args:
            tree: tree of the database.
            rows: int64; rows of the changes, each of which must have a slot.
        """
        slots = Slots.of_keys(self.key.select(rows))
        slots.lsn[:] = self.lsn[rows]
        slots.logged_size[:] = self.size[rows]
        back = np.flatnonzero(self.outcome[rows] == KeyOutcome.ABORT_VERSION)
        _fill_abort_versions(tree, back, slots)
        logged = np.flatnonzero(self.size[rows] == 0)
        entries = fetch(tree.image, slots.lsn[logged])
        # If the LN of an abort version is gone, the copy in the LN that replaced it stays.
        good = np.flatnonzero(entries.good)
        _fill_from_lns(tree, entries.select(good), logged[good], slots)
        slots.state[self.is_pending[rows]] |= SlotState.PENDING_DELETED
        return slots


def _pending(snapshot: Snapshot, tree: Tree) -> tuple[Spans, Ints]:
    """Return the keys deleted by transactions that stay open, and the LSN of each deletion."""
    lns = snapshot.interval.lns.select(snapshot.ln_rows(tree.db_id))
    keys = Spans(tree.image.data, lns.key_position, lns.key_size.astype(np.int64))
    order, is_new = group_keys(keys, two_part=tree.by_parts)
    lns = lns.select(order)
    counts = (lns.flags & INVISIBLE == 0) & ~is_open(lns.flags)
    rows = np.where(counts, np.arange(len(lns)), -1)
    first = np.flatnonzero(is_new)
    newest = np.maximum.reduceat(rows, first) if len(first) else rows
    newest = newest[newest >= 0]
    gone = lns.flags[newest] & DELETED != 0
    newest = newest[gone & np.isin(lns.txn_id[newest], list(snapshot.kept_txns))]
    return keys.select(order[newest]), lns.lsn[newest]


def _fill_from_lns(tree: Tree, entries: Entries, rows: Ints, slots: Slots) -> None:
    """Fill slots from their LNs."""
    slots.logged_size[rows] = entries.size
    slots.state[rows], slots.data_size[rows] = 0, -1
    for column in (slots.vlsn, slots.expires_ms, slots.created_ms, slots.modified_ms):
        column[rows] = 0
    for family in _FAMILIES:
        wanted = np.flatnonzero(entries.is_family(family))
        for some, decoded in entries.decode(family, wanted, wanted=_LN_FIELDS):
            head, to = decoded.fields, rows[some]
            flags, flags2 = head.known("flags"), head.known("flags2")
            start, size = head.span("data")
            embedded = flags & LnFlag.EMBEDDED != 0
            state = np.where(embedded, SlotState.EMBEDDED, 0)
            state |= np.where(embedded & (size <= 0), SlotState.NO_DATA, 0)
            state |= np.where(flags2 & LnFlag2.TOMBSTONE != 0, SlotState.TOMBSTONE, 0)
            slots.state[to] = state
            slots.data_start[to] = start
            slots.data_size[to] = np.where(embedded, np.maximum(size, 0), -1)
            slots.vlsn[to] = np.where(embedded, np.maximum(entries.vlsn[some], 0), 0)
            slots.expires_ms[to] = expiration_ms(head.known("expiration"))
            slots.modified_ms[to] = head.known("modified_ms")
            slots.created_ms[to] = head.known("created_ms")


def _fill_abort_versions(tree: Tree, rows: Ints, slots: Slots) -> None:
    """Fill slots with the replaced versions that undone LNs hold."""
    entries = fetch(tree.image, slots.lsn[rows])
    for family in _FAMILIES:
        wanted = np.flatnonzero(entries.is_family(family))
        for some, decoded in entries.decode(family, wanted, wanted=ABORT_FIELDS):
            head, to = decoded.fields, rows[some]
            slots.lsn[to] = head.number("abort_lsn")
            if head.has("abort_data"):
                start, size = head.span("abort_data")
                has_data = head.is_present("abort_data")
                slots.data_start[to] = np.where(has_data, start, 0)
                slots.data_size[to] = np.where(has_data, np.maximum(size, 0), -1)
                state = np.where(has_data, SlotState.EMBEDDED, 0)
                state |= np.where(has_data & (size <= 0), SlotState.NO_DATA, 0)
                slots.state[to] = state
            slots.state[to] |= np.where(
                head.known("flags2") & LnFlag2.ABORT_TOMBSTONE != 0, SlotState.TOMBSTONE, 0
            )
            slots.vlsn[to] = np.maximum(head.known("abort_vlsn"), 0)
            slots.expires_ms[to] = expiration_ms(head.known("abort_expiration"))
            slots.modified_ms[to] = head.known("abort_modified_ms")
            slots.created_ms[to] = head.known("abort_created_ms")
