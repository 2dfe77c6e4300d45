"""A file opened read-only for scanning: its size frozen at open, every span bounds-checked.

`preadv` copies bytes into a buffer that each thread reuses. Unlike a memory map, this survives a
file that is truncated under the reader, and a sector that cannot be read: it is reported as a range
and does not kill the process. It is not slower either, because threads that map and unmap files
wait for each other.
"""

from __future__ import annotations

import errno
import mmap
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from je_tools.formats import _native

Bytes = npt.NDArray[np.uint8]

PIECE_SIZE = 4096
"""Size of the pieces in which a range with unreadable sectors is read."""

_BLANK_PIECE = 1 << 20
"""Size of the pieces in which a range that may be blank is read."""

KEPT_SIZE = 16 << 20
"""Largest scratch array that a thread keeps: one huge entry must not cost memory for ever."""


UNREADABLE = frozenset({errno.EIO, errno.EBADMSG, errno.EILSEQ, errno.EUCLEAN})
"""Error numbers that a device or file system returns for a sector that it cannot deliver intact."""


class SourceError(OSError):
    """A file that can no longer be read, for a reason outside its bytes."""

    @property
    def path(self) -> Path:
        """Path of the file."""
        return Path(self.filename)

    @property
    def reason(self) -> str:
        """Description of the failure."""
        return str(self.strerror)

    def __str__(self) -> str:
        return f"{self.filename}: {self.strerror}"


class SourceChangedError(SourceError):
    """A file that shrank, vanished or was replaced while it was read."""


def changed_error(path: Path, reason: str) -> SourceChangedError:
    """Return the error of a file that changed while it was read."""
    return SourceChangedError(errno.ESTALE, reason, str(path))


@contextmanager
def as_source_errors(path: Path) -> Iterator[None]:
    """Convert system errors about a file that is being read to SourceError.

    A lack of memory is not an error of the file, and must not pass for damage.
    """
    try:
        yield
    except SourceError:
        raise
    except FileNotFoundError as error:
        raise changed_error(path, "removed while it was read") from error
    except OSError as error:
        if error.errno == errno.ENOMEM:
            raise MemoryError(f"{path}: {error.strerror}") from error
        changed = error.errno == errno.ESTALE
        kind = SourceChangedError if changed else SourceError
        raise kind(error.errno, error.strerror, str(path)) from error


class Identity(Struct, frozen=True):
    """Device and inode, which distinguish a file from another of the same name."""

    device: int
    inode: int


class _Buffers(threading.local):
    """One scratch array per thread, as large as the largest request up to KEPT_SIZE."""

    def __init__(self) -> None:
        self.array: Bytes = np.empty(0, dtype=np.uint8)

    def take(self, size: int) -> Bytes:
        if size > KEPT_SIZE:
            return _pages(size)
        if len(self.array) < size:
            self.array = _pages(size)
        return self.array[:size]


def _pages(size: int) -> Bytes:
    """Return an array that is unmapped with its last view; malloc would keep much of it."""
    try:
        pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        # Otherwise callers would take it for an error of the file that they read.
        raise MemoryError(f"cannot allocate {size:,} bytes") from error
    if hasattr(mmap, "MADV_HUGEPAGE"):
        pages.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(pages, dtype=np.uint8)


_BUFFERS = _Buffers()


def scratch(size: int) -> Bytes:
    """Return `size` bytes of this thread's scratch array, which `Source.read` also uses."""
    return _BUFFERS.take(size)


class Source:
    """One file. After unpickling, the first read opens it again.

    Attributes:
        path: path of the file.
        size: bytes at open; bytes appended later are not read.
        unreadable: half-open byte ranges that the device could not deliver; they read as zeros.
            Ranges from repeated reads may overlap.
    """

    _file: _native.File | None = None

    def __init__(self, path: Path) -> None:
        self.path = path
        self.unreadable: set[tuple[int, int]] = set()
        with as_source_errors(path):
            self._file = _native.File(path)
            status = os.fstat(self._file.fileno())
        self.size = status.st_size
        self._identity = Identity(status.st_dev, status.st_ino)

    def __getstate__(self) -> tuple[Path, int, Identity]:
        return self.path, self.size, self._identity

    def __setstate__(self, state: tuple[Path, int, Identity]) -> None:
        self.path, self.size, self._identity = state
        self.unreadable = set()

    @property
    def scan_unit(self) -> int:
        """Number of bytes; ranges of a scan should be multiples of it."""
        return 1

    def file(self) -> _native.File | None:
        """Return the file for native code, which calls only `read_bytes` if this is None."""
        return self._opened()

    def _opened(self) -> _native.File:
        """Return the file; after unpickling, open it again if it is still the same one."""
        if self._file is None:
            self.check_unchanged()
            with as_source_errors(self.path):
                self._file = _native.File(self.path)
        return self._file

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        # An abandoned scan leaves files open that other threads may still be reading.
        self.close()

    def close(self) -> None:
        """Close the file; arrays returned before stay valid."""
        if self._file is not None:
            self._file.close()

    def read(self, start: int, stop: int) -> Bytes:
        """Return bytes [start, stop), read-only uint8, valid until this thread reads again.

        Raises:
            ValueError: the span is outside the file as it was at open.
            SourceChangedError: the file has shrunk.
            SourceError: the file cannot be read, for a reason other than unreadable sectors.
        """
        if not 0 <= start <= stop <= self.size:
            raise ValueError(f"{self.path}: span {start}..{stop} is not in 0..{self.size}")
        array = _BUFFERS.take(stop - start)
        self._fill(array.data, start)
        view = array.view()
        view.flags.writeable = False
        return view

    def read_bytes(self, start: int, stop: int) -> bytes:
        """Return a copy of a short span, cut at the end of the file."""
        stop = min(stop, self.size)
        data = bytearray(max(stop - start, 0))
        if not data:
            return b""
        self._fill(memoryview(data), start)
        return bytes(data)

    def is_blank(self, start: int, stop: int) -> bool:
        """Return True if bytes [start, stop) are all zero; they are read in pieces.

        Raises:
            ValueError, SourceChangedError, SourceError: as `read`.
        """
        pieces = range(start, stop, _BLANK_PIECE)
        return not any(self.read(at, min(at + _BLANK_PIECE, stop)).any() for at in pieces)

    def is_hole(self, start: int, stop: int) -> bool:
        """Return True if bytes [start, stop) are a hole of the file, which reads as zeros.

        A file system without holes has none. Bytes after the end of a file that shrank are not a
        hole.

        Raises:
            SourceChangedError: the file has been replaced since it was pickled.
        """
        fd = self._opened().fileno()
        try:
            return os.lseek(fd, start, os.SEEK_DATA) >= stop
        except OSError as error:
            # No data follows; other errors come from file systems that cannot tell.
            return error.errno == errno.ENXIO and start < stop <= os.fstat(fd).st_size

    def limit(self, size: int) -> None:
        """Limit reads to the `size` bytes that the file had before it grew.

        Raises:
            SourceChangedError: the file is shorter.
        """
        if self.size < size:
            reason = f"shrank from {size} to {self.size} bytes while it was read"
            raise changed_error(self.path, reason)
        self.size = size

    def check_unchanged(self) -> None:
        """Raise SourceChangedError if the file has shrunk, vanished or been replaced since open."""
        with as_source_errors(self.path):
            status = self.path.stat()
        if Identity(status.st_dev, status.st_ino) != self._identity:
            raise changed_error(self.path, "replaced while it was read")
        if status.st_size < self.size:
            reason = f"shrank from {self.size} to {status.st_size} bytes while it was read"
            raise changed_error(self.path, reason)

    def _fill(self, target: memoryview, start: int) -> None:
        self._opened()
        with as_source_errors(self.path):
            self._fill_all(target, start)

    def _fill_all(self, target: memoryview, start: int) -> None:
        fd = self._opened().fileno()
        done = 0
        while done < len(target):
            try:
                count = os.preadv(fd, [target[done:]], start + done)
            except OSError as error:
                if error.errno not in UNREADABLE:
                    raise
                count = self._fill_piece(fd, target, start, done)
            if count == 0:
                size = os.fstat(fd).st_size
                reason = f"shrank from {self.size} to {size} bytes while it was read"
                raise changed_error(self.path, reason)
            done += count

    def _fill_piece(self, fd: int, target: memoryview, start: int, done: int) -> int:
        """Read one piece of a span with unreadable sectors; an unreadable piece becomes zeros."""
        at = start + done
        stop = min(at - at % PIECE_SIZE + PIECE_SIZE, start + len(target))
        piece = target[done : done + stop - at]
        try:
            return os.preadv(fd, [piece], at)
        except OSError as error:
            if error.errno not in UNREADABLE:
                raise
        piece[:] = bytes(len(piece))
        self.unreadable.add((at, stop))
        return len(piece)
