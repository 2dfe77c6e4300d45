"""Edits of a store: what is changed in which file, and why."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from je_tools.errors import StoppedError
from je_tools.writing.file_reads import read_at


class MadeBytes(Protocol):
    """Bytes of an edit that are made when they are written: all of them may not fit in memory."""

    def __len__(self) -> int:
        """Return their number."""

    def __getitem__(self, span: slice, /) -> bytes:
        """Return some of them."""


class FileBytes:
    """Bytes of a file that no edit changes, read when they are needed."""

    def __init__(self, path: Path) -> None:
        """Select all bytes that a file has now."""
        self._path, self._size = path, path.stat().st_size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, span: slice) -> bytes:
        start, stop, _ = span.indices(self._size)
        found = read_at(self._path, start, max(stop - start, 0))
        if len(found) < stop - start:
            raise StoppedError(f"{self._path}: it became shorter while it was copied")
        return found


EditBytes = bytes | memoryview | MadeBytes


class EditKind(StrEnum):
    """Kinds of edits."""

    WRITE = "write"
    """Bytes are written at an offset, also past the end of the file."""
    ZERO = "zero"
    """Bytes are overwritten with zeros."""
    CREATE = "create"
    """A file is created."""
    SET_ASIDE = "set-aside"
    """A file is moved into the undo journal."""


class StoreEdit(Struct, frozen=True):
    """A change of one file.

    Attributes:
        kind: kind of the change.
        path: path of the file.
        reason: why it is changed, in words.
        offset: offset of the first byte.
        size: number of bytes that are written; for a file that is set aside, its size.
        data: bytes to write; empty for a kind that needs none.
        is_barrier: True if all edits before must be durable before this one begins.
    """

    kind: EditKind
    path: Path
    reason: str
    offset: int
    size: int
    data: EditBytes = b""
    is_barrier: bool = False

    @property
    def end(self) -> int:
        """Offset after the last byte that is written."""
        return self.offset + self.size


def write_bytes(
    path: Path, offset: int, data: EditBytes, reason: str, *, is_barrier: bool = False
) -> StoreEdit:
    """Return an edit that writes bytes from an offset in a file, or from its end."""
    kind = EditKind.WRITE
    return StoreEdit(kind, path, reason, offset, len(data), data, is_barrier=is_barrier)


def write_zeros(
    path: Path, offset: int, size: int, reason: str, *, is_barrier: bool = False
) -> StoreEdit:
    """Return an edit that overwrites bytes of a file with zeros."""
    return StoreEdit(EditKind.ZERO, path, reason, offset, size, is_barrier=is_barrier)


def create_file(path: Path, data: EditBytes, reason: str, *, is_barrier: bool = True) -> StoreEdit:
    """Return an edit that creates a file; by default, all edits before are durable by then."""
    return StoreEdit(EditKind.CREATE, path, reason, 0, len(data), data, is_barrier=is_barrier)


def set_aside(path: Path, reason: str, *, is_barrier: bool = True) -> StoreEdit:
    """Return an edit that moves a file out of the store, into the undo journal."""
    size = path.stat().st_size
    return StoreEdit(EditKind.SET_ASIDE, path, reason, 0, size, is_barrier=is_barrier)
