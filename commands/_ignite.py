"""Options that the commands on Ignite's stores share, and the stores that they open."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO, TypedDict

import click

from je_tools.commands._options import (
    A_PATH,
    F,
    chosen_file_mode,
    file_mode_option,
    output_file_outside,
)
from je_tools.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from je_tools.ignite.store import Store


class StoreOptions(TypedDict):
    """Options that every command on a store has."""

    paths: tuple[Path, ...]
    nodes: tuple[str, ...]
    format_: str
    output: Path | None
    threads: int
    exit_zero: bool


store_argument = click.argument("paths", metavar="STORE...", nargs=-1, required=True, type=A_PATH)
"""A work directory, or folders and files of segments."""

node_option = click.option(
    "--node",
    "nodes",
    multiple=True,
    metavar="NAME",
    help="Read only this node: the name of its folder.",
)


def output_option(function: F) -> F:
    """Add `--output` and `--file-mode`."""
    return output_file_outside("store")(file_mode_option(function))


def thread_count(threads: int) -> int:
    """Return the number of threads that `--threads` selects."""
    return threads or len(os.sched_getaffinity(0))


@contextmanager
def opened_output(path: Path | None, *stores: Store) -> Iterator[BinaryIO]:
    """Open the output of a command; see `open_output`.

    Raises:
        RefusedError: `path` exists, lies inside a store, or cannot be written.
    """
    from je_tools.output.files.outputs import open_output

    if path is not None:
        real = path.resolve()
        for root in (root for store in stores for root in store.roots):
            if real.is_relative_to(root.resolve()):
                raise RefusedError(
                    f"{path}: lies inside {root}, which is being read; name a file outside of it"
                )
    with open_output(path, None, chosen_file_mode()) as out:
        yield out
