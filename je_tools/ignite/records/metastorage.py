"""Keys of a node's metastorage as recovery leaves them.

Source: MetaStorage, WalStateManager, GridCacheDatabaseSharedManager.restoreMemory, Ignite 2.18.0.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from je_tools.formats.ignite.rows import RowReader
from je_tools.formats.spans import Spans
from je_tools.ignite.logical.entries import METASTORAGE_ID
from je_tools.ignite.pages.files import FileKind, page_folder
from je_tools.ignite.pages.images import mapped_image

if TYPE_CHECKING:
    from je_tools.ignite.records.recovered import RecoveredNode
    from je_tools.ignite.store import Node

_DISABLED = re.compile(rb"grp-wal-(?:local-)?disabled-(-?\d{1,10})")


def metastorage_keys(node: Node, recovered: RecoveredNode) -> set[bytes]:
    """Return the keys that can be read; `pages verify` reports damaged pages.

    Raises:
        StoppedError: a file shrank, vanished or was replaced while it was read.
    """
    found: set[bytes] = set()
    for file in page_folder(node).files:
        if file.kind is not FileKind.METASTORAGE or file.header is None or not file.pages:
            continue
        changed = recovered.changed(METASTORAGE_ID, file.partition)
        with mapped_image(file, changed) as image:
            for batch in RowReader(image, METASTORAGE_ID).batches():
                found |= _keys(Spans(batch.data, batch.key_start, batch.key_size))
    updates = recovered.logical.updates.of_partition(METASTORAGE_ID, 0)
    removed = updates.is_removed
    return found - _keys(updates.keys.select(removed)) | _keys(updates.keys.select(~removed))


def _keys(spans: Spans) -> set[bytes]:
    return {spans[row] or b"" for row in range(len(spans))}


def unlogged_groups(node: Node, recovered: RecoveredNode) -> frozenset[int]:
    """Return the ids of the groups whose changes were not logged when the node stopped.

    Raises:
        StoppedError: a file shrank, vanished or was replaced while it was read.
    """
    names = map(_DISABLED.fullmatch, metastorage_keys(node, recovered))
    return frozenset(int(name[1]) for name in names if name is not None)
