"""Counters of partitions: those of the newest checkpoint, and those in the files after recovery.

Source: CheckpointWorkflow.fillCacheGroupState, GridCacheOffheapManager.saveStoreMetadata,
Ignite 2.18.0.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.formats.ignite.ids import cache_id
from je_tools.formats.ignite.page_ids import page_file_name
from je_tools.formats.ignite.partition_meta import PartitionMeta, read_partition_meta
from je_tools.ignite.pages.files import page_folder
from je_tools.ignite.pages.first_pages import read_first_page

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints
    from je_tools.formats.ignite.records import PartitionAt
    from je_tools.formats.ignite.replay import PageReplay
    from je_tools.ignite.checkpoints.node_checkpoints import NodeCheckpoints
    from je_tools.ignite.store import Node


class CheckpointedPartition(Struct, frozen=True):
    """A partition of the newest checkpoint, and its file.

    Attributes:
        group_id: cache group.
        path: path of its file.
        expected: its counters at the checkpoint.
        is_missing: True if it has no file or one without pages, and recovery does not write all of
            its pages.
        found: counters in its first page; None if they cannot be read.
    """

    group_id: int
    path: Path
    expected: PartitionAt
    is_missing: bool
    found: PartitionMeta | None


def checkpointed_partitions(
    node: Node, checkpoints: NodeCheckpoints, replay: PageReplay | None
) -> Iterator[CheckpointedPartition]:
    """Yield the partitions of the newest checkpoint whose group has a folder.

    Args:
        node: the node.
        checkpoints: its checkpoints.
        replay: pages that recovery writes; None for none.

    Raises:
        StoppedError: a file shrank, vanished or was replaced while it was read.
    """
    newest = checkpoints.newest
    if newest is None or newest.record is None:
        return
    files = {(cache_id(each.group), each.partition): each for each in page_folder(node).files}
    folders = {group: each.path.parent for (group, _), each in files.items()}
    is_big = any(each.header.is_big for each in files.values() if each.header is not None)
    recovered = _recovered(replay)
    for group_id, partitions in newest.record.facts.groups.items():
        for expected in partitions if group_id in folders else ():
            key = (group_id, expected.partition)
            path = folders[group_id] / page_file_name(expected.partition)
            file = files.get(key)
            is_missing = file is None or file.is_without_pages
            if replay is not None and key in recovered:
                found = counters_in(replay, *key, is_big=is_big)
                # The node writes the pages that its log has, and reads zeros for the others.
                is_missing = is_missing and not has_all_pages(replay.whole_pages(*key))
            else:
                found = None if file is None else read_first_page(file)
            yield CheckpointedPartition(group_id, path, expected, is_missing, found)


def has_all_pages(indexes: Ints) -> bool:
    """Return True if ascending indexes of pages begin at 0 and have no gap."""
    return len(indexes) > 0 and int(indexes[-1]) + 1 == len(indexes)


def counters_in(
    replay: PageReplay, group_id: int, partition: int, *, is_big: bool
) -> PartitionMeta | None:
    """Return the counters of a partition in a replay; None if it has no whole first page."""
    page = replay.page(group_id, partition, 0)
    return None if page is None else read_partition_meta(page.tobytes(), is_big=is_big)


def _recovered(replay: PageReplay | None) -> set[tuple[int, int]]:
    """Return the partitions whose first page is in a replay."""
    if replay is None:
        return set()
    places = replay.places()
    first = (places.index == 0) & ~places.is_broken
    groups, partitions = places.group_id[first].tolist(), places.partition[first].tolist()
    return set(zip(groups, partitions, strict=True))
