"""Mending: whether `recover --apply` would mend a log, and where it may write."""

from __future__ import annotations

from typing import TYPE_CHECKING

from je_tools.checkpoint.decision import has_work
from je_tools.checkpoint.judged_versions import is_written_in_place
from je_tools.checkpoint.options import CheckpointOptions
from je_tools.doctor.facts import Mending
from je_tools.errors import InputError, RefusedError
from je_tools.recovery.end import MENDED_REFUSALS, EndReason

if TYPE_CHECKING:
    from je_tools.recovery.plan import Plan
    from je_tools.recovery.snapshot import Snapshot


def mending_of(snapshot: Snapshot, plan: Plan) -> Mending | None:
    """Return how `recover --apply` would mend a log; None if it would not, or nothing needs it."""
    others = set(plan.refusals) - MENDED_REFUSALS
    is_cut = plan.end.reason is EndReason.DAMAGED
    if others or not (is_cut or plan.refusals):
        return None
    try:
        has_work(snapshot, CheckpointOptions(cuts=True))
    except (InputError, RefusedError):
        return None
    return Mending(is_written_in_place(snapshot))
