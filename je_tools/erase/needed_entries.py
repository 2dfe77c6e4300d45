"""Needed entries: the entries that trees name, as a bitmap over the bytes of the log.

Source: je-log.md "Data eraser"; DataEraser.eraseEntry and IN.fetchLN, JE 25.3.17.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from je_tools.btree.children import BINS_AT_ONCE
from je_tools.formats.je.header import NULL_LSN
from je_tools.recovery.live_entries import live_part, lns_of_changes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from je_tools.btree.children import Children, LoadedNodes
    from je_tools.btree.fault_kinds import Fault
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.recovery.database import Database
    from je_tools.recovery.snapshot import Snapshot

_UNIT = 3
"""A bit stands for 2 ** _UNIT bytes. An entry has a header of 14 bytes or more, so no two begin in
the same unit; the bitmap has one byte for every 64 bytes of the log."""

DUPLICATES_UNREAD_SINCE = 15
"""First log version whose engine never reads the LN of a record in a database with duplicates.

JE 5.0.73 (version 8) reads the key of the slot from it, even for a slot that is pending deleted,
and logs that key in its next delta. JE 7.5.11 and later were tested.
"""


class NeededEntries:
    """A set of entries of a log.

    Attributes:
        count: number of entries that were added.
    """

    def __init__(self, sizes: dict[int, int]) -> None:
        """Begin without an entry.

        Args:
            sizes: size in bytes of each file, by number.
        """
        self.count = 0
        self._file_nos = np.array(sorted(sizes), np.int64)
        units = [(sizes[no] >> _UNIT) + 1 for no in self._file_nos.tolist()]
        self._base = np.concatenate(([0], np.cumsum(units, dtype=np.int64)))
        self._bits = np.zeros((int(self._base[-1]) >> 3) + 1, np.uint8)

    def add(self, lsns: Ints) -> None:
        """Add the entries at int64 LSNs; those in other files are ignored."""
        self.count += len(lsns)
        if not len(self._file_nos):
            return
        file_nos, offsets = lsns >> 32 & 0xFFFFFFFF, lsns & 0xFFFFFFFF
        at = np.minimum(np.searchsorted(self._file_nos, file_nos), len(self._file_nos) - 1)
        unit = self._base[at] + (offsets >> _UNIT)
        inside = (self._file_nos[at] == file_nos) & (unit < self._base[at + 1])
        unit = unit[inside]
        np.bitwise_or.at(self._bits, unit >> 3, (1 << (unit & 7)).astype(np.uint8))

    def contains(self, file_no: int, offsets: npt.NDArray[np.uint32]) -> Mask:
        """Return a bool mask of the entries of one file that are in the set.

        An offset less than 8 bytes from that of an entry in the set counts as that entry.
        """
        at = int(np.searchsorted(self._file_nos, file_no))
        if at == len(self._file_nos) or self._file_nos[at] != file_no:
            return np.zeros(len(offsets), np.bool_)
        unit = self._base[at] + (offsets.astype(np.int64) >> _UNIT)
        found: Mask = (self._bits[unit >> 3] >> (unit & 7).astype(np.uint8) & 1).astype(np.bool_)
        return found


def needed_entries(snapshot: Snapshot) -> NeededEntries:
    """Return the entries that the trees of all databases name, even of databases without a name.

    These are the nodes, the full versions that deltas need, and the LNs whose data is not in a
    slot, expired ones included. Faults of trees are added to `snapshot.faults`. If they include
    damage, the set is not complete.

    Raises:
        StoppedError: a file became shorter, or its device failed.
    """
    needed = NeededEntries({file.file_no: file.size for file in snapshot.environment.files})
    for database in list(snapshot.databases.values()):
        if database.root_lsn != NULL_LSN:
            for lsns in _named_by(snapshot, database):
                needed.add(lsns)
    return needed


def _named_by(snapshot: Snapshot, database: Database) -> Iterator[Ints]:
    """Yield the LSNs that a tree names; add its faults to `snapshot.faults`.

    The slots of a BIN count even if their keys are outside of its range: the engine's verification
    of a tree reads their records.
    """
    reader = snapshot.record_reader(database, with_data=False, show_expired=True)
    tree = reader.tree
    with_duplicates = snapshot.end.files[-1].version < DUPLICATES_UNREAD_SINCE
    uppers: list[Ints] = []

    def collect(children: Children) -> tuple[Ints, list[Fault]]:
        loaded = tree.read(children)
        _, _, changes, faults = reader.slots_and_changes(loaded)
        slots = loaded.nodes.slots
        outside = (slots.data_size < 0) & (slots.lsn != NULL_LSN)
        if not tree.two_part:
            outside &= ~slots.deleted
        elif not with_duplicates:
            outside[:] = False
        changed = lns_of_changes(reader, changes, with_duplicates=with_duplicates)
        return np.concatenate((slots.lsn[outside], changed, _nodes(loaded))), faults

    children = tree.unread_bins(
        seen=lambda loaded: uppers.append(_nodes(loaded)), at_once=BINS_AT_ONCE
    )
    for lsns, faults in snapshot.in_order(children, collect):
        yield lsns
        snapshot.faults.extend(faults)
    yield from uppers
    if reader.has_unplaced:
        left = reader.unplaced_changes()
        yield lns_of_changes(reader, left, with_duplicates=with_duplicates)
    snapshot.faults.extend(tree.faults)


def _nodes(loaded: LoadedNodes) -> Ints:
    part = live_part(_NONE, _NONE, loaded)
    return np.concatenate((part.nodes, part.bases, part.deltas))


_NONE = np.empty(0, np.int64)
