"""Verification of an append: read the log again, and compare it with the plan."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from je_tools.checkpoint.log_end import is_to_cut
from je_tools.checkpoint.rollbacks import missing_invisible_marks
from je_tools.checkpoint.utilization_tracker import track_utilization
from je_tools.checkpoint.vlsn_records import recovered_vlsn_index
from je_tools.errors import RefusedError
from je_tools.formats.je.header import NULL_LSN, lsn_text
from je_tools.log.opening import open_environment
from je_tools.recovery.internal_databases import is_replicated
from je_tools.recovery.opening import held_snapshot
from je_tools.writing.refusing import undo_command

if TYPE_CHECKING:
    from je_tools.append.operation import AppendOperation, AppendResult
    from je_tools.recovery.snapshot import Snapshot


def check_appended(
    before: Snapshot, operation: AppendOperation, result: AppendResult, home: Path
) -> None:
    """Check that the log, read again, ends as planned, and that the engine would continue with it.

    Args:
        before: the log before the operation.
        operation: the operation.
        result: what it has written.
        home: directory of the written log.

    Raises:
        RefusedError: it does not end as planned, or the engine would not continue with it.
    """
    environment = open_environment([home])
    # One thread is enough for what was written; the rest is still in the page cache.
    scanner = replace(before.scanner, threads=1, progress=None)
    with held_snapshot(environment, scanner, now_ms=before.now_ms, as_member=True) as after:
        wrong = _wrong_end(after, result) or operation.difference(before, after)
    if wrong:
        name = before.environment.name
        raise RefusedError(
            f"{name}: the {operation.name} was written, but {wrong}. This is a bug of je-tools: "
            f"please report it. {undo_command(Path(name))} reverts the {operation.name}."
        )


def _wrong_end(after: Snapshot, result: AppendResult) -> str:
    """Return what is wrong with the end of a written log, or ''."""
    if result.last_lsn not in (NULL_LSN, after.end.last_lsn):
        return f"the log ends at {lsn_text(after.end.last_lsn)}"
    if after.refusals:
        return f"the engine would refuse the log ({', '.join(map(str, after.refusals))})"
    if is_to_cut(after) or missing_invisible_marks(after):
        return "the log needs recovery"
    if is_replicated(after):
        recovered_vlsn_index(after, track_utilization(after, frozenset()).stream)
    return ""
