"""Markers that no checkpoint wrote, and real ones whose name or content is damaged.

A node that dies in a checkpoint leaves a begin marker without an end marker. Without that marker,
the node would start with a mix of pages. So a marker is only removed if two things show that no
checkpoint wrote it. The log is whole from the last finished checkpoint to its end, and has no
record of the marker's checkpoint. And no partition has been written since that finished checkpoint:
the meta page of each has the rows and the counter of that checkpoint, and none of its rows has a
version that the log has after the checkpoint, or a newer one.

A node does not start beside a marker whose name has no valid time or id. Such an end marker is
removed if the log that recovery then needs is there: without the marker, recovery does more, and
not less. Else it gets the name that the newest begin marker implies, if both point to the same
record. Such a begin marker is removed if a checkpoint with a valid name has the same record, or
under the conditions above.

Source: CheckpointMarkersStorage, CheckpointWorkflow.markCheckpointBegin, Ignite 2.18.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING

from je_tools.formats.ignite.ids import cache_id
from je_tools.formats.ignite.markers import MARKER_SIZE, MarkerKind, encode_marker, read_marker
from je_tools.ignite.checkpoints.node_checkpoints import newest_marker
from je_tools.ignite.pages.files import FileKind, PageFile, page_folder
from je_tools.ignite.pages.first_pages import read_first_page
from je_tools.ignite.repairs.edits import create_file, set_aside
from je_tools.ignite.repairs.log_repairs import LogRepair, Unrepaired
from je_tools.ignite.repairs.newer_rows import has_row_of, logged_versions

if TYPE_CHECKING:
    from je_tools.formats.ignite.markers import Pointer
    from je_tools.ignite.checkpoints.markers import Marker
    from je_tools.ignite.checkpoints.node_checkpoints import NodeCheckpoints
    from je_tools.ignite.checkpoints.records import CheckpointRecord
    from je_tools.ignite.store import Node

_NEEDED_END = "it may be the end of a checkpoint: without it, recovery needs log that is not there"


def suspect_begins(found: NodeCheckpoints) -> list[Marker]:
    """Return the begin markers without an end that lead to no record of their checkpoint."""
    suspects = []
    ended = max((each.time_ms for each in found.checkpoints if each.end is not None), default=0)
    pairs = {(each.time_ms, each.checkpoint): each for each in found.checkpoints}
    for marker in found.folder.markers:
        is_begin = marker.name.kind is MarkerKind.START and marker.name.checkpoint is not None
        if not is_begin or marker.name.time_ms <= ended:
            continue
        assert marker.name.checkpoint is not None
        pair = pairs.get((marker.name.time_ms, marker.name.checkpoint))
        if pair is None or (pair.record is None and pair.end is None):
            suspects.append(marker)
    return suspects


def misnamed_markers(found: NodeCheckpoints) -> list[Marker]:
    """Return the markers whose names have no valid time or id."""
    return [each for each in found.folder.markers if each.name.checkpoint is None]


def plan_misnamed_markers(
    node: Node,
    markers: Sequence[Marker],
    rest: NodeCheckpoints,
    *,
    is_log_whole: bool,
    lacks_log: bool,
) -> Iterator[LogRepair | Unrepaired]:
    """Yield what to do about markers of `misnamed_markers`.

    Args:
        node, rest, is_log_whole: as for `plan_markers`.
        markers: the markers.
        lacks_log: True if recovery with `rest` needs log that is not there.
    """
    last = _last_finished(rest)
    doubt = cache(partial(_doubt, node, last, _unmarked(rest, last), is_log_whole))
    begins = {each.begin.pointer for each in rest.checkpoints if each.begin is not None} - {None}
    for marker in markers:
        what = marker.problem or ""
        if marker.name.kind is MarkerKind.START and _content(node, marker) not in begins:
            reason = doubt()
            if reason is not None:
                yield Unrepaired(marker.path, None, None, f"it may be real: {reason}")
                continue
            what += ", and no partition was written since the last finished checkpoint"
        elif marker.name.kind is MarkerKind.END and lacks_log:
            found = _renamed(node, marker, rest)
            # Further ends of this kind are copies of the renamed one.
            lacks_log = isinstance(found, Unrepaired)
            yield found
            continue
        yield LogRepair((set_aside(marker.path, what),))


def _renamed(node: Node, marker: Marker, rest: NodeCheckpoints) -> LogRepair | Unrepaired:
    """Return the edits that give an end the name that the newest begin implies, if they match.

    The engine writes the same place to both.
    """
    begin = newest_marker(rest.folder.markers)
    if begin is None or begin.pointer is None or _content(node, marker) != begin.pointer:
        return Unrepaired(marker.path, None, None, _NEEDED_END)
    path = begin.path.with_name(begin.path.name.removesuffix("START.bin") + "END.bin")
    if path.exists():
        return Unrepaired(marker.path, None, None, _NEEDED_END)
    reason = f"{marker.problem}; it is the end of checkpoint {begin.name.checkpoint}"
    data = encode_marker(begin.pointer, is_big=node.is_big)
    return LogRepair((set_aside(marker.path, reason), create_file(path, data, reason)))


def _content(node: Node, marker: Marker) -> Pointer | None:
    """Return the place that a marker points to, whatever its name; None for none."""
    try:
        with marker.path.open("rb") as file:
            data = file.read(MARKER_SIZE + 1)
    except OSError:
        return None
    return read_marker(data, is_big=node.is_big) if len(data) == MARKER_SIZE else None


def plan_markers(
    node: Node,
    suspects: Sequence[Marker],
    rest: NodeCheckpoints,
    *,
    is_log_whole: bool,
) -> Iterator[LogRepair | Unrepaired]:
    """Yield the repairs of markers of `suspect_begins`, or the reasons to leave them.

    Args:
        node: the node.
        suspects: the markers.
        rest: the checkpoints without them.
        is_log_whole: True if the log is readable from the last finished checkpoint to its end.
    """
    last = _last_finished(rest)
    unmarked = _unmarked(rest, last)
    by_checkpoint = {each.checkpoint: each for each in reversed(unmarked)}
    # It reads the log and the partitions, and is the same for all markers.
    doubt = cache(partial(_doubt, node, last, unmarked, is_log_whole))
    for marker in suspects:
        own = by_checkpoint.get(marker.name.checkpoint) if marker.name.checkpoint else None
        if own is not None:
            yield _rewritten(node, marker, own)
            continue
        reason = doubt()
        if reason is not None:
            yield Unrepaired(marker.path, None, None, f"it may be real: {reason}")
        else:
            what = marker.problem or "it points to no record of its checkpoint"
            text = f"{what}, the log has no such checkpoint, and no partition was written since"
            yield LogRepair((set_aside(marker.path, text),))


def _unmarked(rest: NodeCheckpoints, last: CheckpointRecord | None) -> tuple[CheckpointRecord, ...]:
    """Return the checkpoints in the log after the last finished one that have no marker."""
    known = {each.checkpoint for each in rest.checkpoints}
    return tuple(
        each
        for each in rest.records
        if each.checkpoint not in known and (last is None or each.pointer > last.pointer)
    )


def _rewritten(node: Node, marker: Marker, record: CheckpointRecord) -> LogRepair:
    """Return the edits that give a real marker its content back."""
    reason = f"the log has the record of checkpoint {record.checkpoint}"
    data = encode_marker(record.pointer, is_big=node.is_big)
    edits = (set_aside(marker.path, reason), create_file(marker.path, data, reason))
    return LogRepair(edits, begin=record.pointer)


def _doubt(
    node: Node,
    last: CheckpointRecord | None,
    unmarked: Sequence[CheckpointRecord],
    is_log_whole: bool,
) -> str | None:
    """Return why a checkpoint may have begun that has no record; None if none has."""
    if last is None:
        return "no finished checkpoint is known"
    if not is_log_whole:
        return "the log after the last finished checkpoint is not whole"
    if unmarked:
        return f"the log has a checkpoint without a begin, {unmarked[0].checkpoint}"
    logged = logged_versions(node, last.pointer)
    for file in page_folder(node).files:
        if file.kind is FileKind.PARTITION:
            problem = _written_since(file, last)
            if problem is None and file.pages and has_row_of(file, logged):
                problem = "has a row that was written after the last finished checkpoint"
            if problem is not None:
                return f"{file.group} part-{file.partition}.bin {problem}"
    return None


def _written_since(file: PageFile, last: CheckpointRecord) -> str | None:
    """Return how a partition differs from its state at a checkpoint; None if it does not."""
    if file.header is None:
        return None if file.is_empty else "has no readable header"
    if not file.pages:
        return None
    listed = last.facts.groups.get(cache_id(file.group), [])
    state = next((each for each in listed if each.partition == file.partition), None)
    if state is None:
        # A cache may be new, or the log may be off for it.
        return "has pages, and is not in the last finished checkpoint"
    meta = read_first_page(file)
    if meta is None:
        return "has no readable meta page"
    if (meta.size, meta.update_counter) != (state.size, state.counter):
        return (
            f"has {meta.size} rows and counter {meta.update_counter}, and had {state.size} and "
            f"{state.counter} at the last finished checkpoint"
        )
    return None


def _last_finished(found: NodeCheckpoints) -> CheckpointRecord | None:
    """Return the record of the newest checkpoint, if that has a begin and an end."""
    newest = found.newest
    is_finished = newest is not None and newest.begin is not None and newest.end is not None
    return newest.record if newest is not None and is_finished else None
