"""The result of an erasure, and the hooks that are called while it runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from je_tools.erase.file_access import OverwriteCounts

if TYPE_CHECKING:
    from je_tools.checkpoint.options import CheckpointResult
    from je_tools.erase.entries_to_erase import EntriesToErase
    from je_tools.erase.in_kind.blanks import Blanks
    from je_tools.erase.plan import ErasurePlan
    from je_tools.formats.je.internal.cleaner import EraserState
    from je_tools.log.log_files import LogFile
    from je_tools.writing.lock import EnvironmentLock, Holder


class ErasureHooks(Struct, frozen=True):
    """Functions that are called during an erasure.

    Attributes:
        should_stop: returns True to stop after the present batch.
        is_protected: called before each change of a file; returns True if the file must stay as it
            is from now on.
        on_reader: called for each reader that has the environment open.
        on_plan: called with the plan before anything is erased.
        on_batch: called with a file and those of its entries that were overwritten.
        on_blanks: called with the path of a file before log version 17, and those of its entries
            that were overwritten in kind.
        on_fsync: called after each fsync, with the file and the time in milliseconds.
        on_erased: called at the end, with the lock still held.
        on_work: called with the bytes of work done since the last call, counted as in `throttle`.
            It may wait.
    """

    should_stop: Callable[[], bool] = lambda: False
    is_protected: Callable[[LogFile], bool] = lambda _file: False
    on_reader: Callable[[Holder], None] = lambda _reader: None
    on_plan: Callable[[ErasurePlan], None] = lambda _plan: None
    on_batch: Callable[[LogFile, EntriesToErase], None] = lambda _file, _batch: None
    on_blanks: Callable[[Path, Blanks], None] = lambda _path, _blanks: None
    on_fsync: Callable[[Path, int], None] = lambda _path, _now_ms: None
    on_erased: Callable[[EnvironmentLock, ErasureResult], None] = lambda _lock, _result: None
    on_work: Callable[[float], None] = lambda _size: None


class ErasureResult(Struct):
    """Result of an erasure.

    Attributes:
        plan: the plan that was carried out.
        checkpoint: the checkpoint that was written first; None if none was needed.
        counts: what was done to files.
        erased: files that were processed.
        deleted: reserved files that were deleted.
        pending: files that are left, because the erasure was stopped.
        protected: files that became protected meanwhile.
        shared: files that got another name meanwhile, and stay as they are.
        left: plan of another erasure afterwards, as a check; None if this one was stopped.
        state: the eraser's record afterwards; None without a cycle.
    """

    plan: ErasurePlan
    checkpoint: CheckpointResult | None = None
    counts: OverwriteCounts = field(default_factory=OverwriteCounts)
    erased: list[LogFile] = field(default_factory=list)
    deleted: list[LogFile] = field(default_factory=list)
    pending: list[LogFile] = field(default_factory=list)
    protected: list[LogFile] = field(default_factory=list)
    shared: list[LogFile] = field(default_factory=list)
    left: ErasurePlan | None = None
    state: EraserState | None = None

    @property
    def untouched(self) -> list[LogFile]:
        """Files that stay as they are, by the plan or because of what happened meanwhile."""
        kept = [each.file for each in self.plan.files if each.kept is not None]
        return [*self.pending, *self.protected, *self.shared, *kept]
