"""The lock that a node holds while it runs: byte 0 of the file `lock` in its folder.

Source: FileLockHolder, NodeFileTree, Ignite 2.18.0.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from je_tools.core.escaping import quoted
from je_tools.errors import RefusedError
from je_tools.ignite.store import LOCK_NAME
from je_tools.writing.lock import FileLock

if TYPE_CHECKING:
    from je_tools.ignite.repairs.node_files import NodeFiles
    from je_tools.writing.disk import Disk


class NodeLock(FileLock):
    """The lock of a node, so that no node starts on its folder."""

    def __init__(self, files: NodeFiles, disk: Disk | None = None) -> None:
        super().__init__(files.home / LOCK_NAME, disk)
        self._files = files

    def stat_for_new_file(self) -> os.stat_result:
        """Return the status of a file of the node."""
        return self._files.owner_stat()

    def refusal(self, holders: str) -> RefusedError:
        """Return the error for a node that is running."""
        return RefusedError(
            f"{self.path}: {holders} runs on this folder; stop the node first. "
            f"`je-tools ignite info {quoted(str(self._files.home))}` shows the lock"
        )
