"""The part of a replication stream that a VLSN index can cover, read from the whole log.

It has every VLSN once, in order. It begins after the last reset of the group by the engine's tool,
and after VLSNs whose files are gone.

Source: VLSNIndex.truncateFromHead, DbResetRepGroup, JE 18.3.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from je_tools.errors import RefusedError
from je_tools.formats.je.flags import HeaderFlag
from je_tools.formats.je.header import lsn_text
from je_tools.formats.je.log.entry_rows import WantedEntries
from je_tools.formats.je.types import CKPT_START_NO, mask_of
from je_tools.vlsn.logged_stream import (
    EntryState,
    LoggedRows,
    LoggedStream,
    collect_logged,
    joined_logged,
)
from je_tools.vlsn.node_rollbacks import ROLLBACK_TYPES
from je_tools.vlsn.stream import ReplicationStream
from je_tools.vlsn.stream_summary import NewestEnds, StreamSummary, SummaryBuilder

if TYPE_CHECKING:
    from je_tools.formats.je.log.entry_rows import Rows
    from je_tools.log.scan import Scanner
    from je_tools.recovery.snapshot import Snapshot
    from je_tools.vlsn.stream_probe import StreamProbe

RESET_INVOKER = "Reinit of RepGroup"
"""Invoker of the checkpoint with which DbResetRepGroup begins."""

_WANTED = WantedEntries(ROLLBACK_TYPES | mask_of((CKPT_START_NO,)), HeaderFlag.REPLICATED)


class WholeStream(Struct, frozen=True):
    """The replication stream of a log.

    Attributes:
        logged: all its entries.
        reset_lsn: LSN at which the last reset of the group by DbResetRepGroup begins; -1 if there
            was none.
    """

    logged: LoggedStream
    reset_lsn: int


def summarize_stream(
    snapshot: Snapshot, probe: StreamProbe, newest_ends: NewestEnds
) -> StreamSummary:
    """Read the whole log of a node, and return a summary of its stream.

    Args:
        snapshot: the log.
        probe: looks up the mappings of an index.
        newest_ends: as `TailReader.newest_ends`.

    Raises:
        StoppedError: a file shrank, vanished or was replaced meanwhile.
        InputError: a file cannot be read.
    """
    builder = SummaryBuilder(probe)
    for part in _scanner(snapshot).scan(snapshot.environment, probe):
        builder.add(part.results)
    return builder.finish(newest_ends)


def read_whole_stream(snapshot: Snapshot) -> WholeStream:
    """Read the whole log of a node: 22 bytes of memory for each entry of the stream.

    Raises:
        StoppedError: a file shrank, vanished or was replaced meanwhile.
        InputError: a file cannot be read.
    """
    logged: list[LoggedRows] = []
    resets = [-1]
    for part in _scanner(snapshot).scan(snapshot.environment, _collect):
        for rows, own in part.results:
            logged.append(rows)
            resets += own
    next_lsn = snapshot.end.next_lsn
    last = max(lsn for lsn in resets if lsn < next_lsn)
    return WholeStream(joined_logged(logged).up_to(next_lsn), last)


def _scanner(snapshot: Snapshot) -> Scanner:
    return replace(
        snapshot.scanner.staged("read the stream", snapshot.environment.size),
        wide=True,
        asked=lambda _: _WANTED,
    )


def _collect(rows: Rows) -> tuple[LoggedRows, list[int]]:
    """Return the entries of the stream, and the LSNs of resets; work for a scan."""
    return collect_logged(rows), _resets(rows)


def _resets(rows: Rows) -> list[int]:
    """Return the LSNs of the checkpoints with which DbResetRepGroup begins."""
    starts = np.flatnonzero((rows.type == CKPT_START_NO) & rows.good)
    return [
        int(rows.lsn[row])
        for row in starts.tolist()
        if rows.fields(row).get("invoker") == RESET_INVOKER
    ]


def indexable(snapshot: Snapshot, whole: WholeStream) -> ReplicationStream:
    """Return the part of a stream that an index can cover: visible, ascending, without gaps.

    Args:
        snapshot: the log.
        whole: its stream.

    Raises:
        RefusedError: VLSNs are missing although their files are there, or were used twice.
    """
    logged = whole.logged
    visible = (logged.state == EntryState.VISIBLE) | (logged.state == EntryState.REPEATED)
    rows = np.flatnonzero(visible & (logged.lsn > whole.reset_lsn))
    stream = ReplicationStream(logged.lsn[rows], logged.vlsn[rows], logged.type[rows])
    breaks = np.flatnonzero(np.diff(stream.vlsn) != 1)
    if not len(breaks):
        return stream
    at = int(breaks[-1])
    if not _is_head_gone(snapshot, stream, at):
        raise RefusedError(_break_text(snapshot, stream, at))
    return stream.select(np.arange(at + 1, len(stream)))


def _is_head_gone(snapshot: Snapshot, stream: ReplicationStream, row: int) -> bool:
    """Return True if VLSNs are missing after an entry, and files are missing there too."""
    before, after = (int(lsn) >> 32 for lsn in stream.lsn[row : row + 2])
    there = {file.file_no for file in snapshot.end.files}
    has_gap = int(stream.vlsn[row + 1]) > int(stream.vlsn[row])
    return has_gap and any(number not in there for number in range(before + 1, after))


def _break_text(snapshot: Snapshot, stream: ReplicationStream, row: int) -> str:
    name = snapshot.environment.name
    (vlsn, next_vlsn), (lsn, next_lsn) = stream.vlsn[row : row + 2], stream.lsn[row : row + 2]
    sides = (
        f"{name}: VLSN {int(next_vlsn)} at {lsn_text(int(next_lsn))} follows VLSN {int(vlsn)} at "
        f"{lsn_text(int(lsn))}"
    )
    restore = "restore the whole node from another one (network restore)."
    if next_vlsn <= vlsn:
        return f"{sides}: VLSNs were used twice, and no index can repair that: {restore}"
    return (
        f"{sides}: entries of the stream are missing or damaged, and an index without them would "
        "hide that. `je-tools verify` shows where. Compare the files with a backup of this node, "
        f"or {restore}"
    )
