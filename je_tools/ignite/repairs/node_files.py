"""The files of a node during an operation that changes them, by names that a journal may hold."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, Any

from je_tools.core.escaping import quoted
from je_tools.errors import RefusedError
from je_tools.writing.frames import FOLDER
from je_tools.writing.refusing import changed_since
from je_tools.writing.stamps import FileStamp, stamp_of

if TYPE_CHECKING:
    from je_tools.ignite.store import Node

_ROOTS = ("node", "work", "archive")


class NodeFiles:
    """The three folders of a node: caches and markers, the work ring, the archive.

    The name of a file is its path below one of them, after `node/`, `work/` or `archive/`.

    Attributes:
        home: folder of caches and markers; the undo journals lie in it.
        others: folders of segments.
    """

    def __init__(self, node: Node) -> None:
        """Find the folders.

        Raises:
            RefusedError: the node was opened without its folder, as loose segments.
        """
        if node.db is None:
            raise RefusedError(
                "segments alone cannot be changed: name the work directory of the node, which has "
                "the lock and the folder of its caches"
            )
        wal = node.db.parent / "wal"
        self.home = node.db
        self.others = [wal / node.name, wal / "archive" / node.name]
        self._roots = dict(zip(_ROOTS, [node.db, *self.others], strict=True))

    def name(self, path: Path) -> str:
        """Return the name of a file.

        Raises:
            ValueError: it lies in no folder of the node.
        """
        for root, folder in self._roots.items():
            if path.is_relative_to(folder):
                return f"{root}/{path.relative_to(folder).as_posix()}"
        raise ValueError(f"{path} is no file of the node {self.home}")

    def path(self, name: str) -> Path:
        """Return the path of a name that `is_store_name` accepts."""
        root, _, rest = name.partition("/")
        return self._roots[root] / rest

    def paths(self) -> list[Path]:
        """Return the paths of all regular files, without those of journals."""
        return sorted({path for root in self._roots.values() for path in _files_in(root)})

    def stamps(self) -> dict[Path, FileStamp]:
        """Return the states of all files, by which a later change is detected."""
        return {path: stamp_of(path) for path in self.paths()}

    def listed(self) -> list[tuple[str, int, int]]:
        """Return names, sizes and times of all files."""
        stamps = self.stamps()
        return [(self.name(path), at.size, at.modified_ns) for path, at in stamps.items()]

    def check_unchanged(self, stamps: Mapping[Path, FileStamp]) -> None:
        """Refuse to write if the files are no longer as they were read.

        Raises:
            RefusedError: a file was added, removed, replaced or written to.
        """
        now = self.stamps()
        for path in sorted(now.keys() | stamps.keys()):
            if path not in stamps:
                raise changed_since(path, "did not exist")
            if path not in now:
                raise changed_since(path, "existed")
            if now[path] != stamps[path]:
                raise changed_since(path, "was not as it is now")

    def owner_stat(self) -> os.stat_result:
        """Return the owner, group and mode of new files: those of a file of the metastorage."""
        for path in (self.home / "metastorage" / "part-0.bin", *self.paths()):
            if path.is_file():
                return path.stat()
        raise RefusedError(f"{self.home}: the node has no files")

    def has_journals(self) -> bool:
        """Return True if there is a folder of undo journals, even an empty one."""
        return any(os.path.lexists(each / FOLDER) for each in (self.home, *self.others))

    def undo_words(self) -> str:
        """Return the command that lists the undo journals, without backquotes, for messages."""
        return f"je-tools ignite undo {quoted(str(self.home))}"


def is_store_name(value: Any) -> bool:
    """Return True if a name can be that of a file of a node; it leads out of no folder."""
    if not isinstance(value, str) or "\0" in value:
        return False
    root, *parts = value.split("/")
    is_below = all(part not in ("", ".", "..", FOLDER) for part in parts)
    return root in _ROOTS and 1 <= len(parts) <= 2 and is_below


def _files_in(root: Path) -> Iterator[Path]:
    """Yield the regular files of a folder and of the folders in it, without those of journals."""
    for pattern in ("*", "*/*"):
        for path in root.glob(pattern):
            is_journal = FOLDER in path.relative_to(root).parts
            if not is_journal and S_ISREG(path.lstat().st_mode):
                yield path
