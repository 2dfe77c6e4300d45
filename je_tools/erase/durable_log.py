"""Durability of a log before it is erased.

The checkpoint that makes older entries superfluous must not get lost after they are erased.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from je_tools.writing.log_files import LogFiles
from je_tools.writing.refusing import reporting_state

if TYPE_CHECKING:
    from je_tools.log.environment import Environment
    from je_tools.writing.disk import Disk
    from je_tools.writing.stamps import FileStamp


def make_durable(environment: Environment, stamps: Mapping[Path, FileStamp], disk: Disk) -> None:
    """Make all files of a log and their names durable.

    Args:
        environment: the log.
        stamps: states of the files before they were read; see `stamp_files`.
        disk: disk to write to.

    Raises:
        RefusedError: a file has changed since it was read, or the system refuses it.
    """
    with reporting_state(lambda: "; nothing was erased"):
        LogFiles(environment).check_unchanged(stamps)
        with disk:
            for file in environment.files:
                disk.sync(file.path)
        for folder in {file.path.parent for file in environment.files}:
            disk.sync_folder(folder)
