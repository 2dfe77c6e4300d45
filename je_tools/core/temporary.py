"""Temporary files without names: nothing remains of them, however the process ends."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt

from je_tools.errors import RefusedError

Array = npt.NDArray[Any]

_WRITE_SIZE = 1 << 20
"""Largest write, in bytes: for longer ones the page cache wants larger pages, which take time."""

P = ParamSpec("P")
T = TypeVar("T")


class NamelessFile:
    """A temporary file that was never visible in its directory, or only for an instant."""

    def __init__(self, directory: Path) -> None:
        """Create the file.

        Raises:
            RefusedError: it cannot be made.
        """
        from tempfile import TemporaryFile

        self._directory = directory
        self._number: int = self._tried(_unnamed, TemporaryFile, directory)
        self._end = 0
        weakref.finalize(self, os.close, self._number)

    def append(self, data: Array) -> int:
        """Write an array at the end, and return its offset.

        Raises:
            RefusedError: the file cannot be written.
        """
        start = self._end
        view = memoryview(np.ascontiguousarray(data).view(np.uint8))  # type: ignore[arg-type]
        while self._end - start < len(view):
            piece = view[self._end - start :][:_WRITE_SIZE]
            self._end += self._tried(os.pwrite, self._number, piece, self._end)
        return start

    def read(self, offset: int, kind: npt.DTypeLike, count: int) -> Array:
        """Return `count` numbers from an offset.

        Raises:
            RefusedError: the file cannot be read.
        """
        found = np.empty(count, kind)
        view = memoryview(found.view(np.uint8))  # type: ignore[arg-type]
        done = 0
        while done < len(view):
            some = self._tried(os.preadv, self._number, [view[done:]], offset + done)
            if not some:
                raise RefusedError(f"{self._directory}: a temporary file became shorter")
            done += some
        return found

    def _tried(self, call: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        try:
            return call(*arguments, **named)
        except OSError as error:
            raise RefusedError(
                f"{self._directory}: a temporary file failed there: {error.strerror}; name another "
                "directory with --tmp"
            ) from error


def _unnamed(make: Callable[..., Any], directory: Path) -> int:
    with make(dir=directory, buffering=0) as file:
        return os.dup(file.fileno())
