"""Destinations of results: standard output, or a file that appears only when complete."""

from __future__ import annotations

import errno
import io
import os
import select
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO, ParamSpec, TypeVar, cast

from msgspec import Struct

from je_tools.errors import RefusedError

if TYPE_CHECKING:
    from je_tools.log.environment import Environment

P = ParamSpec("P")
T = TypeVar("T")

WRITE_SIZE = 1 << 20
"""Largest write, in bytes. The page cache allocates pages as large as a write, and finding
large ones can take many times as long as the copying. Each write also costs a wait for the
interpreter lock if other threads hold it."""

SETTLE_SIZE = 32 << 20
"""Number of unsynced bytes from which a background fsync starts while more are written."""

_STANDARD_OUTPUT = "standard output"
_FILE_ENCODING = "utf-8"

_HELD_MAX = 8 << 20
"""Largest size of held results in memory, in bytes."""


class ClosedPipeError(BrokenPipeError):
    """Error of an output whose reader is gone; broken pipes between our processes are others."""


@contextmanager
def open_output(path: Path | None, environment: Environment | None = None) -> Iterator[BinaryIO]:
    """Open a binary file for results, which is written next to `path` and named `path` at the end.

    After an error no file remains, and nothing is ever replaced. If `path` is None, standard
    output is used; a device or a pipe is written to directly. Errors of the body pass through.

    Raises:
        RefusedError: `path` exists, lies inside the environment being read, or cannot be written.
        ClosedPipeError: the reader of the output is gone.
    """
    if path is None:
        output = _Output(_STANDARD_OUTPUT, _standard_output(), sys.stdout.encoding)
        with output.explained():
            yield cast(BinaryIO, output)
            output.flush()
        return
    if environment is not None:
        check_output(path, environment)
    if is_stream(path):
        with _open_new(path, path, "wb") as out:
            yield out
        return
    beside = _beside(path)
    try:
        with _open_new(path, beside, "xb") as out:
            yield out
        _publish(beside, path)
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)


@contextmanager
def open_directory(path: Path, environment: Environment) -> Iterator[Path]:
    """Make a directory for results next to `path`, renamed to it at the end; see `open_part`.

    Raises:
        RefusedError: `path` exists, or lies inside the environment being read.
    """
    check_output(path, environment)
    beside = _beside(path)
    try:
        with _refusing(path):
            beside.mkdir()
        yield beside
        with _refusing(path):
            # mkdir fails if another process was first; the rename replaces the empty directory.
            path.mkdir()
            _replace(beside, path, path.rmdir)
    finally:
        import shutil

        shutil.rmtree(beside, ignore_errors=True)


@contextmanager
def open_scratch(path: Path) -> Iterator[Path]:
    """Make a temporary directory next to an output; it is deleted at the end with its contents.

    Raises:
        RefusedError: it cannot be made.
    """
    import shutil

    beside = _beside(path)
    try:
        with _refusing(path):
            beside.mkdir()
        yield beside
    finally:
        shutil.rmtree(beside, ignore_errors=True)


class PartPath(Struct, frozen=True):
    """A file in a directory of `open_directory` or `open_scratch`.

    Attributes:
        written: path at which it is written.
        known: its final path, which errors name.
    """

    written: Path
    known: Path


@contextmanager
def open_part(path: PartPath) -> Iterator[BinaryIO]:
    """Open a new file in a directory of `open_directory`; calling `settle` is left to the caller.

    Raises:
        RefusedError: it cannot be written.
    """
    with _open_new(path.known, path.written, "xb", settles=False) as out:
        yield out


def settle(path: PartPath) -> None:
    """Call fsync on a written file.

    Raises:
        RefusedError: its bytes cannot be written.
    """
    with _refusing(path.known):
        number = os.open(path.written, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(number)
        finally:
            os.close(number)


@contextmanager
def _open_new(path: Path, written: Path, mode: str, *, settles: bool = True) -> Iterator[BinaryIO]:
    """Open `written`, which errors name `path`; at the end it is synced if `settles`."""
    with _refusing(path):
        # Small writes are combined into large ones.
        buffering = -1 if mode == "wb" else WRITE_SIZE
        file = cast(BinaryIO, written.open(mode, buffering))
    output = _Output(str(path), file, settles_early=True)
    try:
        with output.explained():
            yield cast(BinaryIO, output)
            output.finish(settles=settles)
    finally:
        output.abandon()


def encoding_of(out: BinaryIO) -> str:
    """Return the encoding of text for people: that of the terminal or pipe, UTF-8 in a file.

    Data (JSON, CSV) is UTF-8 everywhere.
    """
    return out.encoding if isinstance(out, _Output) else _FILE_ENCODING


def _is_regular(file: BinaryIO) -> bool:
    return stat.S_ISREG(os.fstat(file.fileno()).st_mode)


class _Settling:
    """Background fsync of a file, in a thread of its own, while more is written.

    So the last fsync has little to do. Synced bytes are dropped from the page cache: an output
    of gigabytes would displace the log that is read, and make it ever slower to get memory.
    """

    def __init__(self, number: int) -> None:
        self._number = number
        self._written = self._settled = 0
        self._pool: ThreadPoolExecutor | None = None
        self._running: Future[None] | None = None

    def add(self, size: int) -> None:
        """Count bytes that have been written, and start an fsync if there are enough.

        Raises:
            OSError: an earlier fsync failed.
        """
        self._written += size
        start = self._settled
        if self._written - start < SETTLE_SIZE or (self._running and not self._running.done()):
            return
        self._check()
        self._pool = self._pool or ThreadPoolExecutor(1)
        self._settled = self._written
        self._running = self._pool.submit(self._settle, start, self._written - start)

    def end(self) -> None:
        """Wait for the running fsync.

        Raises:
            OSError: it failed.
        """
        if self._pool is not None:
            self._pool.shutdown()
        self._check()

    def _settle(self, start: int, size: int) -> None:
        os.fsync(self._number)
        os.posix_fadvise(self._number, start, size, os.POSIX_FADV_DONTNEED)

    def _check(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            # The system reports an error only once.
            running.result()


class _Output(io.BufferedIOBase):
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
        encoding: str = _FILE_ENCODING,
        *,
        settles_early: bool = False,
    ) -> None:
        super().__init__()
        self.name = name
        self.encoding = encoding
        self.failure: tuple[int, str] | None = None
        self._file = file
        self._settling = _Settling(file.fileno()) if settles_early and _is_regular(file) else None

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        for at in range(0, len(view), WRITE_SIZE):
            self._told(self._file.write, view[at : at + WRITE_SIZE])
        if self._settling is not None:
            self._told(self._settling.add, len(view))
        return len(view)

    def flush(self) -> None:
        self._told(self._file.flush)

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._told(self._file.seek, offset, whence)

    def tell(self) -> int:
        return self._told(self._file.tell)

    def isatty(self) -> bool:
        return self._file.isatty()

    def fileno(self) -> int:
        return self._file.fileno()

    def writable(self) -> bool:
        return True

    def close(self) -> None:
        """Do nothing: a writer may close what it was given."""

    def finish(self, *, settles: bool) -> None:
        """Flush all bytes, fsync a regular file if `settles`, and close it."""
        self.flush()
        if self._settling is not None:
            self._told(self._settling.end)
        if settles and _is_regular(self._file):
            self._told(os.fsync, self._file.fileno())
        self._told(self._file.close)

    def abandon(self) -> None:
        """Close the file and ignore errors."""
        with suppress(OSError):
            if self._settling is not None:
                self._settling.end()
        with suppress(OSError):
            self._file.close()

    def _told(self, call: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        try:
            return call(*arguments, **named)
        except OSError as error:
            # Not the exception: its frames would keep the log that is read from being closed.
            self.failure = (error.errno or 0, error.strerror or str(error))
            raise

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Raise the reason if the output cannot be written, whatever error a writer made of it."""
        try:
            yield
        except (Exception, SystemExit) as error:  # rich exits if a pipe is closed
            if self.failure is None:
                raise
            if self.name == _STANDARD_OUTPUT:
                drop_standard_output()
            if self.failure[0] == errno.EPIPE:
                raise ClosedPipeError(*self.failure) from None
            raise unwritable(self.name, self.failure[1]) from error


class HeldOutput(_Output):
    """Results held back for standard output, in its encoding."""

    def give_to(self, out: BinaryIO) -> None:
        """Write all results to `out`."""
        import shutil

        self.seek(0)
        shutil.copyfileobj(self._file, out)


@contextmanager
def held_output() -> Iterator[HeldOutput]:
    """Hold results back until something else is done, for standard output."""
    from tempfile import SpooledTemporaryFile

    has_output = cast(Any, sys.stdout) is not None
    encoding = sys.stdout.encoding if has_output else _FILE_ENCODING
    with SpooledTemporaryFile(_HELD_MAX) as file:
        yield HeldOutput(_STANDARD_OUTPUT, cast(BinaryIO, file), encoding)


def unwritable(name: str, reason: str | None) -> RefusedError:
    """Return the refusal for an output that cannot be written."""
    return RefusedError(f"{name}: cannot be written: {reason}")


def drop_standard_output() -> bool:
    """Drop what standard output cannot write: at exit Python would fail on it again.

    Returns:
        True if there was something to drop.
    """
    try:
        sys.stdout.flush()
    except OSError:
        with suppress(OSError):  # not a file of the system
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return True
    return False


def is_closed_pipe(file: IO[Any] | None) -> bool:
    """Return True if a standard stream is a pipe whose reader is gone."""
    try:
        if file is None:
            return False
        poll = select.poll()
        poll.register(file.fileno(), 0)
    except OSError:  # not a file of the system
        return False
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def _standard_output() -> BinaryIO:
    # It is None if the process was started without one.
    if cast(Any, sys.stdout) is None:
        raise RefusedError(f"{_STANDARD_OUTPUT}: is closed; name a file with --output")
    return sys.stdout.buffer


def _beside(path: Path) -> Path:
    # Kept short, so that the name is valid on every file system on which that of `path` is.
    return path.with_name(f".je-tools-{os.urandom(8).hex()}.part")


def is_stream(path: Path) -> bool:
    """Return True if the path is a device or a pipe, which is written to directly."""
    with _refusing(path):
        return path.is_char_device() or path.is_fifo()


def _publish(written: Path, path: Path) -> None:
    """Give a file its name, unless something else has the name by now."""
    with _refusing(path):
        try:
            os.link(written, path)
        except FileExistsError:
            raise
        except OSError:
            # On a file system without hard links, an empty file takes the name first.
            path.open("xb").close()
            _replace(written, path, path.unlink)


def _replace(written: Path, path: Path, remove: Callable[[], None]) -> None:
    try:
        written.rename(path)
    except OSError:
        with suppress(OSError):
            remove()
        raise


@contextmanager
def _refusing(path: Path) -> Iterator[None]:
    """Raise the reason if an output cannot be made."""
    try:
        yield
    except FileNotFoundError as error:
        raise RefusedError(f"{path}: its directory does not exist") from error
    except FileExistsError as error:
        raise _exists(path) from error
    except OSError as error:
        raise unwritable(str(path), error.strerror) from error


def _exists(path: Path) -> RefusedError:
    return RefusedError(f"{path}: exists; name a file that does not")


def check_output(path: Path, environment: Environment) -> None:
    """Refuse an output that exists, or that is in or below a directory of the log that is read.

    Devices and pipes are not refused.

    Raises:
        RefusedError: the output is refused.
    """
    if is_stream(path):
        return
    with _refusing(path):
        # A dangling link would be replaced.
        if path.exists() or path.is_symlink():
            raise _exists(path)
    check_outside(path, [environment])


def check_outside(path: Path, environments: Iterable[Environment]) -> None:
    """Refuse an output that is in or below a directory of a log that is read.

    Raises:
        RefusedError: the output is refused, or its directory cannot be examined.
    """
    with _refusing(path):
        folder = Path(os.path.realpath(path.parent))
        around = {_identity(each) for each in (folder, *folder.parents)}
    if any(around & _homes(environment) for environment in environments):
        raise RefusedError(
            f"{path}: lies inside the environment that is read, where nothing is ever written; "
            "name a file elsewhere"
        )


def _homes(environment: Environment) -> set[tuple[int, int]]:
    """Return every directory of the log, including those that its links lead to."""
    files = [*environment.files, *([environment.marker] if environment.marker else [])]
    folders = {folder for file in files for folder in (file.path.parent, file.home)}
    folders |= {Path(os.path.realpath(file.path)).parent for file in files}
    if environment.is_directory:
        home = Path(environment.name)
        folders |= {home, *(home / name for name in environment.folders)}
    homes = set()
    for folder in folders:
        with suppress(OSError):  # it is gone, with its contents
            homes.add(_identity(folder))
    return homes


def _identity(folder: Path) -> tuple[int, int]:
    """Return device and inode, which identify a directory by whatever path it is reached."""
    status = folder.stat()
    return status.st_dev, status.st_ino
