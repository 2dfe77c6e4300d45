"""Caches whose configuration a node does not find, or cannot read.

A node takes its caches from the configurations in their folders (`cache_data.dat`), and from its
own configuration. Without one, it starts without the cache, and says nothing. An empty file is as
good as none. It does not start with one that Java cannot read.

Source: GridLocalConfigManager.readCacheConfigurations, Ignite 2.18.0, and starts of a node on such
stores.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.ignite.caches import CONFIGURATION, cache_folders
from je_tools.ignite.pages.files import FileKind, page_folder
from je_tools.ignite.values.side_files import stream_fault

if TYPE_CHECKING:
    from je_tools.ignite.store import Node


class LackingConfiguration(Struct, frozen=True):
    """A folder of caches without a configuration, or a configuration that cannot be read.

    Attributes:
        path: the folder or the file.
        found: what is in its place.
        is_lost: True if the node starts without the caches of the folder; False if it does not
            start.
    """

    path: Path
    found: str
    is_lost: bool


def lacking_configurations(node: Node) -> Iterator[LackingConfiguration]:
    """Yield the caches of a node whose configuration is missing or cannot be read.

    A folder without pages of partitions is that of a cache that was destroyed. In the folder of a
    group, a configuration that is missing beside others is not seen.

    Raises:
        InputError: a folder of caches cannot be listed.
    """
    if node.db is None:
        return
    files = page_folder(node).files
    filled = {each.group for each in files if each.kind is FileKind.PARTITION and each.pages}
    for folder in cache_folders(node.db):
        paths = sorted(folder.path.glob(f"*{CONFIGURATION}"))
        written = [path for path in paths if _is_written(path)]
        if not written and folder.group in filled:
            found = "an empty file" if paths else "no file"
            yield LackingConfiguration(folder.path, found, is_lost=True)
        for path in written:
            fault = stream_fault(path)
            if fault is not None:
                yield LackingConfiguration(path, fault, is_lost=False)


def _is_written(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except OSError:
        # The node fails to read it too.
        return True
