"""Repair of a log: how `recover --apply` would repair it, and where it may write."""

from __future__ import annotations

from typing import TYPE_CHECKING

from je_tools.checkpoint.decision import has_work
from je_tools.checkpoint.judged_versions import is_written_in_place
from je_tools.checkpoint.options import CheckpointOptions
from je_tools.doctor.facts import RecoveryRepair
from je_tools.errors import InputError, RefusedError
from je_tools.recovery.end import REPAIRED_REFUSALS, EndReason

if TYPE_CHECKING:
    from je_tools.recovery.plan import Plan
    from je_tools.recovery.snapshot import Snapshot


def repair_of(snapshot: Snapshot, plan: Plan) -> RecoveryRepair | None:
    """Return how `recover --apply` would repair a log; None if it would not, or need not."""
    others = set(plan.refusals) - REPAIRED_REFUSALS
    is_cut = plan.end.reason is EndReason.DAMAGED
    if others or not (is_cut or plan.refusals):
        return None
    try:
        has_work(snapshot, CheckpointOptions(cuts=True))
    except (InputError, RefusedError):
        return None
    return RecoveryRepair(is_written_in_place(snapshot))
