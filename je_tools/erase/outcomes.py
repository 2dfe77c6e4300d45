"""Outcomes of the erasure of one file."""

from __future__ import annotations

import os
import stat
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from je_tools.erase.results import ErasureHooks
    from je_tools.log.log_files import LogFile


class Outcome(StrEnum):
    """Outcome of the erasure of one file."""

    ERASED = "erased"
    STOPPED = "stopped"
    """The erasure was asked to stop."""
    PROTECTED = "protected"
    """`erase abort` protects the file by now."""
    SHARED = "shared"
    """The file has got another name since the plan, as in a backup of hard links."""


def outcome_before_change(
    file: LogFile, hooks: ErasureHooks, number: int | None = None
) -> Outcome | None:
    """Return why a file must not be changed any further; None if it may be.

    Args:
        file: the file.
        hooks: functions that are called meanwhile.
        number: descriptor by which the file is open; None if it is not open.
    """
    if hooks.should_stop():
        return Outcome.STOPPED
    if hooks.is_protected(file):
        return Outcome.PROTECTED
    return Outcome.SHARED if is_shared(file.path, number) else None


def is_shared(path: Path, number: int | None = None) -> bool:
    """Return True if a file has another name, or its name leads to another file.

    A backup that was made of hard links must keep the bytes that it has.

    Args:
        path: the file.
        number: descriptor by which it is open; None if it is not open.
    """
    try:
        named = path.lstat()
    except FileNotFoundError:
        return True
    if not stat.S_ISREG(named.st_mode) or named.st_nlink != 1:
        return True
    return number is not None and not os.path.samestat(named, os.fstat(number))
