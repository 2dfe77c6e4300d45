"""Physical recovery of a node: the pages of an unfinished checkpoint, replayed in memory.

Source: GridCacheDatabaseSharedManager.performBinaryMemoryRestore, CheckpointStatus,
CheckpointRecoveryFileStorage, Ignite 2.18.0.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING
from uuid import UUID

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from je_tools.errors import StoppedError
from je_tools.formats.files.source import Source, SourceChangedError, SourceError
from je_tools.formats.ignite.markers import Pointer
from je_tools.formats.ignite.page_ids import place_id
from je_tools.formats.ignite.replay import MisfitReason, PageReplay
from je_tools.formats.ignite.types import NUMBERS
from je_tools.ignite.checkpoints.node_checkpoints import newest_marker, node_checkpoints
from je_tools.ignite.logical.log_range import LogRange, WalEnd, WalEndReason
from je_tools.ignite.pages.files import page_folder

if TYPE_CHECKING:
    from pathlib import Path

    from je_tools.ignite.checkpoints.markers import Marker
    from je_tools.ignite.checkpoints.node_checkpoints import NodeCheckpoints
    from je_tools.ignite.store import Node

MEMORY_MAX = 4 << 30
"""Bytes of pages that a replay may keep; a checkpoint that has more is not replayed."""

_PAGE_RECORD = NUMBERS["PAGE_RECORD"]


Place = tuple[int, int]
"""A page: the id of its group, and its partition and index as `place_id` combines them."""


class PageSource(StrEnum):
    """Place from which recovery takes the content of pages."""

    NOTHING = "nothing"
    """No page needs recovery."""
    LOG = "log"
    RECOVERY_FILES = "recovery files"


class PhysicalRecovery(Struct, frozen=True):
    """Physical part of recovery: the pages of an unfinished checkpoint, or why there are none.

    Attributes:
        status: state of the newest checkpoint, as `LogNeed.status`.
        begin: begin marker of the newest checkpoint; None if there is none.
        source: place of the content of pages.
        start: pointer from which the log is replayed; None if it is not.
        stop: pointer of the record of the newest checkpoint, up to which it is replayed.
        replay: the pages; None if nothing is replayed.
        problem: why recovery does not complete, in words; None if it does.
        is_unclear: True if the node may complete it nevertheless.
        end: place where the log ends before `stop`; None if it does not.
        recovery_files: files with pages of the newest checkpoint.
        damaged_files: those of them that could not be read to their end.
    """

    status: str
    begin: Marker | None
    source: PageSource
    start: Pointer | None = None
    stop: Pointer | None = None
    replay: PageReplay | None = None
    problem: str | None = None
    is_unclear: bool = False
    end: WalEnd | None = None
    recovery_files: tuple[Path, ...] = ()
    damaged_files: tuple[Path, ...] = ()

    @property
    def checkpoint(self) -> UUID | None:
        """Id of the newest checkpoint."""
        return None if self.begin is None else self.begin.name.checkpoint

    @property
    def places(self) -> set[Place]:
        """Pages that recovery writes; none if it does not complete."""
        if self.replay is None or self.problem is not None:
            return set()
        places = self.replay.places()
        whole = ~places.is_broken
        ids = place_id(places.partition, places.index)[whole]
        return set(zip(places.group_id[whole].tolist(), ids.tolist(), strict=True))

    @property
    def snapshots(self) -> int:
        """Number of images of pages that were applied."""
        return 0 if self.replay is None else int(self.replay.applied[_PAGE_RECORD])

    @property
    def deltas(self) -> int:
        """Number of other changes of pages."""
        return 0 if self.replay is None else int(self.replay.applied.sum()) - self.snapshots


def recovered_pages(
    node: Node, threads: int, found: NodeCheckpoints | None = None
) -> PhysicalRecovery:
    """Replay the pages that recovery of a node writes.

    Nothing is replayed if the newest checkpoint is finished, or if its markers do not tell where
    to begin.

    Args:
        node: the node.
        threads: number of segments to read at once in search of checkpoints.
        found: its checkpoints, if they are known.

    Raises:
        InputError: the node has no folder of markers.
        StoppedError: a file shrank, vanished or was replaced while it was read.
    """
    found = found or node_checkpoints(node, threads)
    need, begin = found.need, newest_marker(found.folder.markers)
    if need.status != "unfinished" or begin is None or begin.pointer is None:
        return PhysicalRecovery(need.status, begin, PageSource.NOTHING)
    files = _recovery_files(node, begin)
    source = PageSource.RECOVERY_FILES if files else PageSource.LOG
    start, stop = Pointer(need.first or 0, need.offset or 0, 0), begin.pointer
    known = PhysicalRecovery(need.status, begin, source, start, stop, recovery_files=tuple(files))
    replay = open_replay(node)
    if replay is None:
        return replace(known, problem="no page file gives the page size")
    if not _has_record(found, begin):
        text = "the log has no record of the checkpoint where its marker points"
        return replace(known, problem=text)
    if need.compacted and not files:
        text = "segments with changes of pages exist only in compacted form"
        return replace(known, problem=text)
    damaged = tuple(path for path in files if not _take_file(replay, path, node))
    end = replay_log(node, replay, start, stop)
    problem, is_unclear = None, False
    if end is not None:
        problem = "the log ends before the record of the checkpoint"
    elif damaged:
        problem = f"{damaged[0].name} is damaged"
    elif not len(replay.places().index):
        problem = "neither the log nor a recovery file has a page of the checkpoint"
    else:
        problem, is_unclear = _misfit_problem(replay)
    return replace(
        known,
        replay=replay,
        problem=problem,
        is_unclear=is_unclear,
        end=end,
        damaged_files=damaged,
    )


def _misfit_problem(replay: PageReplay) -> tuple[str | None, bool]:
    """Return why changes of pages cannot be applied, and whether the node may apply them."""
    misfits, count = replay.misfits()
    reasons = {each.reason for each in misfits}
    if MisfitReason.FULL in reasons:
        return f"more than {MEMORY_MAX:,} bytes of pages change", True
    if MisfitReason.ENCRYPTED in reasons:
        return "changes of pages are encrypted", True
    return (f"{count:,} changes of pages cannot be applied", False) if count else (None, False)


def open_replay(node: Node) -> PageReplay | None:
    """Return a replay for the pages of a node; None if no file tells their size."""
    headers = (each.header for each in page_folder(node).files)
    size = next((header.page_size for header in headers if header is not None), None)
    return None if size is None else PageReplay(size, MEMORY_MAX // size)


def replay_log(node: Node, replay: PageReplay, start: Pointer, stop: Pointer) -> WalEnd | None:
    """Apply the log from a record to another; return where it ends before that, or None.

    Raises:
        StoppedError: a file shrank, vanished or was replaced while it was read.
    """
    log = LogRange(node, start, counts_lost=False)
    for rows in log:
        segment = rows.header.segment
        if segment < stop.segment:
            replay.apply(rows)
            continue
        count = int(np.searchsorted(rows.columns.offset, stop.offset))
        if segment == stop.segment:
            replay.apply(rows.select(slice(0, count)))
        if count < len(rows) and rows.columns.offset[count] == stop.offset:
            return None
        if segment > stop.segment or count < len(rows):
            return WalEnd(stop.segment, stop.offset, WalEndReason.MISSING, True, 0)
    return log.end


def _has_record(found: NodeCheckpoints, begin: Marker) -> bool:
    same = (each for each in found.checkpoints if each.checkpoint == begin.name.checkpoint)
    return any(each.record is not None for each in same)


def _recovery_files(node: Node, begin: Marker) -> list[Path]:
    if node.db is None:
        return []
    return sorted((node.db / "cp").glob(f"*-{begin.name.checkpoint}-RECOVERY-*.bin"))


def _take_file(replay: PageReplay, path: Path, node: Node) -> bool:
    """Add the pages of a recovery file to a replay; return False if the file is damaged."""
    try:
        with Source(path) as source:
            return replay.take_recovered(source, is_big=node.is_big) == source.size
    except SourceChangedError as error:
        raise StoppedError(str(error)) from error
    except SourceError:
        return False
