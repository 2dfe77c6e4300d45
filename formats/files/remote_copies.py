"""Remote files for random reads: a temporary file into which their bytes are fetched on demand.

The remote files of an image share one sparse file without a name, which is mapped in their place.
Before native code reads entries, `RemoteCopies.load` fetches the blocks that hold them, unless they
are there. So only what is read of a log takes space, and nothing of it remains.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

import numpy as np

from je_tools.formats import _native
from je_tools.formats.files.remote_path import RemotePath
from je_tools.formats.files.remote_source import LARGE_BLOCK, RemoteSource
from je_tools.formats.files.source import SourceError

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints

BLOCK = 128 << 10
"""Bytes that are fetched at least: nodes and records are mostly smaller, and have neighbours."""

_IN_LARGE = LARGE_BLOCK // BLOCK
"""Blocks that one request fetches at most."""

_FETCHERS = 16
"""Number of threads that fetch; each mostly waits for the store."""


class RemoteCopies:
    """Fetched bytes of the remote files of an image.

    Attributes:
        file: the temporary file; byte i of it is byte i of the image.
    """

    def __init__(self, paths: Sequence[Path], starts: Ints, stops: Ints, size: int) -> None:
        """Prepare copies; nothing is fetched yet.

        Args:
            paths: the files, in the order of the image.
            starts, stops: int64; positions in the image of the first byte of each file, and after
                its last byte.
            size: size of the image.

        Raises:
            SourceError: a file is not there or too short, or there is no place for a temporary
                file.
        """
        sizes = stops - starts
        self._sources = [RemoteSource(path) for path in paths if isinstance(path, RemotePath)]
        for source, limit in zip(self._sources, sizes.tolist(), strict=True):
            source.limit(limit)
        counts = -(-sizes // BLOCK)
        self._starts = starts
        self._firsts = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))
        self._is_loaded = np.zeros(int(self._firsts[-1]), np.bool_)
        self._used: set[int] = set()
        self._lock = threading.Lock()
        with _temporary() as folder:
            with TemporaryFile(dir=folder, buffering=0) as made:
                self._number = os.dup(made.fileno())
            _make_hole(self._number, size)
            self.file = _native.File(Path(f"/proc/self/fd/{self._number}"))

    def __del__(self) -> None:
        if hasattr(self, "_number"):
            os.close(self._number)

    def load(self, positions: Ints, sizes: Ints) -> None:
        """Fetch bytes of spans that are not there yet.

        Args:
            positions: int64; first byte of each span, inside a file of the image.
            sizes: int64; number of bytes; what lies after the end of the file is left out.

        Raises:
            SourceError: the store does not deliver them, or there is no space for them.
        """
        blocks = self._blocks(positions, sizes)
        with self._lock:
            missing = blocks[~self._is_loaded[blocks]]
            if not len(missing):
                return
            runs = self._runs(missing)
            with ThreadPoolExecutor(min(_FETCHERS, len(runs))) as pool:
                list(pool.map(self._fetch, runs))
            self._is_loaded[missing] = True

    def check_unchanged(self) -> None:
        """Check the files of which something was fetched.

        Raises:
            SourceChangedError: one has shrunk, vanished or been replaced since.
            SourceError: the store does not say.
        """
        with ThreadPoolExecutor(_FETCHERS) as pool:
            list(pool.map(lambda number: self._sources[number].check_unchanged(), self._used))

    def _blocks(self, positions: Ints, sizes: Ints) -> Ints:
        """Return the numbers of the blocks that hold spans, ascending, each once."""
        of_file = np.searchsorted(self._starts, positions, side="right") - 1
        offsets = positions - self._starts[of_file]
        first = self._firsts[of_file] + offsets // BLOCK
        last = self._firsts[of_file] + (offsets + np.maximum(sizes, 1) - 1) // BLOCK
        counts = np.minimum(last, self._firsts[of_file + 1] - 1) - first + 1
        ends = np.cumsum(counts)
        within = np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - counts, counts)
        return np.unique(np.repeat(first, counts) + within)

    def _runs(self, blocks: Ints) -> list[tuple[int, int, int]]:
        """Join neighbouring blocks; return the index of the file, first byte and end of each run.

        A run lies in one large block, so that bytes that a scan has kept are used.
        """
        of_file = np.searchsorted(self._firsts, blocks, side="right") - 1
        number = blocks - self._firsts[of_file]
        is_new = (np.diff(blocks) > 1) | (np.diff(of_file) > 0) | (np.diff(number // _IN_LARGE) > 0)
        cuts = np.flatnonzero(is_new) + 1
        first, last = np.concatenate(([0], cuts)), np.concatenate((cuts, [len(blocks)])) - 1
        return [
            (file, start * BLOCK, min((stop + 1) * BLOCK, self._sources[file].size))
            for file, start, stop in zip(
                of_file[first].tolist(), number[first].tolist(), number[last].tolist(), strict=True
            )
        ]

    def _fetch(self, run: tuple[int, int, int]) -> None:
        file, start, stop = run
        self._used.add(file)
        data = memoryview(self._sources[file].fetch(start, stop))
        at = int(self._starts[file]) + start
        with _temporary():
            while data:
                written = os.pwrite(self._number, data, at)
                data, at = data[written:], at + written


def _make_hole(number: int, size: int) -> None:
    os.ftruncate(number, size)


@contextmanager
def _temporary() -> Iterator[str]:
    """Yield the directory for temporary files; errors name it, and what to do."""
    folder = os.environ.get("TMPDIR") or "/tmp"
    try:
        yield folder
    except OSError as error:
        reason = (
            f"a temporary file for parts of a remote log failed there ({error.strerror}): set "
            "TMPDIR to another directory"
        )
        raise SourceError(error.errno or errno.EIO, reason, folder) from error
