"""Files beside log and pages: descriptions of types, names of classes, and configurations.

They have no checksum, so damage is only found where it makes a file contradict itself.

Source: BinaryMetadataFileStore, MarshallerMappingFileStore, GridLocalConfigManager,
CheckpointMarkersStorage, Ignite 2.18.0.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.formats.ignite.ids import java_hash
from je_tools.formats.ignite.java_stream import java_stream_fault
from je_tools.formats.ignite.metadata_check import metadata_fault
from je_tools.formats.ignite.values import METADATA_MAX
from je_tools.ignite.caches import CONFIGURATION, cache_folders

if TYPE_CHECKING:
    from je_tools.ignite.store import Node

UNCHECKED = (
    "Values in configurations of caches (cache_data.dat) and in cpMapSnapshot.bin, which have no "
    "checksum: only their structure is checked, that of cpMapSnapshot.bin by `je-tools doctor`. Of "
    "descriptions of types (binary_meta) and names of classes (marshaller), which have none "
    "either, it checks hashes and ids."
)
"""The parts of these files that are not checked, in words."""

_METADATA = re.compile(r"(-?\d{1,10})\.bin", re.ASCII)
_CLASS_NAME = re.compile(r"(-?\d{1,10})\.classname0", re.ASCII)
_CLASS_NAME_MAX = 4096
"""Bytes of the longest name of a class that is read."""

_STREAM_MAX = 16 << 20
"""Most bytes that are read of an object that Java serialized; a larger one counts as damaged."""


class SideFile(Struct, frozen=True):
    """A file of a type or class.

    Attributes:
        path: path of the file.
        type_id: number in its name.
        data: its bytes, up to one more than a file may have.
        problem: why it cannot be read, in words; None if it can.
    """

    path: Path
    type_id: int
    data: bytes
    problem: str | None


class DamagedSideFile(Struct, frozen=True):
    """A file that is damaged or cannot be read: its path, and what was found, in words."""

    path: Path
    found: str


def metadata_files(node: Node) -> Iterator[SideFile]:
    """Yield the descriptions of types that a node has, in the order of their names."""
    if node.db is not None:
        folder = node.db.parent / "binary_meta" / node.name
        yield from _files(folder, _METADATA, METADATA_MAX)


def class_name_files(node: Node) -> Iterator[SideFile]:
    """Yield the names of classes that a node has, in the order of their ids as text."""
    if node.db is not None:
        yield from _files(node.db.parent / "marshaller", _CLASS_NAME, _CLASS_NAME_MAX)


def damaged_types(node: Node) -> Iterator[DamagedSideFile]:
    """Yield the files of types and classes that are damaged, as far as that shows."""
    for files, fault in (
        (metadata_files(node), metadata_fault),
        (class_name_files(node), _class_name_fault),
    ):
        for each in files:
            found = each.problem or fault(each.data, each.type_id)
            if found is not None:
                yield DamagedSideFile(each.path, found)


def damaged_side_files(node: Node) -> Iterator[DamagedSideFile]:
    """Yield `damaged_types`, and configurations and snapshots that Java cannot read.

    Raises:
        InputError: a folder of caches cannot be listed.
    """
    yield from damaged_types(node)
    if node.db is None:
        return
    paths = [node.db / "cp" / "cpMapSnapshot.bin"]
    for folder in cache_folders(node.db):
        paths += sorted(folder.path.glob(f"*{CONFIGURATION}"))
    for path in paths:
        fault = stream_fault(path) if os.path.lexists(path) else None
        if fault is not None:
            yield DamagedSideFile(path, fault)


def stream_fault(path: Path) -> str | None:
    """Return why a file is no object that Java serialized, in words; None if it is one."""
    data, problem = _read(path, _STREAM_MAX + 1)
    if problem is None and len(data) > _STREAM_MAX:
        problem = f"over {_STREAM_MAX:,} bytes"
    return problem or java_stream_fault(data)


def _class_name_fault(data: bytes, type_id: int) -> str | None:
    """Return what is wrong with the name of a class; its id may be that of the simple name."""
    try:
        name = data.decode("utf-8")
    except UnicodeDecodeError:
        return "no text in UTF-8"
    simple = re.split(r"[.$+]", name)[-1]
    if type_id in map(java_hash, (name.lower(), simple.lower(), name, simple)):
        return None
    return "a name of a class whose hash is not the id in the name of the file"


def _files(folder: Path, pattern: re.Pattern[str], size_max: int) -> Iterator[SideFile]:
    try:
        paths = sorted(folder.iterdir())
    except OSError:
        return
    for path in paths:
        name = pattern.fullmatch(path.name)
        if name is None:
            continue
        data, problem = _read(path, size_max + 1)
        if problem is None and len(data) > size_max:
            problem = f"over {size_max:,} bytes"
        yield SideFile(path, int(name[1]), data, problem)


def _read(path: Path, size: int) -> tuple[bytes, str | None]:
    """Return the first bytes of a file, and why it cannot be read; None if it can."""
    try:
        if path.exists() and not path.is_file():
            # To open a pipe would wait for somebody who writes to it.
            return b"", "it is no regular file"
        with path.open("rb") as file:
            return file.read(size), None
    except OSError as error:
        return b"", error.strerror or str(error)
