"""Checks before an append: that the engine would open the log and continue after its last entry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from je_tools.checkpoint.checks import check_readable
from je_tools.checkpoint.directories import check_layout
from je_tools.checkpoint.judged_versions import VERSION_MIN
from je_tools.checkpoint.log_end import is_to_cut
from je_tools.checkpoint.rollbacks import missing_invisible_marks
from je_tools.core.escaping import quoted
from je_tools.errors import InputError, RefusedError

if TYPE_CHECKING:
    from je_tools.recovery.snapshot import Snapshot


def check_appendable(snapshot: Snapshot) -> None:
    """Check that entries may be appended to a log.

    Raises:
        RefusedError: recovery would cut the log or finish a rollback first, the part that it reads
            has damage, or the engine would not open the log.
        InputError: the log version can only be read.
    """
    name = snapshot.environment.name
    version = snapshot.end.files[-1].version
    if version < VERSION_MIN:
        raise InputError(
            f"{name}: je-tools does not write a log of version {version}, only of {VERSION_MIN} "
            "or later"
        )
    check_layout(snapshot.environment)
    check_readable(snapshot.environment)
    recover = f"`je-tools recover {quoted(name)} --apply`"
    if snapshot.refusals:
        listed = ", ".join(map(str, snapshot.refusals))
        raise RefusedError(
            f"{name}: the engine would refuse to open this log ({listed}), and entries that are "
            f"appended would not change that. `je-tools recover {quoted(name)}` shows what to do."
        )
    if is_to_cut(snapshot):
        raise RefusedError(
            f"{name}: other bytes follow the last entry of the log, and must be cut off first. "
            f"{recover} does that. Without --apply, it shows what would be lost."
        )
    if missing_invisible_marks(snapshot):
        raise RefusedError(f"{name}: a rollback was not finished. {recover} finishes it.")
