"""Types of binary objects that a node knows, from its folders of metadata.

Source: BinaryMetadataFileStore, MarshallerMappingFileStore, NodeFileTree, Ignite 2.18.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from je_tools.formats.ignite.values import ValueTypes
from je_tools.ignite.values.side_files import class_name_files, metadata_files

if TYPE_CHECKING:
    from je_tools.ignite.store import Node


def node_types(node: Node) -> ValueTypes:
    """Return the types that a node knows; only those of the JDK if its folder is not there.

    Files that cannot be read, or are no metadata, are left out: objects of their types are then
    shown with numbers in place of names. `damaged_types` reports them.
    """
    metadata = (each.data for each in metadata_files(node) if each.problem is None)
    classes = [
        (each.type_id, each.data.decode("utf-8", "replace"))
        for each in class_name_files(node)
        if each.problem is None and -(1 << 31) <= each.type_id < 1 << 31
    ]
    return ValueTypes(metadata, classes)
