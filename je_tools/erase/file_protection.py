"""Protection of files from an erasure: those with a second hard link, and those of a backup."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from je_tools.erase.reasons import KeepReason

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    from je_tools.log.log_files import LogFile


def keep_reason(
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
    return KeepReason.HARD_LINK if _is_shared(path, number) else None


def reason_while_erasing(
    file: LogFile, is_protected: Callable[[LogFile], bool], number: int | None = None
) -> KeepReason | None:
    """Return the reason to leave a file as it is, like `keep_reason`, during an erasure.

    Args:
        file: the file.
        is_protected: as in `ErasureHooks`; it may note that the erasure works on the file.
        number: descriptor by which the file is open; None if it is not open.

    Raises:
        RefusedError: the control files cannot be read or written.
        OSError: the file cannot be examined.
    """
    protected = {file.path.name} if is_protected(file) else ()
    return keep_reason(file.path, protected, number)


def _is_shared(path: Path, number: int | None = None) -> bool:
    """Return True if a file has another name, or its name now leads to another file.

    A backup made of hard links must keep its bytes.

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
