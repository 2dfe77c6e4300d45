"""Outcomes of the erasure of one file."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from je_tools.erase.file_protection import reason_while_erasing
from je_tools.erase.reasons import KeepReason

if TYPE_CHECKING:
    from je_tools.erase.results import ErasureHooks
    from je_tools.log.log_files import LogFile


class FileOutcome(StrEnum):
    """Outcome of the erasure of one file."""

    ERASED = "erased"
    STOPPED = "stopped"
    """The erasure was asked to stop."""
    PROTECTED = "protected"
    """`erase abort` has protected the file since the plan."""
    SHARED = "shared"
    """The file has got another name since the plan, as in a backup of hard links."""


def outcome_before_change(
    file: LogFile, hooks: ErasureHooks, number: int | None = None
) -> FileOutcome | None:
    """Return why a file must not be changed any further; None if it may be.

    Args:
        file: the file.
        hooks: functions that are called meanwhile.
        number: descriptor by which the file is open; None if it is not open.
    """
    if hooks.should_stop():
        return FileOutcome.STOPPED
    reason = reason_while_erasing(file, hooks.is_protected, number)
    if reason is None:
        return None
    return FileOutcome.PROTECTED if reason is KeepReason.PROTECTED else FileOutcome.SHARED
