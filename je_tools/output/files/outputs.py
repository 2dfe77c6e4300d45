"""Destinations of results: standard output, or a file that appears only when complete."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from msgspec import Struct

from je_tools.errors import RefusedError, UsageError
from je_tools.output.files.output_file import WRITE_SIZE, OutputFile
from je_tools.output.files.refusals import already_exists, refusing
from je_tools.output.files.standard_output import STANDARD_OUTPUT, standard_output
from je_tools.output.files.unfinished import (
    private_file,
    unfinished_file,
    unfinished_folder,
)

if TYPE_CHECKING:
    from je_tools.log.environment import Environment


_FLAGS = {
    "wb": os.O_WRONLY,
    "xb": os.O_WRONLY | os.O_CREAT | os.O_EXCL,
    "r+b": os.O_RDWR,
}
"""Flags for a stream, for a new file, and for one that has been made."""


@contextmanager
def open_output(
    path: Path | None, environment: Environment | None = None, mode: int | None = None
) -> Iterator[BinaryIO]:
    """Open a binary file for results, which is written next to `path` and named `path` at the end.

    After an error no file remains, and nothing is ever replaced. If `path` is None, standard
    output is used; a device or a pipe is written to directly. Errors of the body pass through.

    Args:
        path: the file.
        environment: the log that is read.
        mode: permissions of the file; None for FILE_MODE less the umask.

    Raises:
        RefusedError: `path` exists, lies inside the environment being read, or cannot be written.
        ClosedPipeError: the reader of the output is gone.
    """
    if path is None:
        output = OutputFile(STANDARD_OUTPUT, standard_output(), sys.stdout.encoding)
        with output.raising_failure():
            yield cast(BinaryIO, output)
            output.flush()
        return
    if environment is not None:
        check_output(path, environment)
    if is_stream(path):
        with _open_new(path, path, "wb", buffering=-1) as out:
            yield out
        return
    with unfinished_file(path) as beside:
        with _open_new(path, beside, "r+b") as out:
            yield out
        if mode is not None:
            with refusing(path):
                beside.chmod(mode)
        _publish(beside, path)


@contextmanager
def open_directory(path: Path, environment: Environment, mode: int | None = None) -> Iterator[Path]:
    """Make a directory for results next to `path`, renamed to it at the end; see `open_part`.

    Args:
        path: the directory.
        environment: the log that is read.
        mode: permissions of its files; the directory gets them with access to its names. None for
            FILE_MODE and FOLDER_MODE, less the umask.

    Raises:
        RefusedError: `path` exists, or lies inside the environment being read.
    """
    check_output(path, environment)
    with unfinished_folder(path) as beside:
        yield beside
        with refusing(path):
            if mode is not None:
                _set_modes(beside, mode)
            # mkdir fails if another process was first; the rename replaces the empty directory.
            path.mkdir()
            _replace(beside, path, path.rmdir)


def _set_modes(folder: Path, mode: int) -> None:
    """Give files these permissions; whoever may read them may also list the directory."""
    for each in folder.iterdir():
        each.chmod(mode)
    folder.chmod(mode | (mode & 0o444) >> 2)


@contextmanager
def open_scratch(path: Path) -> Iterator[Path]:
    """Make a temporary directory next to an output; it is deleted at the end with its contents.

    Raises:
        RefusedError: it cannot be made.
    """
    with unfinished_folder(path) as beside:
        yield beside


class PartPath(Struct, frozen=True):
    """A file in a directory of `open_directory` or `open_scratch`.

    Attributes:
        written: path at which it is written.
        final: its path in the end, which errors name.
    """

    written: Path
    final: Path


@contextmanager
def open_part(path: PartPath) -> Iterator[BinaryIO]:
    """Open a new file in a directory of `open_directory`; the caller calls `fsync_file`.

    Raises:
        RefusedError: it cannot be written.
    """
    with _open_new(path.final, path.written, "xb", syncs=False) as out:
        yield out


def fsync_file(path: PartPath) -> None:
    """Call fsync on a written file.

    Raises:
        RefusedError: its bytes cannot be written.
    """
    with refusing(path.final):
        number = os.open(path.written, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(number)
        finally:
            os.close(number)


@contextmanager
def _open_new(
    path: Path, written: Path, mode: str, *, buffering: int = WRITE_SIZE, syncs: bool = True
) -> Iterator[BinaryIO]:
    """Open `written`, which errors name `path`; at the end it is synced if `syncs`."""
    with refusing(path):
        # Small writes are combined into large ones.
        number = private_file(str(written), _FLAGS[mode] | os.O_CLOEXEC)
        file = cast(BinaryIO, os.fdopen(number, mode, buffering))
    output = OutputFile(str(path), file, syncs_early=True)
    try:
        with output.raising_failure():
            yield cast(BinaryIO, output)
            output.finish(syncs=syncs)
    finally:
        output.abandon()


def is_stream(path: Path) -> bool:
    """Return True if the path is a device or a pipe, which is written to directly."""
    with refusing(path):
        return path.is_char_device() or path.is_fifo()


def _publish(written: Path, path: Path) -> None:
    """Give a file its name, unless something else has the name by now."""
    with refusing(path):
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


def check_output(path: Path, environment: Environment) -> None:
    """Refuse an output that exists, or that is in or below a directory of the log that is read.

    Devices and pipes are not refused.

    Raises:
        RefusedError: the output is refused.
    """
    if is_stream(path):
        return
    with refusing(path):
        # A dangling link would be replaced.
        if path.exists() or path.is_symlink():
            raise already_exists(path)
    check_outside(path, _folders(environment))


def check_outside(path: Path, folders: Iterable[Path]) -> None:
    """Refuse an output that is in or below a directory of a log that is read.

    Args:
        path: the output.
        folders: directories of logs; those that do not exist any more count as empty.

    Raises:
        RefusedError: the output is refused, or its directory cannot be examined.
    """
    with refusing(path):
        is_inside = _is_inside(path.parent, folders)
    if is_inside:
        raise RefusedError(
            f"{path}: lies inside the environment that is read, where nothing is ever written; "
            "name a file elsewhere"
        )


def _is_inside(directory: Path, folders: Iterable[Path]) -> bool:
    folder = Path(os.path.realpath(directory))
    around = {_identity(each) for each in (folder, *folder.parents)}
    for each in folders:
        with suppress(OSError):  # it is gone, with its contents
            if _identity(each) in around:
                return True
    return False


def _folders(environment: Environment) -> set[Path]:
    """Return every directory of the log, with those of its links; none of an object store."""
    if environment.is_remote:
        return set()
    files = [*environment.files, *([environment.marker] if environment.marker else [])]
    folders = {folder for file in files for folder in (file.path.parent, file.home)}
    for file in files:
        # A link that leads to nothing makes no folder, such as /, one of the log.
        with suppress(OSError):
            folders.add(Path(os.path.realpath(file.path, strict=True)).parent)
    if environment.is_directory:
        home = environment.home
        folders |= {home, *(home / name for name in environment.folders)}
    return folders


def _identity(folder: Path) -> tuple[int, int]:
    """Return device and inode, which identify a directory by whatever path it is reached."""
    status = folder.stat()
    return status.st_dev, status.st_ino


def scratch_directory(chosen: Path | None, environment: Environment) -> Callable[[], Path]:
    """Return a function that returns the directory for temporary files, when one is needed.

    Args:
        chosen: the directory; None for the one that TMPDIR names, else /tmp.
        environment: the log that is read; the directory must be outside of it.

    Raises:
        UsageError: `chosen` is not a directory.
        RefusedError: it is inside the environment. The function that is returned raises this too.
    """
    if chosen is None:
        # Not `tempfile.gettempdir`: it tries directories by writing to them.
        return lambda: _outside(Path(os.environ.get("TMPDIR") or "/tmp"), environment)
    if not chosen.is_dir():
        raise UsageError(f"--tmp {chosen}: expected a directory that exists")
    _outside(chosen, environment)
    return lambda: chosen


def _outside(directory: Path, environment: Environment) -> Path:
    with refusing(directory):
        if not directory.is_dir():
            raise RefusedError(
                f"{directory}: no such directory for temporary files; name one with --tmp"
            )
        is_inside = _is_inside(directory, _folders(environment))
    if is_inside:
        raise RefusedError(
            f"{directory}: lies inside the environment that is read, where nothing is ever "
            "written; name a directory elsewhere with --tmp"
        )
    return directory
