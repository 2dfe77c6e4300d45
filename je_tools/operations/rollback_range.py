"""The part of a replication stream from a sync point on, which a rollback to that point undoes.

Nodes of a group agree at sync points only: Commits, Aborts and Matchpoints.

Source: je-log.md "The VLSN index"; ReplicaFeederSyncup, LogEntryType.isSyncPoint, JE 18.3.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.core.escaping import quoted
from je_tools.errors import RefusedError, UsageError
from je_tools.formats.je.types import type_name
from je_tools.vlsn.index import SYNC_POINTS, TXN_ENDS
from je_tools.vlsn.logged_stream import EntryState, LoggedStream, collect_logged, joined_logged
from je_tools.vlsn.stored_index import mappings_of
from je_tools.vlsn.stretch import read_stretch

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints
    from je_tools.recovery.snapshot import Snapshot
    from je_tools.vlsn.index import VlsnIndex

_READ_BEFORE = 1000
"""Number of VLSNs before the wanted one that are read too, to name a sync point."""


class RollbackRange(Struct, frozen=True):
    """The part of a stream from a sync point on.

    Attributes:
        vlsn, lsn: the sync point.
        type_no: type number of its entry.
        after: the visible entries after it, in log order.
        last_vlsn: last VLSN of the stream.
    """

    vlsn: int
    lsn: int
    type_no: int
    after: LoggedStream
    last_vlsn: int

    @property
    def end_vlsns(self) -> list[int]:
        """VLSNs of the Commits and Aborts after the sync point, ascending."""
        ends: list[int] = self.after.vlsn[np.isin(self.after.type, TXN_ENDS)].tolist()
        return ends


def find_range(snapshot: Snapshot, index: VlsnIndex, to_vlsn: int) -> RollbackRange:
    """Return the part of the stream that a rollback undoes.

    Args:
        snapshot: the log, as a member of its group sees it.
        index: the VLSN index as recovery leaves it.
        to_vlsn: the last VLSN to keep.

    Raises:
        UsageError: the log does not have this VLSN, or it is not a sync point.
        StoppedError, InputError: the log cannot be read.
    """
    name, known = snapshot.environment.name, index.range
    if not known.first <= to_vlsn <= known.last:
        raise UsageError(
            f"--to {to_vlsn}: {name} has VLSNs {known.first} to {known.last}: choose one of these"
        )
    first_lsn = _floor_lsn(index, to_vlsn - _READ_BEFORE)
    parts = list(read_stretch(snapshot, first_lsn, snapshot.end.last_lsn, collect_logged))
    logged = joined_logged(parts)
    visible = _rows(logged, np.flatnonzero(logged.state == EntryState.VISIBLE))
    own = np.flatnonzero(visible.vlsn == to_vlsn)
    if not len(own):
        raise RefusedError(
            f"{name}: the log has no entry with VLSN {to_vlsn}. `je-tools vlsn check "
            f"{quoted(name)}` compares the index with the log."
        )
    row = int(own[-1])
    if int(visible.type[row]) not in SYNC_POINTS:
        raise UsageError(
            f"--to {to_vlsn}: the entry is {type_name(int(visible.type[row]))}, and nodes only "
            f"agree at a Commit, an Abort or a Matchpoint: choose {_nearest(visible, to_vlsn)}"
        )
    after = _rows(visible, np.flatnonzero(visible.vlsn > to_vlsn))
    lsn, type_no = int(visible.lsn[row]), int(visible.type[row])
    return RollbackRange(to_vlsn, lsn, type_no, after, known.last)


def _floor_lsn(index: VlsnIndex, vlsn: int) -> int:
    """Return the LSN of the newest mapping at or before a VLSN; the first mapping without one."""
    mappings = mappings_of(index.buckets).in_vlsn_order()
    row = int(np.searchsorted(mappings.vlsn, vlsn, "right")) - 1
    return int(mappings.lsn[max(row, 0)]) if len(mappings) else 0


def _rows(logged: LoggedStream, rows: Ints) -> LoggedStream:
    columns = {name: getattr(logged, name)[rows] for name in ("lsn", "vlsn", "type", "size")}
    return LoggedStream(**columns, state=logged.state[rows], rollbacks=logged.rollbacks)


def _nearest(visible: LoggedStream, vlsn: int) -> str:
    """Return the nearest sync points around a VLSN, as text."""
    points = visible.vlsn[np.isin(visible.type, SYNC_POINTS)]
    below, above = points[points < vlsn], points[points > vlsn]
    near = [*map(str, below[-1:].tolist()), *map(str, above[:1].tolist())]
    return " or ".join(near) or "another VLSN"
