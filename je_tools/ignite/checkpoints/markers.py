"""The folder of checkpoint markers of a node: its files, read without a lock."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.errors import InputError
from je_tools.formats.ignite.markers import (
    MARKER_SIZE,
    MarkerKind,
    MarkerName,
    Pointer,
    read_marker,
    read_marker_name,
)

if TYPE_CHECKING:
    from je_tools.ignite.store import Node

_RECOVERY = re.compile(r"\d+-(.+)-RECOVERY-\d+\.bin")


class Marker(Struct, frozen=True):
    """One marker.

    Attributes:
        path: path of the file.
        name: time, id and kind.
        pointer: place of the checkpoint's record; None if the file has no valid one.
        problem: reason why it has none; None if it has one.
    """

    path: Path
    name: MarkerName
    pointer: Pointer | None
    problem: str | None


class MarkerFolder(Struct, frozen=True):
    """The files of one folder.

    Attributes:
        markers: by time, a begin before the end of the same time.
        recovery_files: number of files with pages of a checkpoint, by the text of its id.
        leftovers: files that were not finished (`.tmp`).
    """

    markers: tuple[Marker, ...]
    recovery_files: dict[str, int]
    leftovers: tuple[Path, ...]


def read_markers(node: Node) -> MarkerFolder:
    """Read the markers of a node.

    Raises:
        InputError: the node has no folder of markers, or it cannot be listed.
    """
    if node.db is None:
        where = node.name or "segments alone"
        raise InputError(f"{where}: no checkpoint markers; name the work directory of the node")
    folder = node.db / "cp"
    try:
        paths = sorted(folder.iterdir())
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror}") from error
    markers, recovery = [], dict[str, int]()
    for path in paths:
        name, part = read_marker_name(path.name), _RECOVERY.fullmatch(path.name)
        if name is not None:
            markers.append(_read(path, name, node.is_big))
        elif part is not None:
            recovery[part[1]] = recovery.get(part[1], 0) + 1
    markers.sort(key=lambda each: (each.name.time_ms, each.name.kind is MarkerKind.END))
    leftovers = tuple(path for path in paths if path.suffix == ".tmp")
    return MarkerFolder(tuple(markers), recovery, leftovers)


def _read(path: Path, name: MarkerName, is_big: bool) -> Marker:
    if name.checkpoint is None:
        return Marker(path, name, None, "the name has no valid time and id of a checkpoint")
    if not path.is_file():
        return Marker(path, name, None, "not a file")
    try:
        with path.open("rb") as file:
            data = file.read(MARKER_SIZE + 1)
    except OSError as error:
        return Marker(path, name, None, str(error.strerror))
    if len(data) != MARKER_SIZE:
        size = f"{len(data)} bytes" if len(data) < MARKER_SIZE else f"over {MARKER_SIZE} bytes"
        return Marker(path, name, None, size)
    pointer = read_marker(data, is_big=is_big)
    return Marker(path, name, pointer, None if pointer else "a negative segment or offset")
