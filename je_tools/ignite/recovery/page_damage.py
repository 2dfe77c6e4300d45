"""Damaged pages of files: those that recovery writes anew, and those that the node repairs.

When a node reads a damaged page, it looks for the page in its log. It starts from the newest image
of the page, never from a record that formats a page. The copy that it makes is complete when a
checkpoint began after the image.

Source: PageMemoryImpl.tryToRestorePage, Ignite 2.18.0, and starts of a node on damaged copies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.errors import InputError
from je_tools.formats.ignite.check import Structure
from je_tools.formats.ignite.ids import cache_id
from je_tools.formats.ignite.page_ids import PLACE_BITS
from je_tools.formats.ignite.pages import PageState
from je_tools.formats.ignite.partition_meta import PART_META_NO
from je_tools.formats.ignite.records import decode_type
from je_tools.formats.ignite.types import NUMBERS
from je_tools.ignite.pages.files import FileKind, PageFile
from je_tools.ignite.pages.page_sets import PageSet
from je_tools.ignite.pages.walk import HOLLOW, CacheRows, LostPages, add_rows, lost_pages
from je_tools.ignite.wal.segment_reading import copies_of, read_segment

if TYPE_CHECKING:
    from je_tools.formats.ignite.walk import RecordRows
    from je_tools.ignite.pages.scan import PageFileScan, Run
    from je_tools.ignite.pages.walk import Walked
    from je_tools.ignite.recovery.physical import PhysicalRecovery, Place
    from je_tools.ignite.store import Node

_PAGE, _CHECKPOINT, _RECOVERY = (
    NUMBERS[name] for name in ("PAGE_RECORD", "CHECKPOINT_RECORD", "MEMORY_RECOVERY")
)
_SUMMED = (PageState.GOOD, PageState.UNKNOWN, PageState.MISPLACED)
"""States of pages whose checksum is right."""

_SOUND = (PageState.GOOD, PageState.ENCRYPTED, PageState.UNSUMMED)


class PageRepair(StrEnum):
    """Fate of a damaged page when the node starts and works."""

    RECOVERED = "recovered"
    """Physical recovery writes it."""
    REPAIRED = "repaired"
    """The node restores it from the log when it reads it."""
    UNCLEAR = "unclear"
    """Its checksum is right and its type unknown: the node may halt when it reads it, or not."""
    LOST = "lost"
    """The node takes the partition for a new one, without a message."""
    FATAL = "fatal"
    """The node does not start, or halts when it reads the page."""


class DamagedPages(Struct, frozen=True):
    """Consecutive pages of a file that are not as the node wrote them.

    Attributes:
        file: the file.
        page: index of the first page.
        pages: number of pages.
        state: what their bytes show; CUT for pages after the end of the file.
        repair: what happens to them.
        lost_from: of pages that are gone from the end of the file although something leads to
            them, the first page that is gone; None for other damage.
    """

    file: PageFile
    page: int
    pages: int
    state: PageState
    repair: PageRepair
    lost_from: int | None = None

    @property
    def group_id(self) -> int:
        """Id of the group."""
        return cache_id(self.file.group)

    @property
    def is_absent(self) -> bool:
        """True if they are after the end of the file."""
        return self.page >= self.file.pages


class JudgedPages(Struct):
    """Damage that was found in the pages of a node.

    Attributes:
        damaged: runs of damaged pages.
        unreadable: files that cannot be read as pages.
        encrypted: number of encrypted pages, of which only the checksums are known.
        unwalked: by the reason, number of files whose trees and lists were not followed, so that
            pages that are lost at their ends are not known.
        hollow: those of them that are holes for the most part.
        rows: by group: rows of each cache whose trees were followed; -1 for the cache of a group
            that has one only.
    """

    damaged: list[DamagedPages]
    unreadable: list[PageFile]
    encrypted: int
    unwalked: Counter[str]
    hollow: list[PageFile]
    rows: CacheRows


def judged_pages(node: Node, physical: PhysicalRecovery, walked: Iterable[Walked]) -> JudgedPages:
    """Return what is wrong with the pages of a node.

    Args:
        node: the node.
        physical: the physical part of its recovery.
        walked: the pages of all of its files.
    """
    judged = JudgedPages([], [], 0, Counter(), [], {})
    found: list[tuple[PageFile, Run, int]] = []
    lost: list[tuple[PageFileScan, LostPages]] = []
    for scan, structure in walked:
        file = scan.file
        judged.encrypted += scan.states[PageState.ENCRYPTED]
        if scan.problem is not None or (file.problem is not None and not file.is_empty):
            judged.unreadable.append(file)
        runs = ((file, run, _end(run, scan.written)) for run in scan.runs)
        found += [each for each in runs if each[1].state not in _SOUND and each[1].page < each[2]]
        if scan.foreign is not None:
            found.append((file, scan.foreign, 1))
        if isinstance(structure, Structure):
            add_rows(judged.rows, file, structure)
            lost += [(scan, each) for each in lost_pages(scan, structure)]
        elif structure is not None:
            judged.unwalked[structure] += 1
            judged.hollow += [file] if structure == HOLLOW else []
    if found or lost:
        recovered, images = PageSet(physical.places), PageSet(_images(node))
        for run in found:
            judged.damaged += _judged(*run, recovered, images)
        judged.damaged += [_lost(*each, images) for each in lost]
    return judged


def _lost(scan: PageFileScan, run: LostPages, images: PageSet) -> DamagedPages:
    """Return pages that are gone from the end of a file.

    The node reads pages after the end of a file as zeros, and does not check their checksum.

    Source: FilePageStore.read, Ignite 2.18.0, and starts of a node on files that were cut or whose
    ends were zeros.
    """
    file = scan.file
    state, repair = PageState.ZERO, PageRepair.FATAL
    if run.is_absent:
        state = PageState.CUT
    else:
        # Pages that a lost page leads to may be lost too, and are not known.
        parts = images.split(cache_id(file.group), file.partition, scan.written, file.pages)
        repair = PageRepair.REPAIRED if all(is_logged for *_, is_logged in parts) else repair
    return DamagedPages(file, run.page, run.pages, state, repair, scan.written)


def _end(run: Run, written: int) -> int:
    """Return the end of the pages that count: zeros at the end of a file were never written."""
    end = run.page + run.pages
    return min(end, written) if run.state is PageState.ZERO else end


def _judged(
    file: PageFile, run: Run, end: int, recovered: PageSet, images: PageSet
) -> Iterator[DamagedPages]:
    """Yield a run, split where its pages have different fates."""
    place, state = (cache_id(file.group), file.partition), run.state
    for start, stop, is_recovered in recovered.split(*place, run.page, end):
        if is_recovered:
            yield DamagedPages(file, start, stop - start, state, PageRepair.RECOVERED)
        elif state in _SUMMED:
            yield from _unnoticed(file, run, start, stop)
        else:
            for first, after, is_logged in images.split(*place, start, stop):
                repair = PageRepair.REPAIRED if is_logged else PageRepair.FATAL
                yield DamagedPages(file, first, after - first, state, repair)


def _unnoticed(file: PageFile, run: Run, start: int, stop: int) -> Iterator[DamagedPages]:
    """Yield damaged pages whose checksum is right, which the node neither notices nor restores.

    The node treats a partition as new if the type of its first page is not that of a first page.

    Source: GridCacheOffheapManager.GridCacheDataStore.getOrAllocatePartitionMetas, Ignite 2.18.0,
    and starts of a node on such pages.
    """
    if start == 0 and file.kind is FileKind.PARTITION and run.state is not PageState.MISPLACED:
        is_meta = run.type_no == PART_META_NO
        repair = PageRepair.FATAL if is_meta else PageRepair.LOST
        yield DamagedPages(file, 0, 1, run.state, repair)
        start = 1
    if start < stop:
        yield DamagedPages(file, start, stop - start, run.state, PageRepair.UNCLEAR)


def _images(node: Node) -> set[Place]:
    """Return the pages whose newest image in the log is followed by the begin of a checkpoint."""
    pending: set[Place] = set()
    complete: set[Place] = set()
    for type_no, places in _image_records(node):
        if type_no == _PAGE:
            complete -= places
            pending |= places
            continue
        # At a recovery, images after which no checkpoint began become obsolete.
        complete |= pending if type_no == _CHECKPOINT else set()
        pending.clear()
    return complete


def _image_records(node: Node) -> Iterator[tuple[int, set[Place]]]:
    """Yield (type, pages): runs of images with their pages, and each record that ends a run."""
    for copies in copies_of(node):
        try:
            with read_segment(copies.chosen) as (windows, _):
                for rows in windows:
                    yield from _events(rows)
        except InputError:
            continue


def _events(rows: RecordRows) -> Iterator[tuple[int, set[Place]]]:
    types = rows.columns.type_no
    borders = np.flatnonzero((types == _CHECKPOINT) | (types == _RECOVERY)).tolist()
    first = 0
    for border in [*borders, len(rows)]:
        chosen = rows.select(first + np.flatnonzero(types[first:border] == _PAGE))
        if len(chosen):
            columns = decode_type(chosen, _PAGE).columns
            ids = columns["page_id"] & PLACE_BITS
            yield _PAGE, set(zip(columns["group_id"].tolist(), ids.tolist(), strict=True))
        if border < len(rows):
            yield int(types[border]), set()
        first = border + 1
