"""Rows in files of pages that a checkpoint wrote after a given one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from je_tools.formats.ignite.ids import cache_id
from je_tools.formats.ignite.rows import RowReader
from je_tools.ignite.logical.entries import EntryCollector
from je_tools.ignite.logical.log_range import LogRange
from je_tools.ignite.pages.images import mapped_image

if TYPE_CHECKING:
    from je_tools.formats.ignite.markers import Pointer
    from je_tools.ignite.pages.files import PageFile
    from je_tools.ignite.store import Node

_Versions = npt.NDArray[np.void]


class LoggedVersions(Struct, frozen=True):
    """Versions of the entries that the log has from a pointer on.

    Attributes:
        versions: topology, node and order of each, as 24 bytes.
        topology, order: the newest of them; -1 if there are none.
    """

    versions: _Versions
    topology: int
    order: int


def logged_versions(node: Node, start: Pointer) -> LoggedVersions:
    """Return the versions of all entries of the log of a node from `start` on.

    Raises:
        StoppedError: a file shrank, vanished or was replaced while it was read.
    """
    collector = EntryCollector(sum(each.size for each in node.segments))
    for rows in LogRange(node, start, counts_lost=False):
        collector.add(rows)
    entries = collector.entries()
    versions = _packed(entries.topology, entries.node, entries.order)
    if not len(versions):
        return LoggedVersions(versions, -1, -1)
    newest = np.lexsort((entries.order, entries.topology))[-1]
    return LoggedVersions(versions, int(entries.topology[newest]), int(entries.order[newest]))


def has_row_of(file: PageFile, logged: LoggedVersions) -> bool:
    """Return True if a partition has a row of a logged version, or a newer one.

    Rows that cannot be read are passed over.

    Raises:
        StoppedError: the file became shorter while it was read.
    """
    if logged.topology < 0:
        return False
    with mapped_image(file) as image:
        for batch in RowReader(image, cache_id(file.group)).batches():
            found = _packed(batch.topology, batch.node, batch.order)
            is_later = (batch.topology > logged.topology) | (
                (batch.topology == logged.topology) & (batch.order > logged.order)
            )
            is_whole = batch.fault == 0
            if (is_whole & (is_later | np.isin(found, logged.versions))).any():
                return True
    return False


def _packed(*columns: npt.NDArray[np.integer]) -> _Versions:
    table = np.ascontiguousarray(np.stack(columns, axis=1, dtype=np.int64))
    return table.view(f"V{table.shape[1] * 8}")[:, 0]
