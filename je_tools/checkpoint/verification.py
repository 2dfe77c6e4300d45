"""Verification of a written checkpoint: read the log again, and compare its records."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from je_tools.checkpoint.comparison import Compared, compare_records
from je_tools.checkpoint.pending_work import is_needed
from je_tools.core.escaping import quoted
from je_tools.errors import RefusedError
from je_tools.formats.je.header import lsn_text
from je_tools.log.opening import open_environment
from je_tools.recovery.opening import held_snapshot

if TYPE_CHECKING:
    from je_tools.checkpoint.contents import CheckpointContents
    from je_tools.recovery.snapshot import Snapshot


def check_written(before: Snapshot, checkpoint: CheckpointContents, home: Path) -> Compared:
    """Read the log again, and check that it ends with the checkpoint and has the same records.

    Raises:
        RefusedError: the log is not as planned, which is a bug of je-tools.
        StoppedError: a file shrank meanwhile.
    """
    environment = open_environment([home])
    # One thread is enough for what was written; the rest is still in the page cache.
    scanner = replace(before.scanner, threads=1, progress=None)
    with held_snapshot(environment, scanner, now_ms=before.now_ms, as_member=True) as after:
        is_at_rest = after.checkpoint.end_lsn == checkpoint.end_lsn and not after.refusals
        is_at_rest = is_at_rest and not is_needed(after)
        own = {*checkpoint.records, *(each.name or "" for each in checkpoint.created.values())}
        compared = compare_records(before, after, own)
    what = "" if is_at_rest else "the log needs recovery again"
    if compared.different:
        what = f"the records of {', '.join(compared.different)} have changed"
    if what:
        name = before.environment.name
        raise RefusedError(
            f"{name}: the checkpoint at {lsn_text(checkpoint.end_lsn)} was written, but {what}. "
            f"This is a bug of je-tools: please report it. `je-tools undo {quoted(name)} "
            "--apply` reverts the checkpoint."
        )
    return compared
