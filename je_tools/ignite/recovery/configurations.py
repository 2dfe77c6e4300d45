"""Caches whose configuration a node does not find, or cannot read.

A node takes its caches from the configurations in their folders (`cache_data.dat`), and from its
own configuration. If a cache has none, the node starts without it, and says nothing; the rows of a
cache of a group stay in the pages of the group. An empty file counts as none. The node does not
start with a file that Java cannot read.

Source: GridLocalConfigManager.readCacheConfigurations, Ignite 2.18.0, and starts of a node on such
stores.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.core.escaping import counted
from je_tools.formats.ignite.ids import cache_id
from je_tools.ignite.caches import CONFIGURATION, cache_folders
from je_tools.ignite.pages.files import FileKind, page_folder
from je_tools.ignite.values.side_files import stream_fault

if TYPE_CHECKING:
    from je_tools.ignite.caches import CacheFolder
    from je_tools.ignite.store import Node

_IDS_SHOWN = 10


class UnconfiguredFolder(Struct, frozen=True):
    """Data of caches without a configuration, or a configuration that cannot be read.

    Attributes:
        path: the folder or the file.
        group: name of the group.
        found: what is there instead of a readable configuration.
        is_lost: True if the node starts without the caches; False if it does not start.
    """

    path: Path
    group: str
    found: str
    is_lost: bool


def lacking_configurations(
    node: Node, rows: Mapping[str, Counter[int]]
) -> Iterator[UnconfiguredFolder]:
    """Yield the caches of a node whose configuration is missing or cannot be read.

    A folder without pages of partitions is that of a cache that was destroyed.

    Args:
        node: the node.
        rows: rows in the pages of groups. If other caches of its group have configurations, a
            cache without one is found only by its rows.

    Raises:
        InputError: a folder of caches cannot be listed.
    """
    if node.db is None:
        return
    files = page_folder(node).files
    filled = {each.group for each in files if each.kind is FileKind.PARTITION and each.pages}
    for folder in cache_folders(node.db):
        if not folder.configured and folder.group in filled:
            is_there = any(folder.path.glob(f"*{CONFIGURATION}"))
            found = "an empty file" if is_there else "no file"
            yield UnconfiguredFolder(folder.path, folder.group, found, is_lost=True)
        elif folder.is_shared:
            lost = _unconfigured(folder, rows.get(folder.group, Counter()))
            if lost.total():
                text = _rows_text(lost)
                yield UnconfiguredFolder(folder.path, folder.group, text, is_lost=True)
        for cache in folder.configured:
            path = folder.path / f"{cache if folder.is_shared else ''}{CONFIGURATION}"
            fault = stream_fault(path)
            if fault is not None:
                yield UnconfiguredFolder(path, folder.group, fault, is_lost=False)


def _unconfigured(folder: CacheFolder, rows: Counter[int]) -> Counter[int]:
    known = {cache_id(name) for name in folder.configured}
    return Counter({cache: count for cache, count in rows.items() if cache not in known})


def _rows_text(rows: Counter[int]) -> str:
    ids = sorted(rows)
    more = f" and {len(ids) - _IDS_SHOWN:,} more" if len(ids) > _IDS_SHOWN else ""
    shown = ", ".join(map(str, ids[:_IDS_SHOWN]))
    return f"{counted(rows.total(), 'row')} of caches without one (id {shown}{more})"
