"""The files of a log mapped one after the other into one flat array, for random reads.

A B-tree is read at millions of positions in an unpredictable order. The files are mapped read-only
into one stretch of address space, so that native code needs one number for a place in the log, and
pages that nobody reads cost nothing. Sizes are frozen when the image is made. If the device cannot
deliver a page, the SIGBUS guard (`native/src/maps.rs`) puts zeros in place of it and of the rest of
its file, and `Image.lost` reports the file. Sequential reads use `formats.files.source`, which
loses only the unreadable parts of a file. Bytes of remote files must be loaded before they are
read.

Source: mmap(2), Linux.
"""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
from msgspec import Struct

from je_tools.formats import _native
from je_tools.formats.files.source import Bytes, SourceChangedError, SourceError, as_source_errors

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints, Mask

NOWHERE = -1
"""Position of an LSN whose file is missing or ends before it."""


class ImagePart(Struct, frozen=True):
    """A file of an image: bytes [0, stop) of `path`, with entries of log version `version`."""

    path: Path
    file_no: int
    version: int
    stop: int


class Copies(Protocol):
    """Fetched bytes of remote files; see `remote_copies`."""

    file: _native.File

    def load(self, positions: Ints, sizes: Ints) -> None:
        """Fetch spans, unless they are there."""

    def check_unchanged(self) -> None:
        """Check the files of which something was fetched."""


MakeCopies = Callable[[Sequence[Path], "Ints", "Ints", int], Copies]
"""Makes copies of paths, given the positions of their first bytes and ends, and the whole size."""


class Image:
    """Files of a log as one array.

    Attributes:
        data: uint8, read-only; each file is padded with zeros to a whole page.
        file_nos, starts, stops: int64, one per file, ascending: its number, and the positions in
            `data` of its first byte and after its last byte.
        versions: int64, one per file; its log version.
        before_fetch: called before each batch of entries is read; None for nothing.
    """

    before_fetch: Callable[[], None] | None = None

    def __init__(self, parts: Sequence[ImagePart], copied: MakeCopies | None = None) -> None:
        """Map files.

        Args:
            parts: the files.
            copied: makes the copies that are mapped in place of remote files.

        Raises:
            SourceError: a file cannot be opened or mapped, or is shorter than its `stop`.
        """
        parts = sorted(parts, key=lambda part: part.file_no)
        sizes = np.array([-(-part.stop // mmap.PAGESIZE) * mmap.PAGESIZE for part in parts])
        ends = np.cumsum(sizes, dtype=np.int64)
        self.file_nos: Ints = np.array([part.file_no for part in parts], np.int64)
        self.versions: Ints = np.array([part.version for part in parts], np.int64)
        self.starts: Ints = np.concatenate((np.zeros(1, np.int64), ends))[: len(parts)]
        self.stops: Ints = self.starts + np.array([part.stop for part in parts], np.int64)
        size = int(ends[-1]) if len(parts) else 0
        self._parts = parts
        self._copies: Copies | None = None
        paths = [part.path for part in parts]
        if copied is not None:
            self._copies = copied(paths, self.starts, self.stops, size)
        self.data, self._maps = _map_all(parts, self.starts.tolist(), size, self._copies)

    @property
    def is_remote(self) -> bool:
        """True if bytes must be loaded before they are read."""
        return self._copies is not None

    def load(self, positions: Ints, sizes: Ints) -> None:
        """Fetch spans of remote files, unless they are there; do nothing for files of this host.

        Args:
            positions: int64; first byte of each span, inside a file; or NOWHERE.
            sizes: int64; number of bytes.

        Raises:
            SourceError: they cannot be fetched.
        """
        if self._copies is not None:
            is_there = positions != NOWHERE
            self._copies.load(positions[is_there], sizes[is_there])

    @property
    def has_lost_page(self) -> bool:
        """True if a page could not be read and was replaced by zeros; costs nothing."""
        return self._maps is not None and self._maps.lost_at >= 0

    def lost(self) -> Path | None:
        """Return a file that shrank since it was mapped, or has an unreadable page; else None.

        A file whose size can no longer be determined counts as lost.

        Raises:
            SourceError: a remote file has changed, or its store does not say.
        """
        if self._copies is not None:
            self._copies.check_unchanged()
        for part in self._parts if self._copies is None else ():
            try:
                is_short = part.path.stat().st_size < part.stop
            except (FileNotFoundError, NotADirectoryError):
                # The mapping of a deleted file stays valid.
                is_short = False
            except OSError:
                is_short = True
            if is_short:
                return part.path
        if self._maps is None or not self.has_lost_page:
            return None
        return self.path_of(self._maps.lost_at)

    def path_of(self, position: int) -> Path:
        """Return the path of the file that contains a position."""
        return self._parts[int(np.searchsorted(self.starts, position, side="right")) - 1].path

    def places(self, lsns: Ints) -> tuple[Ints, Ints]:
        """Return the positions of LSNs.

        Returns:
            Positions in `data`, or NOWHERE; index of each LSN's file, which is meaningless if the
            position is NOWHERE.
        """
        file_nos = lsns >> 32 & 0xFFFFFFFF
        if not len(self.file_nos):
            return np.full(len(lsns), NOWHERE, np.int64), np.zeros(len(lsns), np.int64)
        found = np.minimum(np.searchsorted(self.file_nos, file_nos), len(self.file_nos) - 1)
        positions = self.starts[found] + (lsns & 0xFFFFFFFF)
        there: Mask = (self.file_nos[found] == file_nos) & (positions < self.stops[found])
        return np.where(there, positions, NOWHERE), found

    def lsns(self, positions: Ints) -> Ints:
        """Return the LSNs of positions inside files."""
        found = np.searchsorted(self.starts, positions, side="right") - 1
        return self.file_nos[found] << 32 | (positions - self.starts[found])


def _map_all(
    parts: Sequence[ImagePart], starts: Sequence[int], size: int, copies: Copies | None
) -> tuple[Bytes, _native.Maps | None]:
    """Return one array over all files; its memory is unmapped with the last view of it."""
    if size == 0:
        return np.empty(0, np.uint8), None
    try:
        maps = _native.Maps([*starts[1:], size])
        if copies is not None:
            maps.map(copies.file, "a temporary file", 0, size)
        for part, start in zip(parts, starts, strict=True):
            if part.stop > 0 and copies is None:
                _map_file(maps, part, start)
    except SourceError:
        raise
    except OSError as error:
        if error.errno == errno.ENOMEM:
            raise MemoryError(f"cannot map {size:,} bytes") from error
        reason = f"{error.strerror}: {os.strerror(error.errno or 0)}"
        raise SourceError(error.errno, reason, error.filename) from error
    return np.frombuffer(memoryview(maps), np.uint8), maps


def _map_file(maps: _native.Maps, part: ImagePart, at: int) -> None:
    with as_source_errors(part.path):
        file = _native.File(part.path)
    try:
        size = os.fstat(file.fileno()).st_size
        if size < part.stop:
            reason = f"shrank from {part.stop} to {size} bytes while the log was read"
            raise SourceChangedError(errno.ESTALE, reason, str(part.path))
        # The name is only for errors, and the extension accepts only UTF-8.
        name = os.fsencode(part.path).decode("utf-8", "backslashreplace")
        maps.map(file, name, at, part.stop)
    finally:
        file.close()
