"""Where results go: standard output, or a file that appears only when it is complete."""

from __future__ import annotations

import os
import secrets
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

from je_tools.environment import Environment
from je_tools.errors import RefusedError


@contextmanager
def open_output(path: Path | None, environment: Environment) -> Iterator[BinaryIO]:
    """A binary file for results, written beside `path` and renamed at the end.

    On an error nothing is left behind. With `path` None, standard output.

    Raises:
        RefusedError: `path` exists, or lies inside the environment being read.
    """
    if path is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    if path.is_char_device() or path.is_fifo():
        with path.open("wb") as file:
            yield file
        return
    check_output(path, environment)
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with beside.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        beside.rename(path)
    except FileNotFoundError as error:
        raise RefusedError(f"{path}: its directory does not exist") from error
    finally:
        beside.unlink(missing_ok=True)


@contextmanager
def open_parts(path: Path, environment: Environment, count: int) -> Iterator[list[BinaryIO]]:
    """`count` files part-0.parquet… in a directory that appears only when all are complete.

    Raises:
        RefusedError: `path` exists, or lies inside the environment being read.
    """
    check_output(path, environment)
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        beside.mkdir()
        with ExitStack() as stack:
            names = [beside / f"part-{i}.parquet" for i in range(count)]
            files: list[BinaryIO] = [stack.enter_context(name.open("xb")) for name in names]
            yield files
            for file in files:
                file.flush()
                os.fsync(file.fileno())
        beside.rename(path)
    except FileNotFoundError as error:
        raise RefusedError(f"{path}: its directory does not exist") from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def check_output(path: Path, environment: Environment) -> None:
    """Refuse an output that exists or that lies inside the environment.

    Raises:
        RefusedError: it does.
    """
    if path.exists():
        raise RefusedError(f"{path}: exists; name a file that does not")
    homes = {file.path.resolve().parent for file in environment.files}
    folder = path.resolve().parent
    if environment.is_directory and (folder in homes or homes & set(folder.parents)):
        raise RefusedError(f"{path}: lies inside the environment that is read")
