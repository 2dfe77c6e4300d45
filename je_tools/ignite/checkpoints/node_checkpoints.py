"""Checkpoints of a node: markers and records combined, and the log that recovery needs.

Source: CheckpointStatus, GridCacheDatabaseSharedManager.performBinaryMemoryRestore and
applyLogicalUpdates, Ignite 2.18.0.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from je_tools.formats.ignite.markers import MarkerKind, Pointer
from je_tools.ignite.checkpoints.markers import Marker, MarkerFolder, read_markers
from je_tools.ignite.checkpoints.records import CheckpointRecord, read_records
from je_tools.ignite.wal.segment_reading import SegmentCopies, copies_of

if TYPE_CHECKING:
    from je_tools.ignite.store import Node
    from je_tools.log.scan_options import Progress


class Checkpoint(Struct, frozen=True):
    """A checkpoint that has markers.

    Attributes:
        node: name of the node.
        time_ms: time when it began.
        checkpoint: id.
        begin, end: its markers; None for none.
        record: its record at the place that the markers name; None if it is not there.
        recovery_files: number of files with its pages.
    """

    node: str
    time_ms: int
    checkpoint: UUID
    begin: Marker | None
    end: Marker | None
    record: CheckpointRecord | None
    recovery_files: int

    @property
    def pointer(self) -> Pointer | None:
        """Place of its record: that of its begin, else that of its end."""
        markers = [each for each in (self.begin, self.end) if each is not None]
        return next((each.pointer for each in markers if each.pointer is not None), None)


class LogNeed(Struct, frozen=True):
    """The log that recovery reads, and what there is of it.

    Attributes:
        node: name of the node.
        status: `finished`, `unfinished`, `none` for no markers, or `unclear` if the newest
            markers cannot be read.
        first, offset: place from which recovery reads; None if unclear.
        last: last segment of the log; None if there is none.
        missing: segments up to `last` that are needed and in no file, as half-open ranges.
        marked: segment after `last` to which a marker points; None for none. Either segments up to
            it are missing, or the marker is of another node.
        compacted: segments whose page records are needed, and of which only compacted files exist,
            which lack them.
        needed_files, needed_bytes: files of segments from `first` on.
        removable_files, removable_bytes: files of older segments in the archive, which recovery
            does not read; none if segments or the records of the newest markers are missing.
    """

    node: str
    status: str
    first: int | None
    offset: int | None
    last: int | None
    missing: tuple[tuple[int, int], ...] = ()
    marked: int | None = None
    compacted: tuple[int, ...] = ()
    needed_files: int = 0
    needed_bytes: int = 0
    removable_files: int = 0
    removable_bytes: int = 0


class NodeCheckpoints(Struct, frozen=True):
    """The checkpoints of one node.

    Attributes:
        node: name of the node.
        folder: the folder of its markers.
        checkpoints: by time.
        records: checkpoint records of the segments that were read.
        segments: indexes of the segments that can be read.
        need: the log that recovery reads.
    """

    node: str
    folder: MarkerFolder
    checkpoints: tuple[Checkpoint, ...]
    records: tuple[CheckpointRecord, ...]
    segments: frozenset[int]
    need: LogNeed

    @property
    def newest(self) -> Checkpoint | None:
        """The checkpoint that began last; None if there is none."""
        return max(self.checkpoints, key=lambda each: each.time_ms, default=None)

    @property
    def unread_before(self) -> tuple[int, int] | None:
        """Segment and offset before which recovery surely reads nothing; None if unknown.

        A begin without its record may be foreign: a repair then lets recovery read older log.
        """
        first, offset = self.need.first, self.need.offset
        is_sure = first is not None and _is_confirmed(self.folder, self.checkpoints)
        return (first, offset or 0) if is_sure and first is not None else None


def node_checkpoints(
    node: Node,
    threads: int,
    progress: Progress | None = None,
    without: Collection[Path] = (),
) -> NodeCheckpoints:
    """Return the checkpoints of a node.

    The segments that markers point to, and those from the newest begin on, are read for their
    checkpoint records.

    Args:
        node: the node.
        threads: number of segments to read at once.
        progress: called with the bytes of each segment that was read; None for nothing.
        without: markers to leave out, as if they were not there.

    Raises:
        InputError: the node has no folder of markers.
        StoppedError: a file shrank, vanished or was replaced while it was read.
    """
    folder = read_markers(node)
    kept = tuple(each for each in folder.markers if each.path not in without)
    folder = replace(folder, markers=kept)
    pointers = [each.pointer for each in folder.markers if each.pointer is not None]
    copies = copies_of(node)
    wanted = {pointer.segment for pointer in pointers}
    newest = newest_marker(folder.markers, MarkerKind.START)
    after = newest.pointer.segment if newest is not None and newest.pointer is not None else 0
    chosen = [each for each in copies if each.index in wanted or each.index >= after]
    records = tuple(read_records(chosen, threads, progress))
    checkpoints = _paired(node.name, folder, records)
    need = _need(node, copies, folder, checkpoints)
    segments = frozenset(each.index for each in copies)
    return NodeCheckpoints(node.name, folder, checkpoints, records, segments, need)


def newest_marker(markers: Sequence[Marker], kind: MarkerKind = MarkerKind.START) -> Marker | None:
    """Return the marker of a kind with the greatest time, as the engine chooses it."""
    return max(
        (each for each in markers if each.name.kind is kind and each.name.checkpoint is not None),
        key=lambda each: each.name.time_ms,
        default=None,
    )


def _paired(
    node: str, folder: MarkerFolder, records: Sequence[CheckpointRecord]
) -> tuple[Checkpoint, ...]:
    at = {record.pointer: record for record in records}
    pairs: dict[tuple[int, UUID], dict[MarkerKind, Marker]] = {}
    for marker in folder.markers:
        if marker.name.checkpoint is not None:
            key = (marker.name.time_ms, marker.name.checkpoint)
            pairs.setdefault(key, {})[marker.name.kind] = marker
    found = []
    for (time_ms, checkpoint), pair in pairs.items():
        begin, end = pair.get(MarkerKind.START), pair.get(MarkerKind.END)
        files = folder.recovery_files.get(str(checkpoint), 0)
        bare = Checkpoint(node, time_ms, checkpoint, begin, end, None, files)
        record = at.get(bare.pointer) if bare.pointer is not None else None
        if record is not None and record.checkpoint == checkpoint:
            bare = Checkpoint(node, time_ms, checkpoint, begin, end, record, files)
        found.append(bare)
    return tuple(found)


def _start_of_recovery(
    folder: MarkerFolder, checkpoints: Sequence[Checkpoint]
) -> tuple[str, Pointer | None]:
    """Return the status of the newest checkpoint, and the place from which recovery reads."""
    begin, end = (
        newest_marker(folder.markers, MarkerKind.START),
        newest_marker(folder.markers, MarkerKind.END),
    )
    if begin is None and end is None:
        return ("unclear", None) if folder.markers else ("none", Pointer(0, 0, 0))
    if begin is None or _points_nowhere(begin):
        return "unclear", None
    if end is None:
        return "unfinished", Pointer(0, 0, 0)
    if _points_nowhere(end):
        return "unclear", None
    if begin.name.checkpoint == end.name.checkpoint:
        return "finished", begin.pointer
    if end.name.time_ms > begin.name.time_ms:
        return "unclear", None
    record = next(c.record for c in checkpoints if c.checkpoint == begin.name.checkpoint)
    if record is not None and record.facts.mark is not None:
        return "unfinished", Pointer(*record.facts.mark)
    return "unfinished", end.pointer


def _points_nowhere(marker: Marker) -> bool:
    return marker.pointer is None or marker.pointer.is_null


def _is_confirmed(folder: MarkerFolder, checkpoints: Sequence[Checkpoint]) -> bool:
    """Return True if the log has the records of the newest begin and of the newest end."""
    newest = [newest_marker(folder.markers, kind) for kind in MarkerKind]
    confirmed = {each.checkpoint for each in checkpoints if each.record is not None}
    return all(each is not None and each.name.checkpoint in confirmed for each in newest)


def _need(
    node: Node,
    copies: Sequence[SegmentCopies],
    folder: MarkerFolder,
    checkpoints: Sequence[Checkpoint],
) -> LogNeed:
    status, start = _start_of_recovery(folder, checkpoints)
    last = copies[-1].index if copies else None
    if start is None:
        return LogNeed(node.name, status, None, None, last)
    pointers = [each.pointer.segment for each in checkpoints if each.pointer is not None]
    end = -1 if last is None else last
    marked = max((each for each in pointers if each > end), default=None)
    stop = end if marked is not None else max(start.segment, end)
    missing = _gaps([each.index for each in copies], start.segment, stop)
    files = [each for each in node.segments if each.header is not None]
    needed = [e for e in files if e.header is not None and e.header.segment >= start.segment]
    compacted = _compacted(copies, start, folder, status)
    is_complete = not missing and not compacted and marked is None
    is_sure = is_complete and _is_confirmed(folder, checkpoints)
    archived = [e for e in node.archive if e.header is not None] if is_sure else []
    old = [e for e in archived if e.header is not None and e.header.segment < start.segment]
    return LogNeed(
        node.name,
        status,
        start.segment,
        start.offset,
        last=last,
        missing=missing,
        marked=marked,
        compacted=compacted,
        needed_files=len(needed),
        needed_bytes=sum(each.size for each in needed),
        removable_files=len(old),
        removable_bytes=sum(each.size for each in old),
    )


def _compacted(
    copies: Sequence[SegmentCopies], start: Pointer, folder: MarkerFolder, status: str
) -> tuple[int, ...]:
    """Return the segments that the replay of pages reads, if only compacted files of them exist."""
    begin = newest_marker(folder.markers, MarkerKind.START)
    if status != "unfinished" or begin is None or begin.pointer is None:
        return ()
    if str(begin.name.checkpoint) in folder.recovery_files:
        return ()
    stop = begin.pointer.segment
    read = [each for each in copies if start.segment <= each.index <= stop]
    headers = [(each.index, each.chosen.header) for each in read]
    return tuple(index for index, header in headers if header is not None and header.compacted)


def _gaps(indexes: Sequence[int], first: int, last: int) -> tuple[tuple[int, int], ...]:
    """Return the half-open ranges of first to last, both included, that are not in `indexes`."""
    found, expected = [], first
    for index in [*(index for index in indexes if first <= index <= last), last + 1]:
        if index > expected:
            found.append((expected, index))
        expected = index + 1
    return tuple(found)
