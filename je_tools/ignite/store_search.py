"""Stores near a directory that is none itself, for messages."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from je_tools.core.escaping import quoted
from je_tools.formats.files.remote_path import RemotePath
from je_tools.ignite.segment_files import segment_name
from je_tools.ignite.store import holds_store, store_around

if TYPE_CHECKING:
    from collections.abc import Iterator

_DEPTH = 2
_SEEN_MAX = 1000
_SHOWN = 10


def is_of_store(path: Path) -> bool:
    """Return True if a path is a store, one of its segments, or a folder of segments."""
    if isinstance(path, RemotePath):
        return False
    if segment_name(path.name) is not None or holds_store(path):
        return True
    with suppress(OSError):
        return any(segment_name(each.name) is not None for each in path.iterdir())
    return False


def store_near(folder: Path) -> str | None:
    """Return a hint to stores below or above a directory, and to what reads them; None for none."""
    if isinstance(folder, RemotePath):
        return None
    above = store_around(folder) if _holds_segments(folder) else None
    if above is not None:
        return (
            f"a part of the store of Apache Ignite {above}: `je-tools doctor "
            f"{quoted(str(above))}` examines the whole store"
        )
    with suppress(OSError):
        if any(segment_name(each.name) is not None for each in folder.iterdir()):
            return (
                "segments of a write-ahead log of Apache Ignite, not a whole store: `je-tools "
                f"ignite wal verify {quoted(str(folder))}` checks them"
            )
    below = list(_below(folder, [0], _DEPTH))
    if not below:
        return None
    commands = ", ".join(f"`je-tools doctor {quoted(str(each))}`" for each in below[:_SHOWN])
    more = " and more" if len(below) > _SHOWN else ""
    return f"no store itself, but stores of Apache Ignite are below: run {commands}{more}"


def _holds_segments(folder: Path) -> bool:
    """Return True if segments are in a folder, or in folders up to two levels below it."""
    for pattern in ("*", "*/*", "*/*/*"):
        with suppress(OSError):
            if any(segment_name(each.name) is not None for each in folder.glob(pattern)):
                return True
    return False


def _below(folder: Path, seen: list[int], depth: int) -> Iterator[Path]:
    folders: list[Path] = []
    with suppress(OSError):
        folders = sorted(each for each in folder.iterdir() if each.is_dir())
    for each in folders:
        seen[0] += 1
        if seen[0] > _SEEN_MAX or each.is_symlink():
            continue
        if holds_store(each):
            yield each
        elif depth > 1:
            yield from _below(each, seen, depth - 1)
