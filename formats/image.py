"""The files of a log behind each other in one flat array, for reads at random places.

A tree is read at millions of places of which nobody knows the order in advance, and by kernels,
which cannot open files. The files are mapped read-only into one stretch of address space, so that
a place in the log is one number, and what is not looked at costs nothing. Sizes are frozen when
the image is made. What the device cannot deliver under a map is taken as zeros, with all that the
file has behind it (`native/src/maps.rs`), and `Image.lost` tells of it; whatever is read from end
to end is read with `formats.source`, which goes round such places byte by byte.

Source: mmap(2), Linux.
"""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from msgspec import Struct

from je_tools.formats import _native
from je_tools.formats.arrays import Ints, Mask
from je_tools.formats.source import Bytes, SourceChangedError, SourceError, as_source_errors

NOWHERE = -1
"""The position of an LSN whose file is not there, or ends before it."""


class Part(Struct, frozen=True):
    """A file of an image: bytes [0, stop) of `path` count, and its entries are of `version`."""

    path: Path
    file_no: int
    version: int
    stop: int


class Image:
    """Files of a log as one array.

    Attributes:
        data: uint8, read-only; behind a file's end zeros up to the next page.
        file_nos, starts, stops: int64, one a file, ascending: its number, where its first byte
            is in `data`, and where its bytes end.
        versions: int64, one a file.
    """

    def __init__(self, parts: Sequence[Part]) -> None:
        """Map files.

        Raises:
            SourceError: one cannot be opened or mapped, or is shorter than it is said to be.
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
        self.data, self._maps = _map_all(parts, self.starts.tolist(), size)

    @property
    def is_torn(self) -> bool:
        """Whether a page could not be read and was taken as zeros; costs nothing."""
        return self._maps is not None and self._maps.torn_at >= 0

    def lost(self) -> Path | None:
        """A file that became shorter under the image, or of which a page could not be read.

        Also one of which nobody can tell any more.
        """
        for part in self._parts:
            try:
                is_short = part.path.stat().st_size < part.stop
            except (FileNotFoundError, NotADirectoryError):
                # What is mapped stays.
                is_short = False
            except OSError:
                is_short = True
            if is_short:
                return part.path
        if self._maps is None or not self.is_torn:
            return None
        return self.path_of(self._maps.torn_at)

    def path_of(self, position: int) -> Path:
        """The file that holds a position."""
        return self._parts[int(np.searchsorted(self.starts, position, side="right")) - 1].path

    def places(self, lsns: Ints) -> tuple[Ints, Ints]:
        """Where LSNs are.

        Returns:
            Positions in `data`, NOWHERE where there are none; index of the file, which means
            nothing where the position is NOWHERE.
        """
        file_nos = lsns >> 32 & 0xFFFFFFFF
        if not len(self.file_nos):
            return np.full(len(lsns), NOWHERE, np.int64), np.zeros(len(lsns), np.int64)
        found = np.minimum(np.searchsorted(self.file_nos, file_nos), len(self.file_nos) - 1)
        positions = self.starts[found] + (lsns & 0xFFFFFFFF)
        there: Mask = (self.file_nos[found] == file_nos) & (positions < self.stops[found])
        return np.where(there, positions, NOWHERE), found

    def lsns(self, positions: Ints) -> Ints:
        """The LSNs of positions that are inside files."""
        found = np.searchsorted(self.starts, positions, side="right") - 1
        return self.file_nos[found] << 32 | (positions - self.starts[found])


def _map_all(
    parts: Sequence[Part], starts: Sequence[int], size: int
) -> tuple[Bytes, _native.Maps | None]:
    """Return one array over all files; its memory goes with the last view of it."""
    if size == 0:
        return np.empty(0, np.uint8), None
    try:
        maps = _native.Maps([*starts[1:], size])
        for part, start in zip(parts, starts, strict=True):
            if part.stop > 0:
                _map_file(maps, part, start)
    except SourceError:
        raise
    except OSError as error:
        reason = f"{error.strerror}: {os.strerror(error.errno or 0)}"
        raise SourceError(error.errno, reason, error.filename) from error
    return np.frombuffer(memoryview(maps), np.uint8), maps


def _map_file(maps: _native.Maps, part: Part, at: int) -> None:
    with as_source_errors(part.path):
        file = _native.File(part.path)
    try:
        size = os.fstat(file.fileno()).st_size
        if size < part.stop:
            reason = f"shrank from {part.stop} to {size} bytes while the log was read"
            raise SourceChangedError(errno.ESTALE, reason, str(part.path))
        maps.map(file, str(part.path), at, part.stop)
    finally:
        file.close()
