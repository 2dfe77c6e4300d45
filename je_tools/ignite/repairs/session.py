"""Applying edits to a store: the node's lock, an undo journal, the edits in order, and a check.

Everything that the edits overwrite is durable in the journal before the first of them is made.
They are made in their order. The changes of a file are durable before another file is changed, and
all changes are durable before an edit that is a barrier, so a planner decides what a crash may
leave.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from je_tools.errors import RefusedError
from je_tools.ignite.repairs.edits import EditKind, StoreEdit
from je_tools.ignite.repairs.frames import moved_name
from je_tools.ignite.repairs.lock import NodeLock
from je_tools.ignite.repairs.node_files import NodeFiles
from je_tools.ignite.repairs.operation import StoreOperation
from je_tools.writing.checksums import crc32c
from je_tools.writing.disk import Disk
from je_tools.writing.file_checks import check_no_link, check_own_file
from je_tools.writing.file_reads import read_at, read_pieces, sum_of
from je_tools.writing.frames import BLOB_MAX
from je_tools.writing.journal_folders import make_folder
from je_tools.writing.refusing import refusing, unlike_written

if TYPE_CHECKING:
    from je_tools.ignite.store import Node
    from je_tools.writing.journal import Journal
    from je_tools.writing.stamps import FileStamp

_ZEROS = bytes(1 << 20)
_FRAME_SIZE = 512
"""Bytes of a frame besides those that it saves, about."""


class StoreSession:
    """A node whose lock is held, for a command that changes its files.

    Open it before the files are read for a plan: edits are only made if no file has changed since.

    Attributes:
        files: the files of the node.
    """

    def __init__(
        self, node: Node, disk: Disk | None = None, unchanged: str = "nothing was changed"
    ) -> None:
        """Prepare the session, without taking the lock or writing anything.

        Args:
            node: the node.
            disk: disk to write to.
            unchanged: words of a refusal before the first write.

        Raises:
            RefusedError: the node was opened without its folder.
        """
        self.files = NodeFiles(node)
        self._disk = disk or Disk()
        self._lock = NodeLock(self.files, self._disk)
        self._stamps: dict[Path, FileStamp] = {}
        self._unchanged = f"; {unchanged}"
        self._operation: StoreOperation | None = None

    def __enter__(self) -> Self:
        """Take the lock, and note the states of all files.

        Raises:
            RefusedError: the node runs, or the files cannot be listed.
        """
        self._lock.__enter__()
        try:
            with refusing():
                self._stamps = self.files.stamps()
        except BaseException:
            self._lock.__exit__()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Release the lock, and add the state of the store to an error that does not report it."""
        self._disk.close()
        self._lock.__exit__()
        if error is not None and self._operation is not None:
            self._operation.add_state(error)

    def apply(
        self, edits: Sequence[StoreEdit], name: str, progress: Callable[[int], None] | None = None
    ) -> int | None:
        """Make edits, and return the number of the undo journal; None if there are none.

        Args:
            edits: the edits, in order; no two write the same bytes.
            name: name of the operation in the journal, as `recover`.
            progress: called with the number of bytes written since the last call.

        Raises:
            RefusedError: a file changed since the session began, or has another hard link; there is
                too little space; an earlier operation was interrupted; a step failed, or the bytes
                read back differ from those written. The text says what state the store is in.
        """
        if not edits:
            return None
        with refusing(lambda: self._unchanged):
            check_edits(edits)
            self._check_space(edits)
        self._operation = StoreOperation(
            name, self.files, self._stamps, self._disk, self._unchanged
        )
        with self._operation.changing() as journal:
            assert journal is not None
            for edit in edits:
                self._record(edit, journal)
            journal.add("ready")
            journal.sync()
            self._make(edits, journal.number, progress)
            self._disk.close()
            for edit in edits:
                self._check(edit)
            self._operation.finish(journal)
            return journal.number

    def _check_space(self, edits: Sequence[StoreEdit]) -> None:
        """Make sure that there is enough free space for the journal and for new bytes.

        Raises:
            RefusedError: there is too little.
        """
        needed: dict[int, int] = {}
        folders: dict[int, Path] = {}

        def need(folder: Path, size: int) -> None:
            device = folder.stat().st_dev
            folders.setdefault(device, folder)
            needed[device] = needed.get(device, 0) + size

        listed = _FRAME_SIZE * (len(self._stamps) + len(edits))
        need(self.files.home, listed)
        for edit in edits:
            if edit.kind is EditKind.SET_ASIDE:
                continue
            if edit.kind is not EditKind.CREATE:
                need(self.files.home, 2 * edit.size)
            size = edit.path.stat().st_size if edit.path.exists() else 0
            need(edit.path.parent, max(edit.end - size, 0))
        for device, size in needed.items():
            info = os.statvfs(folders[device])
            free = info.f_bavail * info.f_frsize
            if free < size:
                raise RefusedError(
                    f"{folders[device]}: {free:,} bytes are free, but up to {size:,} are needed; "
                    "free space first"
                )

    def _record(self, edit: StoreEdit, journal: Journal) -> None:
        """Save what an edit takes away, and record what it writes."""
        name = self.files.name(edit.path)
        if edit.kind is EditKind.SET_ASIDE:
            checksum = sum_of(edit.path, edit.size)
            target = moved_name(name, journal.number)
            journal.add("rename", file=name, target=target, checksum=checksum)
        elif edit.kind is EditKind.CREATE:
            journal.add("create", file=name, size=edit.size)
        else:
            size = edit.path.stat().st_size
            for at, data in read_pieces(edit.path, edit.offset, min(edit.end, size)):
                journal.add("saved", data, file=name, offset=at)
            if edit.kind is EditKind.ZERO:
                journal.add("zero", file=name, offset=edit.offset, size=edit.size)
                return
            for at, new in _pieces(edit):
                journal.add("write", bytes(new), file=name, offset=at)

    def _make(
        self, edits: Sequence[StoreEdit], number: int, progress: Callable[[int], None] | None
    ) -> None:
        unsure: Path | None = None
        for edit in edits:
            if unsure is not None and (edit.is_barrier or edit.path != unsure):
                self._disk.sync(unsure)
                unsure = None
            if edit.kind is EditKind.SET_ASIDE:
                self._set_aside(edit.path, number)
            elif edit.kind is EditKind.CREATE:
                self._create(edit)
            else:
                for at, data in _pieces(edit):
                    self._disk.write(edit.path, at, data)
                unsure = edit.path
            if progress is not None:
                progress(edit.size)
        if unsure is not None:
            self._disk.sync(unsure)

    def _set_aside(self, path: Path, number: int) -> None:
        target = self.files.path(moved_name(self.files.name(path), number))
        make_folder(self._disk, target.parent)
        self._disk.rename(path, target)
        # Sync the target folder first, or a crash may leave the file in neither folder.
        for folder in (target.parent, path.parent):
            self._disk.sync_folder(folder)

    def _create(self, edit: StoreEdit) -> None:
        self._disk.create(edit.path, self.files.owner_stat())
        for at, data in _pieces(edit):
            self._disk.write(edit.path, at, data)
        self._disk.sync(edit.path)
        self._disk.sync_folder(edit.path.parent)

    def _check(self, edit: StoreEdit) -> None:
        """Read back what an edit wrote.

        Raises:
            RefusedError: it differs.
        """
        if edit.kind is EditKind.SET_ASIDE:
            return
        for at, data in _pieces(edit):
            if crc32c(read_at(edit.path, at, len(data), fresh=True)) != crc32c(data):
                raise unlike_written(edit.path, at)
        if edit.kind is EditKind.CREATE and edit.path.stat().st_size != edit.size:
            raise unlike_written(edit.path, edit.size)


def check_edits(edits: Sequence[StoreEdit]) -> None:
    """Make sure that edits can be made: their files are the node's own, and no two overlap.

    Raises:
        RefusedError: a file is a link, one to be created exists, or one to be written in place has
            another hard link.
        ValueError: two edits contradict each other, or one is empty, begins after the end of its
            file, or writes zeros past that end.
    """
    sizes: dict[Path, int] = {}
    spans: dict[Path, list[tuple[int, int]]] = {}
    gone: set[Path] = set()
    for edit in edits:
        path = edit.path
        if edit.kind is EditKind.CREATE:
            if os.path.lexists(path) and path not in gone:
                raise RefusedError(f"{path}: the file exists; move it away first")
            continue
        if path in gone:
            raise ValueError(f"{path} is set aside and then changed")
        if edit.kind is EditKind.SET_ASIDE:
            check_no_link(path)
            gone.add(path)
            if path in spans:
                raise ValueError(f"{path} is changed and then set aside")
            continue
        check_own_file(path)
        size = sizes.setdefault(path, path.stat().st_size)
        if edit.offset > size or edit.size <= 0 or (edit.kind is EditKind.ZERO and edit.end > size):
            raise ValueError(f"{path} of {size} bytes cannot be written at {edit.offset}")
        if any(edit.offset < stop and start < edit.end for start, stop in spans.get(path, ())):
            raise ValueError(f"{path} is written twice at {edit.offset}")
        spans.setdefault(path, []).append((edit.offset, edit.end))
        sizes[path] = max(size, edit.end)


def _pieces(edit: StoreEdit) -> Iterator[tuple[int, bytes | memoryview]]:
    """Yield the bytes that an edit writes, in pieces, each with its offset in the file."""
    if edit.kind is EditKind.ZERO:
        for at in range(edit.offset, edit.end, len(_ZEROS)):
            yield at, memoryview(_ZEROS)[: min(len(_ZEROS), edit.end - at)]
        return
    data = memoryview(edit.data) if isinstance(edit.data, bytes) else edit.data
    for at in range(0, edit.size, BLOB_MAX):
        yield edit.offset + at, data[at : at + BLOB_MAX]
