"""Writes to files of pages: an unfinished checkpoint is finished, damaged pages are rebuilt.

Both bring files to the state at the record of the newest checkpoint, from which the logical part of
recovery starts. Pages of an unfinished checkpoint are written before its end marker. Damaged pages
and missing files are rebuilt from the log if it has their whole history.

Source: GridCacheDatabaseSharedManager.finalizeCheckpointOnRecovery, CheckpointMarkersStorage,
Ignite 2.18.0, and starts of a node on stores that were written so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.formats.ignite.ids import cache_id
from je_tools.formats.ignite.markers import MarkerKind, Pointer, encode_marker
from je_tools.formats.ignite.page_ids import INDEX_PARTITION, page_file_name
from je_tools.formats.ignite.pages import PageFileHeader, file_header_bytes
from je_tools.ignite.pages.files import FileKind, page_folder
from je_tools.ignite.recovery.page_damage import PageRepair
from je_tools.ignite.recovery.partitions import (
    checkpointed_partitions,
    counters_in,
    has_all_pages,
)
from je_tools.ignite.recovery.physical import open_replay, replay_log
from je_tools.ignite.repairs.edits import StoreEdit, create_file, set_aside, write_bytes
from je_tools.ignite.wal.segment_reading import copies_of

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints
    from je_tools.formats.ignite.records import PartitionAt
    from je_tools.formats.ignite.replay import PageReplay
    from je_tools.ignite.checkpoints.node_checkpoints import NodeCheckpoints
    from je_tools.ignite.pages.files import PageFile
    from je_tools.ignite.recovery.page_damage import DamagedPages
    from je_tools.ignite.recovery.physical import PhysicalRecovery
    from je_tools.ignite.store import Node

FINISH = "pages of the unfinished checkpoint, as recovery writes them"
FINISHED = "all pages of the checkpoint are written"
FINISHED_FILES = "no checkpoint needs this recovery file any more"
REBUILD = "the page is damaged; the log has its whole history"
REMAKE = "the file is gone or has no pages; the log has the whole history of its pages"
REINDEX = "the index is damaged; the node builds it anew if the file is gone"


GAP_MAX = 64 << 20
"""Bytes of zeros that are written between the end of a file and pages after it.

Engines allocate pages in order, and the index of a page comes from the log."""


class PageEdits(Struct):
    """Edits of files of pages.

    Attributes:
        edits: the edits, in order.
        left: what cannot be written, and why.
        rebuilt: files in which the edits repair all damage.
    """

    edits: list[StoreEdit] = []
    left: list[str] = []
    rebuilt: list[Path] = []


def plan_page_edits(
    node: Node,
    checkpoints: NodeCheckpoints,
    physical: PhysicalRecovery,
    damaged: Sequence[DamagedPages],
) -> PageEdits:
    """Return the edits that bring files of pages to the state of the newest checkpoint.

    Args:
        node: the node.
        checkpoints: its checkpoints.
        physical: the physical part of recovery.
        damaged: damaged pages of its files.

    Raises:
        StoppedError: a file shrank, vanished or was replaced while it was read.
    """
    plan = PageEdits()
    writer = _FileEdits(node)
    if physical.status == "unfinished":
        _finish(plan, writer, physical)
        if plan.left:
            return plan
    _rebuild(plan, writer, checkpoints, physical, damaged)
    reasons = (FINISHED, FINISHED_FILES)
    last = [each for each in plan.edits if each.reason in reasons]
    # The end marker says that all pages are written, and recovery files are needed until then.
    plan.edits = [each for each in plan.edits if each.reason not in reasons] + last
    return plan


class _FileEdits:
    """Maker of edits of the files of a node."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.files = page_folder(node).files
        self._by_key = {(cache_id(each.group), each.partition): each for each in self.files}
        self._folders = {cache_id(each.group): each.path.parent for each in self.files}
        self.is_big = any(each.header.is_big for each in self.files if each.header is not None)
        self._header = next((each.header for each in self.files if each.header is not None), None)

    def file(self, group_id: int, partition: int) -> PageFile | None:
        """Return the file of a partition."""
        return self._by_key.get((group_id, partition))

    def has_folder(self, group_id: int) -> bool:
        """Return True if a group has a folder."""
        return group_id in self._folders

    @staticmethod
    def is_near(file: PageFile, indexes: Ints) -> bool:
        """Return True if pages lie in a file, or not far after its end."""
        header = file.header
        assert header is not None
        starts = header.size + indexes * header.page_size
        before = np.append(0, starts[:-1] + header.page_size)[: len(starts)]
        gaps = starts - np.maximum(before, file.size)
        return int(np.maximum(gaps, 0).sum()) <= GAP_MAX

    def write(
        self, file: PageFile, replay: PageReplay, indexes: Ints, reason: str
    ) -> Iterator[StoreEdit]:
        """Yield the writes of pages to a file that exists, consecutive ones as one."""
        header = file.header
        assert header is not None
        end = file.size
        for run in np.split(indexes, np.flatnonzero(np.diff(indexes) != 1) + 1):
            if len(run):
                at = header.size + int(run[0]) * header.page_size
                gap = bytes(max(at - end, 0))
                pages = _pages(replay, (cache_id(file.group), file.partition), run, gap)
                yield write_bytes(file.path, at - len(gap), pages, reason)
                end = max(end, at + len(run) * header.page_size)

    def create(
        self, replay: PageReplay, group_id: int, partition: int, reason: str
    ) -> StoreEdit | None:
        """Return the edit that makes or fills a file without pages; None if some are missing."""
        indexes = replay.whole_pages(group_id, partition)
        if self._header is None or not has_all_pages(indexes):
            return None
        is_index = partition == INDEX_PARTITION
        header = PageFileHeader(self.is_big, self._header.version, is_index, self._header.page_size)
        data = _pages(replay, (group_id, partition), indexes, file_header_bytes(header))
        path = self._folders[group_id] / page_file_name(partition)
        if self.file(group_id, partition) is not None:
            return write_bytes(path, 0, data, reason)
        return create_file(path, data, reason, is_barrier=False)


class _ReplayedBytes:
    """Bytes before consecutive pages of a replay, and the pages, which are unpacked when needed."""

    def __init__(
        self, replay: PageReplay, place: tuple[int, int], first: int, count: int, before: bytes
    ) -> None:
        self._replay, self._place, self._before = replay, place, before
        self._first, self._size = first, count * replay.page_size

    def __len__(self) -> int:
        return len(self._before) + self._size

    def __getitem__(self, span: slice) -> bytes:
        start, stop, _ = span.indices(len(self))
        skipped, size = len(self._before), self._replay.page_size
        if stop <= max(start, skipped):
            return self._before[start:stop]
        first = max(start - skipped, 0) // size
        last = (stop - skipped - 1) // size
        _, pages = self._replay.pages_of(*self._place, self._first + first, self._first + last)
        if len(pages) != last + 1 - first:
            raise ValueError(f"the replay has lost pages of {self._place}")
        at = first * size
        part = pages.reshape(-1)[max(start - skipped, 0) - at : stop - skipped - at]
        return self._before[start:] + part.tobytes()


def _pages(replay: PageReplay, place: tuple[int, int], run: Ints, before: bytes) -> _ReplayedBytes:
    """Return bytes, and after them the consecutive pages of a run."""
    return _ReplayedBytes(replay, place, int(run[0]), len(run), before)


def _finish(plan: PageEdits, writer: _FileEdits, physical: PhysicalRecovery) -> None:
    """Add the writes of the pages of an unfinished checkpoint, and its end marker.

    Nothing is added if pages of any file cannot be written: the end marker would call a mix of
    pages a finished checkpoint.
    """
    replay, begin = physical.replay, physical.begin
    if replay is None or begin is None or begin.pointer is None or physical.problem is not None:
        plan.left.append(f"the checkpoint cannot be finished: {physical.problem}")
        return
    if replay.destroyed():
        group_id, partition = replay.destroyed()[0]
        plan.left.append(
            f"the checkpoint cannot be finished: partition {partition} of group {group_id} is to "
            "be destroyed; start the node, which does both"
        )
        return
    for group_id, partition in _partitions(replay):
        edits = _finishing(writer, replay, group_id, partition)
        if isinstance(edits, str):
            plan.left.append(f"the checkpoint cannot be finished: {edits}")
        else:
            plan.edits += edits
    if plan.left:
        plan.edits.clear()
        return
    data = encode_marker(begin.pointer, is_big=writer.is_big)
    path = begin.path.with_name(begin.path.name.replace(MarkerKind.START, MarkerKind.END))
    plan.edits.append(create_file(path, data, FINISHED))
    plan.edits += [set_aside(each, FINISHED_FILES) for each in physical.recovery_files]


def _finishing(
    writer: _FileEdits, replay: PageReplay, group_id: int, partition: int
) -> list[StoreEdit] | str:
    """Return the writes of the pages of one file, or why they cannot be written."""
    if not writer.has_folder(group_id):
        # The caches were destroyed; the node skips these pages too.
        return []
    file = writer.file(group_id, partition)
    if file is None and partition == INDEX_PARTITION:
        # The node builds a removed index anew, and skips its pages.
        return []
    if file is None or file.is_without_pages:
        edit = writer.create(replay, group_id, partition, FINISH)
        if edit is not None:
            return [edit]
        place = f"partition {partition} of group {group_id}" if file is None else file.path
        return f"{place}: the log does not have all pages of a file that is gone or has none"
    if file.header is None or file.problem is not None:
        return f"{file.path}: {file.problem}"
    indexes = replay.whole_pages(group_id, partition)
    if not writer.is_near(file, indexes):
        return f"{file.path}: the log has page {int(indexes[-1]):,}, far after the end of the file"
    cut = _cut_page(file)
    if cut is not None and cut not in indexes and np.any(indexes > cut):
        return f"{file.path}: the file ends inside page {cut:,}, which recovery does not write"
    return list(writer.write(file, replay, indexes, FINISH))


def _cut_page(file: PageFile) -> int | None:
    """Return the page in which a file ends; None if it ends after a page."""
    header = file.header
    assert header is not None
    page, rest = divmod(file.size - header.size, header.page_size)
    return page if rest else None


def _partitions(replay: PageReplay) -> list[tuple[int, int]]:
    places = replay.places()
    return sorted(set(zip(places.group_id.tolist(), places.partition.tolist(), strict=True)))


def _rebuild(
    plan: PageEdits,
    writer: _FileEdits,
    checkpoints: NodeCheckpoints,
    physical: PhysicalRecovery,
    damaged: Sequence[DamagedPages],
) -> None:
    """Add the writes of damaged pages, and of files that are gone."""
    compared = list(checkpointed_partitions(writer.node, checkpoints, physical.replay))
    lost = [each for each in compared if each.is_missing and each.expected.size]
    left = [each for each in damaged if each.repair is not PageRepair.RECOVERED]
    indexes = sorted({each.file.path for each in left if each.file.kind is FileKind.INDEX})
    plan.edits = [each for each in plan.edits if each.path not in indexes]
    plan.edits += [set_aside(path, REINDEX) for path in indexes]
    plan.rebuilt += indexes
    by_file: dict[Path, list[DamagedPages]] = {}
    for run in left:
        if run.file.kind is not FileKind.INDEX:
            by_file.setdefault(run.file.path, []).append(run)
    if not by_file and not lost:
        return
    begin = physical.begin
    replay = None
    if begin is not None and begin.pointer is not None:
        replay = _history(writer.node, begin.pointer)
    if replay is None:
        plan.left.append("damaged pages cannot be rebuilt: the log does not reach the checkpoint")
        return
    expected = {(each.group_id, each.expected.partition): each.expected for each in compared}
    for some in by_file.values():
        _rebuild_pages(plan, writer, replay, some, expected)
    for each in lost:
        key = (each.group_id, each.expected.partition)
        edit = None
        if _is_current(writer, replay, key, expected):
            edit = writer.create(replay, *key, REMAKE)
        if edit is None:
            plan.left.append(f"{each.path}: the log does not have the whole history of its pages")
        else:
            plan.edits.append(edit)
            plan.rebuilt.append(edit.path)


def _rebuild_pages(
    plan: PageEdits,
    writer: _FileEdits,
    replay: PageReplay,
    damaged: Sequence[DamagedPages],
    expected: dict[tuple[int, int], PartitionAt],
) -> None:
    """Add the writes of the damaged pages of one file."""
    file = damaged[0].file
    key = (damaged[0].group_id, file.partition)
    indexes = replay.whole_pages(*key)
    if not _is_current(writer, replay, key, expected):
        indexes = indexes[:0]
    ends = [each.lost_from for each in damaged if each.lost_from is not None]
    ends += [] if _cut_page(file) is None else [file.pages]
    if ends and not has_all_pages(indexes):
        # The file was longer, and only the history of all of its pages says which are lost.
        indexes = indexes[:0]
    chosen = [np.arange(*np.searchsorted(indexes, _ends(run))) for run in damaged]
    if ends:
        chosen.append(np.flatnonzero(indexes >= min(ends)))
    written = indexes[np.unique(np.concatenate(chosen))]
    if len(written):
        plan.edits += writer.write(file, replay, written, REBUILD)
    known = set(written.tolist())
    pages_of = (range(*_ends(run)) for run in damaged)
    missing = [page for some in pages_of for page in some if page not in known]
    if not missing:
        plan.rebuilt.append(file.path)
    else:
        numbers = ", ".join(map(str, islice(missing, 10)))
        plan.left.append(f"{file.path}: the log does not have the whole history of page {numbers}")


def _ends(run: DamagedPages) -> tuple[int, int]:
    return run.page, run.page + run.pages


def _is_current(
    writer: _FileEdits,
    replay: PageReplay,
    key: tuple[int, int],
    expected: dict[tuple[int, int], PartitionAt],
) -> bool:
    """Return True unless a partition in a replay differs from that of the newest checkpoint.

    It differs if the log was off for a while.
    """
    known = expected.get(key)
    found = counters_in(replay, *key, is_big=writer.is_big)
    if known is None:
        return True
    numbers = (known.size, known.counter)
    return found is not None and (found.size, found.update_counter) == numbers


def _history(node: Node, stop: Pointer) -> PageReplay | None:
    """Replay the log up to a checkpoint, from the earliest segment after which it is whole."""
    copies = [each for each in copies_of(node) if each.index <= stop.segment]
    first = 0
    while first < len(copies):
        later = copies[first:]
        headers = [each.chosen.header for each in later]
        packed = [i for i, each in enumerate(headers) if each is not None and each.compacted]
        if packed:
            first += packed[-1] + 1
            continue
        replay = open_replay(node)
        if replay is None:
            return None
        end = replay_log(node, replay, Pointer(later[0].index, 0, 0), stop)
        if end is None:
            return replay
        reached = [i for i, each in enumerate(later) if each.index > end.segment]
        first += reached[0] if reached else len(later)
    return None
