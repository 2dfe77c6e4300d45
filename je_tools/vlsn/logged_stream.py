"""The replication stream in columns: every replicated entry of a log, and its state.

Entries that a rollback undid stay in the log. Usually they are marked invisible.

Source: LNFileReader, RollbackTracker, JE 18.3.12 and 25.3.17.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from je_tools.formats.je.flags import HeaderFlag
from je_tools.formats.je.log.entry_rows import WantedEntries
from je_tools.vlsn.node_rollbacks import (
    ROLLBACK_TYPES,
    LoggedRollback,
    NodeRollback,
    bounds_of,
    is_left,
    joined_rollbacks,
    logged_rollbacks,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from je_tools.formats.arrays import Ints
    from je_tools.formats.je.log.entry_rows import Rows
    from je_tools.log.environment import Environment
    from je_tools.log.file_scan import FileState
    from je_tools.log.scan import Scanner


class EntryState(IntEnum):
    """State of an entry of the stream."""

    VISIBLE = 0
    """It is part of the stream."""
    INVISIBLE = 1
    """A rollback has marked it."""
    ROLLED_BACK = 2
    """A rollback undid it without marking it."""
    REPEATED = 3
    """A later visible entry has the same VLSN, and no rollback explains it."""

    @property
    def label(self) -> str:
        """The name of the state in outputs."""
        return self.name.lower().replace("_", "-")


class StreamEnd(Struct, frozen=True):
    """The last VLSNs of a stream; None where there is none, or it is not known.

    Attributes:
        last_vlsn: last VLSN.
        last_sync, last_txn_end: VLSNs of the last sync point, and of the last Commit or Abort, that
            an index covers.
    """

    last_vlsn: int | None
    last_sync: int | None
    last_txn_end: int | None


class LoggedStream(Struct, frozen=True):
    """Entries of the stream in log order, and rollbacks.

    Attributes:
        lsn, vlsn: int64.
        type: uint8.
        size: int32; bytes of the whole entry.
        state: uint8; values of `EntryState`.
        rollbacks: rollbacks whose RollbackStart was read, in log order.
    """

    lsn: Ints
    vlsn: Ints
    type: npt.NDArray[np.uint8]
    size: npt.NDArray[np.int32]
    state: npt.NDArray[np.uint8]
    rollbacks: list[NodeRollback]

    def __len__(self) -> int:
        return len(self.lsn)

    def up_to(self, next_lsn: int) -> LoggedStream:
        """Return the stream without the entries from an LSN on, such as the end of the log."""
        count = int(np.searchsorted(self.lsn, next_lsn))
        if count == len(self):
            return self
        kept = slice(0, count)
        return LoggedStream(
            self.lsn[kept],
            self.vlsn[kept],
            self.type[kept],
            self.size[kept],
            self.state[kept],
            [each for each in self.rollbacks if each.start_lsn < next_lsn],
        )

    def in_vlsn_order(self, *, with_rolled_back: bool) -> Ints:
        """Return the rows in VLSN order; rows with the same VLSN are in log order.

        Args:
            with_rolled_back: include the entries that are not visible.
        """
        rows = np.arange(len(self)) if with_rolled_back else np.flatnonzero(self.state == 0)
        return rows[np.argsort(self.vlsn[rows], kind="stable")]


class LoggedRows(Struct, frozen=True):
    """Entries of the stream in some rows, in log order; columns as in `LoggedStream`.

    Attributes:
        is_invisible: bool.
        rollbacks: RollbackStarts and RollbackEnds.
    """

    lsn: Ints
    vlsn: Ints
    type: npt.NDArray[np.uint8]
    size: npt.NDArray[np.int32]
    is_invisible: npt.NDArray[np.bool_]
    rollbacks: list[LoggedRollback]


STREAM_ENTRIES = WantedEntries(ROLLBACK_TYPES, HeaderFlag.REPLICATED)
"""Entries that `collect_logged` needs."""


def collect_logged(rows: Rows) -> LoggedRows:
    """Select the good entries of the stream; work for a scan."""
    own = np.flatnonzero(rows.replicated & rows.good & (rows.vlsn > 0))
    some = rows.select(own)
    size = some.size.astype(np.int32)
    return LoggedRows(some.lsn, some.vlsn, some.type, size, some.invisible, logged_rollbacks(rows))


def joined_logged(parts: Sequence[LoggedRows]) -> LoggedStream:
    """Join the parts of a stretch of a log, in log order."""
    nothing = np.empty(0, np.int64)
    lsn = np.concatenate([nothing, *(part.lsn for part in parts)])
    vlsn = np.concatenate([nothing, *(part.vlsn for part in parts)])
    types = np.concatenate([np.empty(0, np.uint8), *(part.type for part in parts)])
    size = np.concatenate([np.empty(0, np.int32), *(part.size for part in parts)])
    hidden = np.concatenate([np.empty(0, np.bool_), *(part.is_invisible for part in parts)])
    rollbacks = joined_rollbacks([each for part in parts for each in part.rollbacks])
    state = np.full(len(lsn), EntryState.VISIBLE, np.uint8)
    if rollbacks:
        state[~is_left(lsn, vlsn, bounds_of(rollbacks))] = EntryState.ROLLED_BACK
    state[hidden] = EntryState.INVISIBLE
    _mark_repeated(vlsn, state)
    return LoggedStream(lsn, vlsn, types, size, state, rollbacks)


def _mark_repeated(vlsns: Ints, state: npt.NDArray[np.uint8]) -> None:
    """Mark visible entries with the VLSN of a later one."""
    if bool((vlsns[1:] > vlsns[:-1]).all()):
        return
    visible = np.flatnonzero(state == EntryState.VISIBLE)
    own = vlsns[visible]
    if not len(own) or bool((own[1:] > own[:-1]).all()):
        return
    order = np.argsort(own, kind="stable")
    again = own[order][1:] == own[order][:-1]
    state[visible[order[:-1][again]]] = EntryState.REPEATED


def read_logged(
    environment: Environment,
    scanner: Scanner,
    on_file: Callable[[FileState], None] | None = None,
) -> LoggedStream:
    """Read the whole replication stream of a log: 22 bytes of memory an entry.

    Args:
        environment: the log.
        scanner: options of the scan.
        on_file: called with the state of each file that has been read.

    Raises:
        StoppedError: a file shrank, vanished or was replaced meanwhile.
        InputError: a file cannot be read.
    """
    found: list[LoggedRows] = []
    scanner = replace(scanner, wide=True, asked=lambda _: STREAM_ENTRIES)
    for part in scanner.scan(environment, collect_logged):
        found += part.results
        if part.end is not None and on_file is not None:
            on_file(part.end)
    return joined_logged(found)
