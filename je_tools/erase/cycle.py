"""Cycles of the eraser: in each, all files that are old enough are erased once.

Source: je-log.md "Data eraser"; DataEraser.startCycle and resumeCycle, JE 25.3.17.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from je_tools.erase.reasons import KeepReason
from je_tools.erase.throttle import CYCLE_WORK
from je_tools.formats.je.internal.cleaner import EraserState
from je_tools.formats.je.internal.names import METADATA_DB
from je_tools.recovery.utilization import internal_records

if TYPE_CHECKING:
    from collections.abc import Collection

    from je_tools.log.log_files import LogFile
    from je_tools.recovery.snapshot import Snapshot


class EraserCycle(Struct, frozen=True):
    """A cycle of the eraser.

    Attributes:
        state: the record of the cycle, as the engine keeps it.
        is_resumed: True if the log has a record of it already.
        size: bytes of the files that are left.
        given_up: record of an earlier cycle that this one replaces before its end; None for none.
    """

    state: EraserState
    is_resumed: bool
    size: int
    given_up: EraserState | None = None

    def kept_files(self, snapshot: Snapshot) -> dict[int, KeepReason]:
        """Return the files that are not erased in the rest of this cycle, with the reason."""
        done = dict.fromkeys(self.state.completed, KeepReason.DONE)
        others = {
            file.file_no: KeepReason.YOUNG
            for file in snapshot.end.files
            if file.file_no not in self.state.pending
        }
        return {**others, **done}

    def after(self, finished: Collection[int], vanished: Collection[int]) -> EraserState:
        """Return the record of the cycle when some of its files are done.

        Args:
            finished: files that are done.
            vanished: files that others have deleted. They are neither done nor pending.
        """
        done = set(finished) & set(self.state.pending)
        return replace(
            self.state,
            completed=tuple(sorted({*self.state.completed, *done})),
            pending=tuple(sorted(set(self.state.pending) - done - set(vanished))),
        )


def stored_state(snapshot: Snapshot) -> EraserState | None:
    """Return the eraser's record; None if the log has none that can be read."""
    for record in internal_records(snapshot, METADATA_DB):
        if isinstance(record, EraserState):
            return record
    return None


def choose_cycle(snapshot: Snapshot, period_ms: int) -> EraserCycle:
    """Return the cycle that the log is in, or a new one.

    A cycle continues until its end, with two exceptions. If it begins in the future, a clock was
    ahead when it was recorded. If it ends more than a period from now, files would stay longer than
    the period promises. Such cycles are given up.

    Args:
        snapshot: the log.
        period_ms: length of a new cycle, and smallest age of the files that it erases.
    """
    now_ms = snapshot.now_ms
    stored = stored_state(snapshot)
    is_over = stored is None or stored.end_ms <= now_ms
    goes_on = stored is not None and stored.start_ms <= now_ms < stored.end_ms <= now_ms + period_ms
    if stored is not None and goes_on:
        pending = [file for file in snapshot.end.files if file.file_no in stored.pending]
        return EraserCycle(stored, True, sum(file.size for file in pending))
    chosen = [file for file in snapshot.end.files[:-1] if _is_old(file, now_ms - period_ms)]
    size = sum(file.size for file in chosen)
    state = EraserState(
        start_ms=now_ms,
        end_ms=now_ms + period_ms,
        total_work=CYCLE_WORK * size,
        completed=(),
        pending=tuple(file.file_no for file in chosen),
        version=None if stored is None else stored.version,
        oldest_obsolete_lsn=None if stored is None else stored.oldest_obsolete_lsn,
    )
    return EraserCycle(state, False, size, None if is_over else stored)


def _is_old(file: LogFile, cutoff_ms: int) -> bool:
    """Return True if a file was created at a time or before; False if its header is damaged."""
    created_ms = file.header.created_ms
    return created_ms is not None and created_ms <= cutoff_ms
