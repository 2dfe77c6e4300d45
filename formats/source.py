"""A file opened read-only for scanning: its size frozen at open, every span bounds-checked.

Bytes are copied by `preadv` into a buffer that each thread reuses. Unlike a map that survives
what forensics meets: a file cut short under the reader, and a sector that cannot be read, which
is reported as a range instead of killing the process. Threads that map and unmap wait for each
other, so that it is not slower either.
"""

from __future__ import annotations

import errno
import mmap
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from je_tools.formats import _native

Bytes = npt.NDArray[np.uint8]

PIECE_SIZE = 4096
"""How finely a range with unreadable sectors is taken apart."""

KEPT_SIZE = 16 << 20
"""The largest scratch array that a thread keeps: one huge entry must not cost memory for ever."""


UNREADABLE = frozenset({errno.EIO, errno.EBADMSG, errno.EILSEQ, errno.EUCLEAN})
"""What a device or a file system answers for a sector that it cannot deliver right."""


class SourceError(OSError):
    """The file cannot be read any more, for a reason that is not in its bytes."""

    @property
    def path(self) -> Path:
        """The file."""
        return Path(self.filename)

    @property
    def reason(self) -> str:
        """What happened, in words."""
        return str(self.strerror)

    def __str__(self) -> str:
        return f"{self.filename}: {self.strerror}"


class SourceChangedError(SourceError):
    """The file shrank, vanished or was replaced while it was read."""


def _changed(path: Path, reason: str) -> SourceChangedError:
    return SourceChangedError(errno.ESTALE, reason, str(path))


@contextmanager
def as_source_errors(path: Path) -> Iterator[None]:
    """What the system says of a file that is read, as SourceError."""
    try:
        yield
    except SourceError:
        raise
    except FileNotFoundError as error:
        raise _changed(path, "removed while it was read") from error
    except OSError as error:
        changed = error.errno == errno.ESTALE
        kind = SourceChangedError if changed else SourceError
        raise kind(error.errno, error.strerror, str(path)) from error


class Identity(Struct, frozen=True):
    """What tells a file from another of the same name."""

    device: int
    inode: int


class _Buffers(threading.local):
    """One scratch array a thread, grown to the largest common span that was asked of it."""

    def __init__(self) -> None:
        self.array: Bytes = np.empty(0, dtype=np.uint8)

    def take(self, size: int) -> Bytes:
        if size > KEPT_SIZE:
            return _pages(size)
        if len(self.array) < size:
            self.array = _pages(size)
        return self.array[:size]


def _pages(size: int) -> Bytes:
    """An array that goes back to the system with its last view; malloc would keep much of it."""
    pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        pages.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(pages, dtype=np.uint8)


_BUFFERS = _Buffers()


def scratch(size: int) -> Bytes:
    """Return the array of this thread into which `Source.read` reads as well."""
    return _BUFFERS.take(size)


class Source:
    """One file. Where it is unpickled it is opened again, by the first read.

    Attributes:
        path: where it is.
        size: bytes at open; nothing behind is read, however the file grows.
        unreadable: half-open byte ranges that the device could not deliver; they read as zeros.
            They overlap when they were read more than once.
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

    def file(self) -> _native.File | None:
        """Return the file for native code to read; None would have it ask `read_bytes` for all."""
        return self._opened()

    def _opened(self) -> _native.File:
        """Return the file; what was pickled open is opened again, if it is still the same."""
        if self._file is None:
            self.check_unchanged()
            with as_source_errors(self.path):
                self._file = _native.File(self.path)
        return self._file

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        # A scan that is given up leaves files behind that other threads may still be reading.
        self.close()

    def close(self) -> None:
        """Close the file; arrays handed out stay valid."""
        if self._file is not None:
            self._file.close()

    def read(self, start: int, stop: int) -> Bytes:
        """Bytes [start, stop) as a read-only uint8 array, valid until this thread reads again.

        Raises:
            ValueError: the span is not inside the file as it was at open.
            SourceChangedError: the file has become shorter.
            SourceError: it cannot be read, and not because of single sectors.
        """
        if not 0 <= start <= stop <= self.size:
            raise ValueError(f"{self.path}: span {start}..{stop} is not in 0..{self.size}")
        array = _BUFFERS.take(stop - start)
        self._fill(array.data, start)
        view = array.view()
        view.flags.writeable = False
        return view

    def read_bytes(self, start: int, stop: int) -> bytes:
        """A short span as bytes of its own, cut at the end of the file."""
        stop = min(stop, self.size)
        data = bytearray(max(stop - start, 0))
        if not data:
            return b""
        self._fill(memoryview(data), start)
        return bytes(data)

    def limit(self, size: int) -> None:
        """Take the file for one of `size` bytes, which it had before it grew.

        Raises:
            SourceChangedError: it is shorter.
        """
        if self.size < size:
            reason = f"shrank from {size} to {self.size} bytes while it was read"
            raise _changed(self.path, reason)
        self.size = size

    def check_unchanged(self) -> None:
        """Raise SourceChangedError when the file is shorter than at open, gone, or another one."""
        with as_source_errors(self.path):
            status = self.path.stat()
        if Identity(status.st_dev, status.st_ino) != self._identity:
            raise _changed(self.path, "replaced while it was read")
        if status.st_size < self.size:
            reason = f"shrank from {self.size} to {status.st_size} bytes while it was read"
            raise _changed(self.path, reason)

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
                raise _changed(self.path, reason)
            done += count

    def _fill_piece(self, fd: int, target: memoryview, start: int, done: int) -> int:
        """One piece of a span that has unreadable sectors; zeros where it is unreadable."""
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


def as_plain(array: Bytes) -> Any:
    """The bytes of `array` as a memoryview, which plain Python indexes fastest."""
    return array.data
