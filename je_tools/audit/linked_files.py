"""Finished files of an environment that later runs take over as they are, by hard links.

A run never writes to a file that it has finished, so all runs can have the same one. Where the file
system has no hard links, nothing is kept.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from je_tools.audit.known_files import mark_of


class LinkedFile(Struct, frozen=True):
    """A file that is kept.

    Attributes:
        name: its name in the folder of its environment.
        size: its bytes.
        checksum: CRC-32C of all of them.
    """

    name: str
    size: int
    checksum: int | None


def keep_links(paths: Iterable[str], folder: Path) -> tuple[LinkedFile, ...]:
    """Link finished files into an existing folder.

    Raises:
        OSError: the file system cannot link them.
    """
    kept = []
    for path in map(Path, paths):
        link = folder / f"{secrets.token_hex(8)}.parquet"
        os.link(path, link)
        size = path.stat().st_size
        kept.append(LinkedFile(link.name, size, _checksum(path, size)))
    return tuple(kept)


def link_kept(kept: Sequence[LinkedFile], folder: Path, target: Path) -> list[str]:
    """Link kept files into another folder, under new names; return their paths.

    Args:
        kept: the files.
        folder: folder in which they are kept.
        target: folder for the links; it is made if needed, but its parent is not.

    Raises:
        OSError: one has gone or has other bytes, or the file system cannot link it.
    """
    if not kept:
        return []
    target.mkdir(exist_ok=True)
    taken = []
    for each in kept:
        path = folder / each.name
        if path.stat().st_size != each.size or _checksum(path, each.size) != each.checksum:
            raise OSError(f"{path}: not as it was kept")
        link = target / f"{secrets.token_hex(8)}.parquet"
        os.link(path, link)
        taken.append(str(link))
    return taken


def _checksum(path: Path, size: int) -> int | None:
    return mark_of(path, size, is_whole=True).whole
