"""Files that no erasure may change now: those with another name, and those of a backup."""

from __future__ import annotations

from typing import TYPE_CHECKING

from je_tools.erase.outcomes import is_shared
from je_tools.erase.reasons import KeepReason

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from je_tools.erase.control import ErasureControl
    from je_tools.log.log_files import LogFile


def left_reason(
    path: Path, protected: Collection[str], number: int | None = None
) -> KeepReason | None:
    """Return the reason to leave a file as it is; None if it may be changed.

    Args:
        path: the file.
        protected: names of the files that `erase abort` protects.
        number: descriptor by which the file is open; None if it is not open.

    Raises:
        OSError: the file cannot be examined.
    """
    if path.name in protected:
        return KeepReason.PROTECTED
    if path.is_symlink():
        return KeepReason.SYMBOLIC_LINK
    return KeepReason.HARD_LINK if is_shared(path, number) else None


def reason_while_erasing(
    file: LogFile, control: ErasureControl, number: int | None = None
) -> KeepReason | None:
    """Return the reason as `left_reason`; if there is none, note that the erasure works on a file.

    Raises:
        RefusedError: the control files cannot be read or written.
        OSError: the file cannot be examined.
    """
    protected = {file.path.name} if control.is_protected(file) else ()
    return left_reason(file.path, protected, number)
