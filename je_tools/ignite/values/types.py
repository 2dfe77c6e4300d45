"""Types of binary objects that a node knows, from its folders of metadata.

Source: BinaryMetadataFileStore, MarshallerMappingFileStore, NodeFileTree, Ignite 2.18.0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from je_tools.formats.ignite.values import METADATA_MAX, ValueTypes

if TYPE_CHECKING:
    from pathlib import Path

    from je_tools.ignite.store import Node

_METADATA = re.compile(r"-?\d{1,10}\.bin")
_CLASS_NAME = re.compile(r"(-?\d{1,10})\.classname0")
_CLASS_NAME_MAX = 4096
"""Bytes of the longest name of a class that is read."""


def node_types(node: Node) -> ValueTypes:
    """Return the types that a node knows; only those of the JDK if its folder is not there.

    Files that cannot be read, or are no metadata, are left out: objects of their types are then
    shown with numbers in place of names.
    """
    if node.db is None:
        return ValueTypes()
    folder = node.db.parent
    metadata = (data for _, data in _files(folder / "binary_meta" / node.name, _METADATA))
    classes = [
        (int(name[1]), data.decode("utf-8", "replace"))
        for name, data in _files(folder / "marshaller", _CLASS_NAME)
        if len(data) <= _CLASS_NAME_MAX and -(1 << 31) <= int(name[1]) < 1 << 31
    ]
    return ValueTypes(metadata, classes)


def _files(folder: Path, pattern: re.Pattern[str]) -> Iterator[tuple[re.Match[str], bytes]]:
    """Yield the names and contents of files, but no more than METADATA_MAX bytes of one."""
    try:
        paths = sorted(folder.iterdir())
    except OSError:
        return
    for path in paths:
        name = pattern.fullmatch(path.name)
        if name is None or not path.is_file():
            continue
        try:
            with path.open("rb") as file:
                yield name, file.read(METADATA_MAX + 1)
        except OSError:
            continue
