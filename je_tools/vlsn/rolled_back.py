"""Rolled-back entries: those between the matchpoint of a rollback and its RollbackStart.

Source: RollbackTracker.checkCommit and RollbackPeriod, JE 18.3.12.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.formats.je.log.fetch import fetch
from je_tools.formats.je.types import COMMIT_NO
from je_tools.vlsn.logged_stream import LoggedRows, collect_logged
from je_tools.vlsn.node_rollbacks import NodeRollback, bounds_of, is_left
from je_tools.vlsn.stretch import read_stretch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from je_tools.formats.arrays import Mask
    from je_tools.recovery.snapshot import Snapshot


class EntriesInside(Struct):
    """Entries inside a rollback.

    Attributes:
        count: number of them.
        first_lsn, first_vlsn, last_vlsn: the first and the last of them; 0 without one.
    """

    count: int = 0
    first_lsn: int = 0
    first_vlsn: int = 0
    last_vlsn: int = 0

    def add(self, rows: LoggedRows, wanted: Mask) -> None:
        """Add some of the next rows."""
        index = np.flatnonzero(wanted)
        if not len(index):
            return
        if not self.count:
            self.first_lsn, self.first_vlsn = int(rows.lsn[index[0]]), int(rows.vlsn[index[0]])
        self.count += len(index)
        self.last_vlsn = int(rows.vlsn[index[-1]])


class RolledBackEntries(Struct):
    """Entries of the stream inside a rollback.

    Attributes:
        commits: Commits, which no rollback may undo.
        unmarked: entries that a rollback undoes and that are not marked invisible.
    """

    commits: EntriesInside
    unmarked: EntriesInside


def read_rolled_back(
    snapshot: Snapshot, rollbacks: Sequence[NodeRollback]
) -> list[RolledBackEntries]:
    """Read the entries inside each rollback; read each part of the log once.

    Args:
        snapshot: the log.
        rollbacks: all of its rollbacks, in log order.

    Raises:
        StoppedError: a file shrank, vanished or was replaced meanwhile.
        InputError: a file cannot be read.
    """
    found = [RolledBackEntries(EntriesInside(), EntriesInside()) for _ in rollbacks]
    bounds = bounds_of(rollbacks)
    for first_lsn, last_lsn, own_places in _stretches(snapshot, rollbacks):
        for rows in read_stretch(snapshot, first_lsn, last_lsn, collect_logged):
            if not len(rows.lsn):
                continue
            unmarked = ~rows.is_invisible & ~is_left(rows.lsn, rows.vlsn, bounds)
            commits = rows.type == COMMIT_NO
            for place in own_places:
                each, inside = rollbacks[place], found[place]
                if each.matchpoint_lsn < rows.lsn[-1] and rows.lsn[0] < each.start_lsn:
                    own = (rows.lsn > each.matchpoint_lsn) & (rows.lsn < each.start_lsn)
                    inside.commits.add(rows, own & commits)
                    inside.unmarked.add(rows, own & unmarked)
    return found


def _stretches(
    snapshot: Snapshot, rollbacks: Sequence[NodeRollback]
) -> Iterator[tuple[int, int, list[int]]]:
    """Yield first LSN, last LSN and rollbacks of each disjoint stretch that rollbacks cover."""
    starts = [_entry_at(snapshot, each.matchpoint_lsn) for each in rollbacks]
    first, last, places = -1, -1, list[int]()
    for place in sorted(range(len(rollbacks)), key=lambda place: starts[place]):
        if starts[place] > last:
            if places:
                yield first, last, places
            first, last, places = starts[place], rollbacks[place].start_lsn, []
        last = max(last, rollbacks[place].start_lsn)
        places.append(place)
    if places:
        yield first, last, places


def _entry_at(snapshot: Snapshot, lsn: int) -> int:
    """Return the LSN of an entry; the start of its file if none is there."""
    entries = fetch(snapshot.image, np.array([lsn], np.int64))
    return lsn if bool(entries.good[0]) else lsn >> 32 << 32
