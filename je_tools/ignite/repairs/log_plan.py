"""The repairs of a node's log and markers, planned together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.errors import RefusedError
from je_tools.ignite.checkpoints.node_checkpoints import (
    NodeCheckpoints,
    newest_marker,
    node_checkpoints,
)
from je_tools.ignite.repairs.bogus_markers import (
    misnamed_markers,
    plan_markers,
    plan_misnamed_markers,
    suspect_begins,
)
from je_tools.ignite.repairs.edits import create_file, set_aside
from je_tools.ignite.repairs.log_cut import plan_cut
from je_tools.ignite.repairs.log_repairs import LogRepair, LogRepairer, Unrepaired
from je_tools.ignite.repairs.log_state import LogState, read_log_state
from je_tools.ignite.repairs.lost_records import LostLogRecords
from je_tools.ignite.wal.archive import (
    files_in_the_way,
    is_after_ring,
    may_be_only_copy,
    moved_wrongly,
)
from je_tools.ignite.wal.segment_judge import FileJudge

if TYPE_CHECKING:
    from je_tools.formats.ignite.markers import Pointer
    from je_tools.ignite.repairs.edits import StoreEdit
    from je_tools.ignite.repairs.log_state import SegmentDamage
    from je_tools.ignite.segment_files import SegmentFile
    from je_tools.ignite.store import Node

_ONLY_COPY = (
    "this file of the archive has no header, and may be the only one with the records of its "
    "segment; look for the segment in a backup of the node"
)


_FIRST_OF_RING = "the first file of the ring is gone; the node moves the others to the archive then"


class LogPlan(Struct, frozen=True):
    """The repairs of a node's log and markers.

    Attributes:
        repairs: what is repaired, in the order in which it is done.
        unrepaired: damage that is left, and why.
        checkpoints: the checkpoints, without markers that are removed.
        first: first segment that was examined; what is older is not judged.
    """

    repairs: tuple[LogRepair, ...]
    unrepaired: tuple[Unrepaired, ...]
    checkpoints: NodeCheckpoints
    first: int

    @property
    def edits(self) -> list[StoreEdit]:
        """All edits, in order."""
        return [edit for repair in self.repairs for edit in repair.edits]


def plan_log_repairs(
    node: Node, threads: int, to_pointer: tuple[int, int] | None = None
) -> LogPlan:
    """Plan all repairs of the log and the markers of a node; nothing is written.

    Segments older than recovery reads are not examined.

    Args:
        node: a node that was opened by its work directory or folder.
        threads: number of segments to read at once.
        to_pointer: segment and offset of the first record to cut off; None to keep all.

    Raises:
        RefusedError: the log cannot be cut there.
        InputError: the node has no folder of markers.
        StoppedError: a file shrank, vanished or was replaced while it was read.
    """
    found = node_checkpoints(node, threads)
    suspects, misnamed = suspect_begins(found), misnamed_markers(found)
    if suspects or misnamed:
        without = {each.path for each in (*suspects, *misnamed)}
        found = node_checkpoints(node, threads, without=without)
    need = found.need
    state = read_log_state(node, need.first or 0, threads)
    damages = _damages(state, (need.first or 0, need.offset or 0), to_pointer)
    segments = {each.index: each for each in state.segments}
    judge = FileJudge(node.name, "", state.last)
    healer = LogRepairer(None, _archive(node), judge)
    healed = {each: healer.heal(segments[each.index], each) for each in damages}
    is_whole = None not in healed.values() and not _is_incomplete(found, state)
    markers = list(plan_markers(node, suspects, found, is_log_whole=is_whole))
    lacks_log = _lacks_log(found, healed)
    markers += plan_misnamed_markers(
        node, misnamed, found, is_log_whole=is_whole, lacks_log=lacks_log
    )
    begin = _begin(found, markers)
    repairer = LogRepairer(begin, _archive(node), judge)
    outcomes = [healed[each] or repairer.pass_over(segments[each.index], each) for each in damages]
    blocking = files_in_the_way(node)
    if to_pointer is not None:
        blocking = [each for each in blocking if each.number < to_pointer[0]]
    outcomes += [_unblocked(node, each) for each in blocking]
    if stuck := moved_wrongly(node):
        path = stuck[0].path.with_name(f"{0:016}.wal")
        outcomes.append(LogRepair((create_file(path, b"", _FIRST_OF_RING, is_barrier=False),)))
    if to_pointer is not None:
        _check_repaired(outcomes)
        outcomes.append(plan_cut(node, state, begin, *to_pointer))
    outcomes += markers
    repairs = tuple(each for each in outcomes if isinstance(each, LogRepair))
    unrepaired = tuple(each for each in outcomes if isinstance(each, Unrepaired))
    return LogPlan(repairs, unrepaired, found, need.first or 0)


def _damages(
    state: LogState, start: tuple[int, int], to_pointer: tuple[int, int] | None
) -> list[SegmentDamage]:
    """Return the damage from the start of recovery on, and before the cut if there is one."""
    # A damaged header matters wherever recovery begins in the segment.
    found = [
        each for each in state.damages() if each.stop is None or (each.index, each.end) > start
    ]
    if to_pointer is None:
        return found
    return [each for each in found if (each.index, each.start) < to_pointer]


def _unblocked(node: Node, file: SegmentFile) -> LogRepair | Unrepaired:
    """Return the edit that sets aside a file of `files_in_the_way`, or why it is left."""
    lost = None
    if may_be_only_copy(node, file):
        if not is_after_ring(node, file):
            return Unrepaired(file.path, file.number, 0, _ONLY_COPY)
        lost = LostLogRecords(file.number, 0, file.size)
    reason = f"{file.problem}; the node archives segment {file.number} of the ring under this name"
    return LogRepair((set_aside(file.path, reason),), lost)


def _archive(node: Node) -> Path:
    assert node.db is not None
    return node.db.parent / "wal" / "archive" / node.name


def _begin(found: NodeCheckpoints, markers: Sequence[LogRepair | Unrepaired]) -> Pointer | None:
    """Return the place of the newest checkpoint's record; None if it is in doubt.

    With a begin in doubt, records of pages after the last finished checkpoint may be needed.
    """
    if any(isinstance(each, Unrepaired) for each in markers):
        return None
    real = [
        each.begin for each in markers if isinstance(each, LogRepair) and each.begin is not None
    ]
    begun = [each for each in found.checkpoints if each.begin is not None]
    newest = max(begun, key=lambda each: each.time_ms, default=None)
    if newest is not None and newest.record is not None:
        real.append(newest.record.pointer)
    return max(real, default=None)


def _is_incomplete(found: NodeCheckpoints, state: LogState) -> bool:
    return found.need.status != "finished" or any(not each.copies for each in state.segments)


def _lacks_log(found: NodeCheckpoints, healed: Mapping[SegmentDamage, LogRepair | None]) -> bool:
    """Return True if recovery needs log up to the newest begin that is not there, or is damaged."""
    need, begin = found.need, newest_marker(found.folder.markers)
    if need.status == "finished":
        return False
    if need.first is None or begin is None or begin.pointer is None:
        return True
    place = (begin.pointer.segment, begin.pointer.offset)
    damaged = any(
        repair is None and (damage.index, damage.start) < place for damage, repair in healed.items()
    )
    missing = any(first <= begin.pointer.segment for first, _ in need.missing)
    return damaged or missing or bool(need.compacted) or need.marked is not None


def _check_repaired(outcomes: Sequence[LogRepair | Unrepaired]) -> None:
    """Refuse to cut a log that a node cannot read up to the cut.

    Raises:
        RefusedError: there is damage before the cut that is not repaired.
    """
    for each in outcomes:
        if isinstance(each, Unrepaired):
            raise RefusedError(
                f"segment {each.segment}, offset {each.offset}: damage before the cut remains, and "
                f"a node would not read on: {each.reason}"
            )
