"""Where results go: standard output, or a file that appears only when it is complete."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from je_tools.environment import Environment
from je_tools.errors import RefusedError

_UNWRITABLE = {
    errno.EACCES,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EIO,
    errno.EISDIR,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.ENOSPC,
    errno.ENOTDIR,
    errno.ENXIO,
    errno.EPERM,
    errno.EROFS,
}


@contextmanager
def open_output(path: Path | None, environment: Environment) -> Iterator[BinaryIO]:
    """A binary file for results, written beside `path` and renamed at the end.

    On an error nothing is left behind. With `path` None, standard output.

    Raises:
        RefusedError: `path` exists, or lies inside the environment being read.
    """
    if path is None:
        with _explained("standard output"):
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()
        return
    with _explained(str(path)):
        if path.is_char_device() or path.is_fifo():
            with path.open("wb") as file:
                yield file
            return
        check_output(path, environment)
        beside = _beside(path)
        try:
            with beside.open("xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            beside.rename(path)
        finally:
            beside.unlink(missing_ok=True)


@contextmanager
def open_directory(path: Path, environment: Environment) -> Iterator[Path]:
    """A directory for results, made beside `path` and renamed at the end.

    Raises:
        RefusedError: `path` exists, or lies inside the environment being read.
    """
    with _explained(str(path)):
        check_output(path, environment)
        beside = _beside(path)
        try:
            beside.mkdir()
            yield beside
            beside.rename(path)
        finally:
            shutil.rmtree(beside, ignore_errors=True)


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Say of an output that cannot be made or written why; inputs never raise these errors."""
    try:
        yield
    except FileNotFoundError as error:
        raise RefusedError(f"{name}: its directory does not exist") from error
    except OSError as error:
        if error.errno not in _UNWRITABLE:
            raise
        _drop_standard_output()
        raise RefusedError(f"{name}: cannot be written: {error.strerror}") from error


def _drop_standard_output() -> None:
    """Forget what standard output still holds: at exit Python would fail on it once more."""
    try:
        sys.stdout.buffer.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def check_output(path: Path, environment: Environment) -> None:
    """Refuse an output that exists, or that lies beside or below the log that is read.

    Raises:
        RefusedError: it does.
    """
    # A link that leads nowhere would be replaced.
    if path.exists() or path.is_symlink():
        raise RefusedError(f"{path}: exists; name a file that does not")
    homes = {file.path.resolve().parent for file in environment.files}
    folder = path.resolve().parent
    if folder in homes or homes & set(folder.parents):
        raise RefusedError(
            f"{path}: lies inside the environment that is read, where nothing is ever written; "
            "name a file elsewhere"
        )
