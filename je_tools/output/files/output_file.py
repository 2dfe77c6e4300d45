"""Output files that separate their own errors from those of what is read meanwhile."""

from __future__ import annotations

import errno
import io
import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, ParamSpec, TypeVar, cast

from je_tools.output.files.background_fsync import BackgroundFsync
from je_tools.output.files.refusals import unwritable
from je_tools.output.files.standard_output import (
    STANDARD_OUTPUT,
    ClosedPipeError,
    drop_standard_output,
)

P = ParamSpec("P")
T = TypeVar("T")
WRITE_SIZE = 1 << 20
"""Largest write, in bytes. The page cache allocates pages as large as a write, and finding
large ones can take many times as long as the copying. Each write also costs a wait for the
interpreter lock if other threads hold it."""

FILE_ENCODING = "utf-8"
_HELD_MAX = 8 << 20
"""Largest size of held results in memory, in bytes."""


def encoding_of(out: BinaryIO) -> str:
    """Return the encoding of text for people: that of the terminal or pipe, UTF-8 in a file.

    Data (JSON, CSV) is UTF-8 everywhere.
    """
    return out.encoding if isinstance(out, OutputFile) else FILE_ENCODING


def is_regular(file: BinaryIO) -> bool:
    """Return True for a regular file, which can be synced."""
    return stat.S_ISREG(os.fstat(file.fileno()).st_mode)


class OutputFile(io.BufferedIOBase):
    """An output file that separates its own errors from those of what is read meanwhile.

    `close` does nothing, since foreign writers call it: the owner calls `finish`.

    Attributes:
        failure: number and text of the file's last error.
        encoding: see `encoding_of`.
    """

    def __init__(
        self,
        name: str,
        file: BinaryIO,
        encoding: str = FILE_ENCODING,
        *,
        syncs_early: bool = False,
    ) -> None:
        super().__init__()
        self.name = name
        self.encoding = encoding
        self.failure: tuple[int, str] | None = None
        self._file = file
        self._background = (
            BackgroundFsync(file.fileno()) if syncs_early and is_regular(file) else None
        )

    def write(self, data: Any) -> int:
        """Write bytes, in writes of at most `WRITE_SIZE`; return their number."""
        view = memoryview(data).cast("B")
        for at in range(0, len(view), WRITE_SIZE):
            self._noting_failure(self._file.write, view[at : at + WRITE_SIZE])
        if self._background is not None:
            self._noting_failure(self._background.add, len(view))
        return len(view)

    def flush(self) -> None:
        """Flush the file."""
        self._noting_failure(self._file.flush)

    def seek(self, offset: int, whence: int = 0) -> int:
        """Move to an offset, and return it from the start."""
        return self._noting_failure(self._file.seek, offset, whence)

    def tell(self) -> int:
        """Return the offset of the next write."""
        return self._noting_failure(self._file.tell)

    def isatty(self) -> bool:
        """Return True for a terminal."""
        return self._file.isatty()

    def fileno(self) -> int:
        """Return the descriptor of the file."""
        return self._file.fileno()

    def writable(self) -> bool:
        """Return True."""
        return True

    def close(self) -> None:
        """Do nothing: a writer may close what it was given."""

    def finish(self, *, syncs: bool) -> None:
        """Flush all bytes, fsync a regular file if `syncs`, and close it."""
        self.flush()
        if self._background is not None:
            self._noting_failure(self._background.end)
        if syncs and is_regular(self._file):
            self._noting_failure(os.fsync, self._file.fileno())
        self._noting_failure(self._file.close)

    def abandon(self) -> None:
        """Close the file and ignore errors."""
        with suppress(OSError):
            if self._background is not None:
                self._background.end()
        with suppress(OSError):
            self._file.close()

    def _noting_failure(self, call: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        try:
            return call(*arguments, **named)
        except OSError as error:
            # Not the exception: its frames would keep the log that is read from being closed.
            self.failure = (error.errno or 0, error.strerror or str(error))
            raise

    @contextmanager
    def raising_failure(self) -> Iterator[None]:
        """Raise the failure of the output, if there was one, whatever error a writer made of it."""
        try:
            yield
        except (Exception, SystemExit) as error:  # rich exits if a pipe is closed
            if self.failure is None:
                raise
            if self.name == STANDARD_OUTPUT:
                drop_standard_output()
            if self.failure[0] == errno.EPIPE:
                raise ClosedPipeError(*self.failure) from None
            raise unwritable(self.name, self.failure[1]) from error


class HeldOutput(OutputFile):
    """Results held back for standard output, in its encoding."""

    def copy_to(self, out: BinaryIO) -> None:
        """Write all results to `out`."""
        import shutil

        self.seek(0)
        shutil.copyfileobj(self._file, out)


@contextmanager
def held_output() -> Iterator[HeldOutput]:
    """Hold results back until something else is done, for standard output."""
    from tempfile import SpooledTemporaryFile

    has_output = cast(Any, sys.stdout) is not None
    encoding = sys.stdout.encoding if has_output else FILE_ENCODING
    with SpooledTemporaryFile(_HELD_MAX) as file:
        yield HeldOutput(STANDARD_OUTPUT, cast(BinaryIO, file), encoding)
