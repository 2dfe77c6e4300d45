"""Records of one partition as recovery would leave them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.core.escaping import counted
from je_tools.formats.ignite.ids import cache_id
from je_tools.formats.ignite.page_image import PageFault, PageImage
from je_tools.formats.ignite.partition_counter import StoredCounter, read_stored_counter
from je_tools.formats.ignite.rows import RowReader, TreeFault, fault_text
from je_tools.ignite.pages.images import mapped_image
from je_tools.ignite.records.merge import CacheRecords, PartitionOverlay, readable_records
from je_tools.ignite.records.problems import MissingRecords, RecordProblem

if TYPE_CHECKING:
    from je_tools.formats.ignite.page_image import ChangedPages
    from je_tools.ignite.pages.files import PageFile


class PartitionPlace(Struct, frozen=True):
    """One partition of a node.

    Attributes:
        node: name of the node.
        group: name of the cache group.
        partition: number.
        caches: ids of the caches that are read.
        is_whole: True if these are all caches of the group whose configurations are there.
        is_big: True if the writer's numbers have the highest byte first.
    """

    node: str
    group: str
    partition: int
    caches: tuple[int, ...]
    is_whole: bool
    is_big: bool

    @property
    def group_id(self) -> int:
        """Id of the cache group."""
        return cache_id(self.group)


class PartitionRecords:
    """Reader of the records of a partition.

    Attributes:
        place: the partition.
        stored: counter and state in its pages as physical recovery leaves them, once they have
            been read; None if there are none, or if they cannot be read.
        unconfigured: rows of pages that are left out, by the ids of their caches, whose
            configurations are gone. Those of a cache that is not wanted do not count.
    """

    def __init__(
        self,
        place: PartitionPlace,
        file: PageFile | None,
        changed: ChangedPages | None,
        overlay: PartitionOverlay,
        problems: list[MissingRecords],
    ) -> None:
        """Make a reader.

        Args:
            place: the partition.
            file: its file; None for none.
            changed: pages that recovery changes; None for none.
            overlay: the log's operations on it.
            problems: receives what cannot be read.
        """
        self.place = place
        self.stored: StoredCounter | None = None
        self.unconfigured: Counter[int] = Counter()
        self._file = file
        self._changed = changed
        self._overlay = overlay
        self._problems = problems

    @property
    def is_new(self) -> bool:
        """True if the partition has no pages yet, and recovery makes it."""
        return self._changed is None and (self._file is None or self._file.is_empty)

    def batches(self) -> Iterator[CacheRecords]:
        """Yield the records: those of pages, then those of the log.

        Raises:
            RefusedError: a temporary file cannot be read.
            StoppedError: the file shrank, vanished or was replaced while it was read.
        """
        for records in self._rows():
            is_read = np.isin(records.cache_id, self.place.caches)
            if self.place.is_whole and not is_read.all():
                self.unconfigured.update(records.cache_id[~is_read].tolist())
            kept = self._overlay.unchanged(records.select(is_read))
            if len(kept):
                yield kept
        yield from self._overlay.records()

    def _rows(self) -> Iterator[CacheRecords]:
        file, changed = self._file, self._changed
        if file is None or not (file.pages or changed or file.problem):
            if changed is not None:
                yield from self._tree(_memory_image(self.place, changed))
        elif file.header is None:
            if not file.is_empty:
                text = f"{file.path.name} cannot be read: {file.problem}"
                self._add(RecordProblem.FILE, 1, text)
        else:
            with mapped_image(file, changed) as image:
                yield from self._tree(image)

    def _tree(self, image: PageImage) -> Iterator[CacheRecords]:
        self.stored = read_stored_counter(image)
        reader = RowReader(image, self.place.group_id)
        faults: Counter[int] = Counter()
        for batch in reader.batches():
            faults.update(batch.fault[batch.fault != 0].tolist())
            yield readable_records(batch, self.place.partition)
        for fault, count in sorted(faults.items()):
            text = f"{counted(count, 'row')} cannot be read: {fault_text(fault)}"
            self._add(RecordProblem.ROWS, count, text)
        self._judge_tree(reader)

    def _judge_tree(self, reader: RowReader) -> None:
        faults = reader.faults()
        encrypted = sum(fault is PageFault.ENCRYPTED for _, fault in faults)
        if encrypted:
            text = "the pages are encrypted, and their records are left out"
            self._add(RecordProblem.ENCRYPTED, encrypted, text)
        others = [each for each in faults if each[1] is not PageFault.ENCRYPTED]
        if others:
            # An unreadable page is listed again, as LOST, if no other page names those after it.
            unread = [each for each in others if each[1] is not TreeFault.LOST]
            count = len({page for page, _ in unread})
            text = f"what follows page {others[0][0]} of the tree is not known"
            if unread:
                page, fault = unread[0]
                text = (
                    f"{counted(count, 'page')} of the tree cannot be read, the first at index "
                    f"{page}: {fault_text(fault)}"
                )
            self._add(RecordProblem.TREE, max(count, 1), f"{text}; rows may be missing")

    def _add(self, problem: RecordProblem, count: int, text: str) -> None:
        place = self.place
        found = MissingRecords(problem, place.node, place.group, place.partition, count, text)
        self._problems.append(found)


def _memory_image(place: PartitionPlace, changed: ChangedPages) -> PageImage:
    """Return the image of a partition that only the log has."""
    empty, size = np.empty(0, np.uint8), changed.page_size
    return PageImage(empty, size, size, place.is_big, place.partition, changed)
