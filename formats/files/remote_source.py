"""A remote file opened for scanning: ranged reads by blocks, each fetched once.

A read of a header or a node fetches a small block. A scan fetches large blocks, and its threads
share them. All sources of a process share one cache of bounded size.
"""

from __future__ import annotations

import errno
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import Future

from je_tools.formats.files.remote_path import RemotePath
from je_tools.formats.files.remote_store import (
    RemoteStatus,
    fetched,
    listed_status_of,
    status_of,
)
from je_tools.formats.files.source import Source, as_source_errors, changed_error

SMALL_BLOCK = 16 << 10
LARGE_BLOCK = 4 << 20

SCAN_FROM = 32 << 10
"""Smallest read that belongs to a scan."""

CACHE_SIZE = LARGE_BLOCK * max(8, 3 * (os.cpu_count() or 1))
"""Bytes of blocks that a process keeps: each thread of a scan needs one, and the next."""

_Key = tuple[RemotePath, RemoteStatus, int, int]


class _BlockCache:
    """Blocks by key, the last used at the end; threads that need the same one fetch it once.

    Attributes:
        blank: large blocks of zeros, which need not be kept or fetched again: a scan reads a blank
            stretch once to find its end, and again to report it.
    """

    def __init__(self, limit: int) -> None:
        self.blank: set[_Key] = set()
        self._limit = limit
        self._lock = threading.Lock()
        self._size = 0
        self._blocks: OrderedDict[_Key, Future[bytes]] = OrderedDict()

    def get(self, key: _Key) -> Future[bytes] | None:
        """Return a block that is there or on its way; None if it must be fetched."""
        with self._lock:
            if key in self._blocks:
                self._blocks.move_to_end(key)
            return self._blocks.get(key)

    def fetch(self, key: _Key, load: Callable[[], bytes]) -> bytes:
        """Return a block; load it unless another thread has done so, or does."""
        with self._lock:
            found = self._blocks.get(key)
            block: Future[bytes] = found or Future()
            if found is None:
                self._blocks[key] = block
        if found is not None:
            return found.result()
        try:
            data = load()
        except BaseException as error:
            with self._lock:
                del self._blocks[key]
            block.set_exception(error)
            raise
        block.set_result(data)
        self._shrink(len(data))
        return data

    def _shrink(self, added: int) -> None:
        with self._lock:
            self._size += added
            for key in list(self._blocks):
                if self._size <= self._limit:
                    break
                if self._blocks[key].done():
                    self._size -= len(self._blocks.pop(key).result())


_CACHE = _BlockCache(CACHE_SIZE)


class RemoteSource(Source):
    """One remote file, with the status that it had when its folder was listed or it was opened."""

    path: RemotePath

    def __init__(self, path: RemotePath) -> None:
        self.path = path
        self.unreadable = set()
        with as_source_errors(path):
            self._begin(listed_status_of(str(path)))

    def _begin(self, status: RemoteStatus) -> None:
        self._status = status
        self.size = status.size
        # Large blocks fetched before. If one was dropped, only its missing bytes are fetched.
        self._scanned: set[int] = set()

    def __getstate__(self) -> tuple[RemotePath, int, RemoteStatus]:  # type: ignore[override]
        return self.path, self.size, self._status

    def __setstate__(self, state: tuple[RemotePath, int, RemoteStatus]) -> None:  # type: ignore[override]
        self.path, size, status = state
        self.unreadable = set()
        self._begin(status)
        self.size = size

    @property
    def status(self) -> RemoteStatus:
        """State of the file in the store when it was opened."""
        return self._status

    @property
    def scan_unit(self) -> int:
        """Ranges of a scan begin at its multiples, so that no block is fetched for two."""
        return LARGE_BLOCK

    def file(self) -> None:
        """Return None: native code calls `read_bytes`."""

    def close(self) -> None:
        """Do nothing: no connection is bound to a file."""

    def check_unchanged(self) -> None:
        """Raise SourceChangedError if the file has shrunk, vanished or been replaced since open."""
        with as_source_errors(self.path):
            now = status_of(str(self.path))
        if now.size < self.size:
            reason = f"shrank from {self.size} to {now.size} bytes while it was read"
            raise changed_error(self.path, reason)
        if not self._status.is_marked:
            reason = "its store gives neither tag nor time, so it may have been replaced meanwhile"
            raise changed_error(self.path, reason)
        if not self._status.is_same(now):
            raise changed_error(self.path, "replaced while it was read")

    def _fill(self, target: memoryview, start: int) -> None:
        with as_source_errors(self.path):
            done = 0
            for piece in self._pieces(start, start + len(target)):
                target[done : done + len(piece)] = piece
                done += len(piece)

    def _pieces(self, start: int, stop: int) -> Iterator[memoryview]:
        is_scan = stop - start >= SCAN_FROM
        while start < stop:
            piece = self._piece(start, stop, is_scan=is_scan)
            yield piece
            start += len(piece)

    def fetch(self, start: int, stop: int) -> bytes | memoryview:
        """Return bytes [start, stop) of one large block; fetch only those that no scan has kept.

        Raises:
            SourceChangedError: the file has shrunk, or vanished.
            SourceError: the store does not deliver it.
        """
        with as_source_errors(self.path):
            return self._kept(start, stop) or self._fetched(start, stop)

    def _kept(self, start: int, stop: int) -> memoryview | None:
        """Return the first bytes of a span, as far as a large block is kept for them; else None."""
        key = self._large(start)
        *_, first, end = key
        if key in _CACHE.blank:
            return memoryview(bytes(min(stop, end) - start))
        kept = _CACHE.get(key)
        return None if kept is None else memoryview(kept.result())[start - first : stop - first]

    def _large(self, at: int) -> _Key:
        """Return the key of the large block at an offset."""
        first = at - at % LARGE_BLOCK
        return self.path, self._status, first, min(first + LARGE_BLOCK, self._status.size)

    def _piece(self, start: int, stop: int, *, is_scan: bool) -> memoryview:
        """Return the first bytes of a span, as far as one block holds them."""
        kept = self._kept(start, stop)
        if kept is not None:
            return kept
        if not is_scan:
            first = start - start % SMALL_BLOCK
            end = min(first + SMALL_BLOCK, self._status.size)
            return memoryview(self._block(first, end))[start - first : stop - first]
        key = self._large(start)
        *_, large, end = key
        if large in self._scanned:
            return memoryview(self._fetched(start, min(stop, end)))
        block = self._block(large, end)
        self._scanned.add(large)
        if block == bytes(len(block)):
            _CACHE.blank.add(key)
        return memoryview(block)[start - large : stop - large]

    def _block(self, start: int, stop: int) -> bytes:
        key = (self.path, self._status, start, stop)
        return _CACHE.fetch(key, lambda: self._fetched(start, stop))

    def _fetched(self, start: int, stop: int) -> bytes:
        try:
            data = fetched(str(self.path), start, stop)
        except OSError as error:
            if error.errno == errno.ERANGE:
                self.check_unchanged()
            raise
        if len(data) < stop - start:
            reason = f"shrank from {self.size} to {start + len(data)} bytes while it was read"
            raise changed_error(self.path, reason)
        return data
