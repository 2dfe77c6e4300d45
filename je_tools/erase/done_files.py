"""Files of a cycle that are done after an erasure, and files that vanished before it.

A file is done if no later run of the cycle can find more to erase in it. As in the engine, a file
stays pending as long as recovery or other nodes may need it.

Source: je-log.md "Data eraser"; DataEraser.runCycle, JE 25.3.17.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from je_tools.erase.reasons import NUMBER_OF, KeepReason

if TYPE_CHECKING:
    from je_tools.erase.judging import ReasonTotals
    from je_tools.erase.results import ErasureResult

_PASSING = [
    NUMBER_OF[each]
    for each in (
        KeepReason.VLSN,
        KeepReason.RECOVERY,
        KeepReason.COMPARATOR,
        KeepReason.LAST_FILE,
    )
]
"""Reasons to leave an entry that end with a later checkpoint, file or VLSN."""


def finished_files(result: ErasureResult) -> set[int]:
    """Return the numbers of the files that are done after an erasure."""
    left = {file.file_no for file in (*result.pending, *result.protected, *result.shared)}
    return {
        each.file.file_no
        for each in result.plan.files
        if each.kept is None
        and each.file.file_no not in left
        and (each.is_deleted or not _is_left(each.totals))
    }


def vanished_files(result: ErasureResult) -> set[int]:
    """Return the numbers of pending files of the cycle that others have deleted."""
    cycle = result.plan.cycle
    if cycle is None:
        return set()
    return set(cycle.state.pending) - {each.file.file_no for each in result.plan.files}


def _is_left(totals: ReasonTotals) -> bool:
    """Return True if entries stay that may be overwritten later in the cycle."""
    return bool(totals.counts[_PASSING].any())
