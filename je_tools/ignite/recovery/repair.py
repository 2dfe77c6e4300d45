"""Edits of log, markers and pages by `ignite recover`, planned and made under the lock.

Pages are computed from the log, so the log and the markers are repaired first. Files of pages are
planned on a store whose log needs no repair.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.core.escaping import counted
from je_tools.ignite.recovery.page_edits import (
    FINISH,
    FINISHED,
    FINISHED_FILES,
    plan_page_edits,
)
from je_tools.ignite.recovery.plan import StartOutcome, plan_recovery
from je_tools.ignite.repairs.log_plan import plan_log_repairs
from je_tools.ignite.repairs.node_files import NodeFiles
from je_tools.ignite.repairs.session import StoreSession
from je_tools.ignite.store import LOCK_NAME, open_store

if TYPE_CHECKING:
    from je_tools.ignite.recovery.plan import NodePlan
    from je_tools.ignite.repairs.edits import StoreEdit
    from je_tools.ignite.repairs.log_repairs import Unrepaired
    from je_tools.ignite.repairs.lost_records import LostLogRecords
    from je_tools.ignite.store import Node, Store

LogPlace = tuple[int, int]
"""Segment and offset of a record."""

PAGES_LATER = (
    "These edits repair the log and the markers. Repairs of pages are computed from the repaired "
    "log, and are not shown yet. --apply makes these edits first, and then those of pages."
)


OPTIONAL = (
    "These edits are optional: the node starts without them, and makes the same writes itself. "
    "After them, its start needs no changes of pages from the log."
)


class RepairPlan(Struct, frozen=True):
    """Edits that bring a store to a state from which its node starts.

    Attributes:
        node: the node.
        edits: the edits, in order.
        lost: records that the repaired store does not have.
        left: what cannot be repaired, and why.
        is_of_log: True if the edits are those of the log and the markers.
        is_optional: True if the node starts without the edits, and makes the same writes itself.
    """

    node: Node
    edits: tuple[StoreEdit, ...]
    lost: tuple[LostLogRecords, ...]
    left: tuple[str, ...]
    is_of_log: bool
    is_optional: bool = False


def plan_repairs(plan: NodePlan, threads: int, cut_at: LogPlace | None = None) -> RepairPlan:
    """Return the edits for a node: those of its log and markers, or of its pages.

    Args:
        plan: recovery of the node.
        threads: number of segments to read at once.
        cut_at: segment and offset of the first record to cut off; None to keep all.

    Raises:
        RefusedError: the log cannot be cut there.
        StoppedError: a file shrank, vanished or was replaced while it was read.
    """
    log = _of_log(plan.node, threads, cut_at)
    return log if log.edits else _with_pages(log, plan)


def _of_log(node: Node, threads: int, cut_at: LogPlace | None) -> RepairPlan:
    log = plan_log_repairs(node, threads, cut_at)
    lost = tuple(each.lost for each in log.repairs if each.lost is not None)
    left = tuple(_left_text(each) for each in log.unrepaired)
    return RepairPlan(node, tuple(log.edits), lost, left, is_of_log=True)


def _with_pages(log: RepairPlan, plan: NodePlan) -> RepairPlan:
    """Return the edits of the pages of a node whose log needs none."""
    pages = plan_page_edits(plan.node, plan.checkpoints, plan.physical, plan.damaged or [])
    left = (*log.left, *pages.left)
    edits = tuple(pages.edits)
    is_own = all(each.reason in (FINISH, FINISHED, FINISHED_FILES) for each in edits)
    is_optional = bool(edits) and is_own and plan.outcome is StartOutcome.STARTS
    return RepairPlan(plan.node, edits, log.lost, left, is_of_log=False, is_optional=is_optional)


def _replanned(store: Store, node: Node, threads: int, cut_at: LogPlace | None) -> RepairPlan:
    """Return the edits for a node as it is now; recovery is computed only if its log needs none."""
    again = open_store([Path(store.name)], [node.name])
    log = _of_log(again.nodes[0], threads, cut_at)
    return log if log.edits else _with_pages(log, *plan_recovery(again, threads))


def _left_text(damage: Unrepaired) -> str:
    place = "" if damage.segment is None else f"segment {damage.segment}, offset {damage.offset}: "
    return f"{place or (damage.path or '')}{'' if place else ': '}{damage.reason}"


def apply_repairs(
    store: Store, node: Node, threads: int, cut_at: LogPlace | None = None
) -> list[tuple[RepairPlan, int | None]]:
    """Plan and write the edits for a node while its lock is held.

    If the plan has no edits and the node has no lock file, the lock is not taken, since that would
    make the file.

    Returns:
        The plans, each with the number of its undo journal; None if it has no edits.

    Raises:
        InputError: the node has no folder of markers or caches.
        RefusedError: the node runs, the log cannot be cut there, or a step failed; the text says
            what state the store is in.
        StoppedError: a file shrank, vanished or was replaced while it was read.
    """
    if node.db is None or not (node.db / LOCK_NAME).exists():
        planned = _replanned(store, node, threads, cut_at)
        if not planned.edits:
            return [(planned, None)]
    first = _apply_once(store, node, threads, cut_at)
    if not first[0].is_of_log:
        return [first]
    try:
        second = _apply_once(store, node, threads, None, unchanged="no page was changed")
    except BaseException as error:
        repairs, number = first
        written = "was" if len(repairs.edits) == 1 else "were"
        edits = counted(len(repairs.edits), "edit")
        error.add_note(
            f"before that, {edits} of the log and the markers {written} written; the undo journal "
            f"is {number}. `{NodeFiles(node).undo_words()}` lists what can be reverted"
        )
        raise
    return [first, second]


def _apply_once(
    store: Store,
    node: Node,
    threads: int,
    cut_at: LogPlace | None,
    unchanged: str = "nothing was changed",
) -> tuple[RepairPlan, int | None]:
    with StoreSession(node, unchanged=unchanged) as session:
        # Files that were listed before the lock was taken may be others now.
        repairs = _replanned(store, node, threads, cut_at)
        return repairs, session.apply(repairs.edits, "recover")
