"""Cutting the log at a record: what is left is the state that a node starts with.

The log then ends as if the node had died there. Its last segment is only in the ring, like one that
has not been archived yet, so that the engine continues in it.

Source: FileWriteAheadLogManager.restoreWriteHandle, Ignite 2.18.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from je_tools.errors import RefusedError
from je_tools.ignite.repairs.edits import StoreEdit, create_file, set_aside, write_zeros
from je_tools.ignite.repairs.log_repairs import LogRepair
from je_tools.ignite.repairs.log_state import LogState, SegmentState, record_bounds
from je_tools.ignite.repairs.lost_records import LostLogRecords
from je_tools.ignite.segment_files import Status, open_segment_bytes

if TYPE_CHECKING:
    from je_tools.formats.ignite.markers import Pointer
    from je_tools.ignite.segment_files import SegmentFile
    from je_tools.ignite.store import Node


def plan_cut(
    node: Node, state: LogState, begin: Pointer | None, segment_no: int, offset: int
) -> LogRepair:
    """Return the edits that cut the log before a record.

    Args:
        node: the node.
        state: its log from the newest checkpoint on.
        begin: place of the record of the newest checkpoint.
        segment_no, offset: the first record to cut off, or the end of the log.

    Raises:
        RefusedError: no record begins there, or the log would end before the newest checkpoint.
    """
    place = f"segment {segment_no}, offset {offset}"
    if begin is None:
        raise RefusedError(f"{place}: no checkpoint is known, so the log cannot be cut")
    if (segment_no, offset) < (begin.segment, begin.offset + begin.length):
        raise RefusedError(
            f"{place}: the files of pages have the newest checkpoint, at segment {begin.segment}, "
            f"offset {begin.offset}; the log can only be cut after its record of {begin.length} "
            "bytes"
        )
    segment = next((each for each in state.segments if each.index == segment_no), None)
    read = segment.read if segment is not None else None
    if segment is None or read is None or read.file.is_packed:
        raise RefusedError(f"{place}: no file that the engine reads has the segment")
    bounds = record_bounds(read.file)
    if not np.isin(offset, bounds):
        before, after = bounds[bounds < offset], bounds[bounds > offset]
        nearest = " and ".join(str(int(each)) for each in (*before[-1:], *after[:1]))
        raise RefusedError(f"{place}: no record begins there; records nearby: offset {nearest}")
    later = _later(node, segment_no)
    edits = [set_aside(file.path, f"after the cut at {place}") for file in later]
    edits += _end(node, segment, offset, place, {file.path for file in later})
    return LogRepair(tuple(edits), LostLogRecords(segment_no, offset, None))


def _later(node: Node, segment_no: int) -> list[SegmentFile]:
    """Return the files of later segments, the newest first, so that each edit leaves a cut log.

    A file of the archive without a header counts by its name, since the node cannot archive the
    segment of this name beside it.
    """
    found = []
    for each in node.segments:
        if each.header is not None and each.header.segment > segment_no:
            found.append((each.header.segment, each))
        elif each.header is None and each in node.archive and each.number >= segment_no:
            found.append((each.number, each))
    return [each for _, each in sorted(found, key=lambda pair: -pair[0])]


def _end(
    node: Node, segment: SegmentState, offset: int, place: str, gone: set[Path]
) -> list[StoreEdit]:
    """Return the edits of the files of the last segment, and of its copies."""
    in_work = [each.file for each in segment.copies if each.file in node.work]
    in_archive = [each.file for each in segment.copies if each.file in node.archive]
    reason = f"the end of the log is at {place}"
    edits: list[StoreEdit] = []
    if in_work and segment.read is not None:
        for file in in_work:
            edits += _zeroed(file.path, offset, file.size, reason)
    else:
        edits += _in_ring(node, segment, offset, gone)
    edits += [set_aside(file.path, f"{reason}; the ring has the segment") for file in in_archive]
    return edits


def _zeroed(path: Path, offset: int, size: int, reason: str) -> Sequence[StoreEdit]:
    """Return the edits that end a segment; once the first is durable, the log ends there."""
    if offset >= size:
        return ()
    edits = [write_zeros(path, offset, 1, reason, is_barrier=True)]
    if offset + 1 < size:
        rest = size - offset - 1
        edits.append(write_zeros(path, offset + 1, rest, "after the end", is_barrier=True))
    return edits


def _in_ring(
    node: Node, segment: SegmentState, offset: int, gone: set[Path]
) -> Iterator[StoreEdit]:
    """Yield the edits that put the last segment back into the ring."""
    assert segment.read is not None
    assert node.db is not None
    count = max([len(node.work), *(each.number + 1 for each in node.work)])
    path = node.db.parent / "wal" / node.name / f"{segment.index % max(count, 1):016}.wal"
    reason = f"segment {segment.index} is the last one, and the ring lacks it"
    if path.exists() and path not in gone:
        old = next((each for each in node.work if each.path == path), None)
        if old is None or old.status is not Status.UNUSED:
            raise RefusedError(f"{path}: expected a later segment in this place of the ring")
        yield set_aside(path, reason)
    size = max((each.size for each in node.work), default=segment.read.file.size)
    with open_segment_bytes(segment.read.file.path, is_packed=False) as source:
        data = source.read(0, offset).tobytes()
    yield create_file(path, data.ljust(size, b"\0"), reason)
