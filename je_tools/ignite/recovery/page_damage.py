"""Damaged pages of files: those that recovery writes anew, and those that the node repairs.

When a node reads a damaged page, it looks for the page in its log. It starts from an image only,
and not from a record that formats a page, and takes the newest one. The copy is complete when a
checkpoint began after it.

Source: PageMemoryImpl.tryToRestorePage, Ignite 2.18.0, and starts of a node on damaged copies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.errors import InputError
from je_tools.formats.ignite.ids import cache_id
from je_tools.formats.ignite.page_ids import PLACE_BITS, place_id
from je_tools.formats.ignite.pages import PageState
from je_tools.formats.ignite.records import decode_type
from je_tools.formats.ignite.types import NUMBERS
from je_tools.ignite.pages.files import FileKind, PageFile, page_folder
from je_tools.ignite.pages.scan import scan_files
from je_tools.ignite.wal.segment_reading import copies_of, read_segment

if TYPE_CHECKING:
    from je_tools.formats.ignite.walk import RecordRows
    from je_tools.ignite.pages.scan import PageFileScan, Run
    from je_tools.ignite.recovery.physical import PhysicalRecovery, Place
    from je_tools.ignite.store import Node
    from je_tools.log.scan_options import Progress

_PAGE, _CHECKPOINT, _RECOVERY = (
    NUMBERS[name] for name in ("PAGE_RECORD", "CHECKPOINT_RECORD", "MEMORY_RECOVERY")
)
_SOUND = (PageState.GOOD, PageState.ENCRYPTED, PageState.UNSUMMED)


class PageRepair(StrEnum):
    """Fate of a damaged page when the node starts and works."""

    RECOVERED = "recovered"
    """Physical recovery writes it."""
    REPAIRED = "repaired"
    """The node restores it from the log when it reads it."""
    REBUILT = "rebuilt"
    """The node builds the file anew if it is removed."""
    FATAL = "fatal"
    """The node does not start, or halts when it reads the page."""


class DamagedPage(Struct, frozen=True):
    """A page of a file that is not as the node wrote it.

    Attributes:
        file: the file.
        index: index of the page.
        state: what its bytes show.
        repair: what happens to it.
    """

    file: PageFile
    index: int
    state: PageState
    repair: PageRepair

    @property
    def group_id(self) -> int:
        """Id of the group."""
        return cache_id(self.file.group)


def damaged_pages(
    node: Node, physical: PhysicalRecovery, threads: int, progress: Progress | None = None
) -> tuple[list[DamagedPage], list[PageFile]]:
    """Return the damaged pages of a node, and the files that cannot be read as pages.

    Raises:
        InputError: the node has no folder of caches.
        StoppedError: a file shrank, vanished or was replaced while it was read.
    """
    return judged_pages(node, physical, scan_files(page_folder(node).files, threads, progress))


def judged_pages(
    node: Node, physical: PhysicalRecovery, scans: Iterable[PageFileScan]
) -> tuple[list[DamagedPage], list[PageFile]]:
    """Return what `damaged_pages` does, from the pages of all files of a node."""
    found: list[tuple[PageFile, int, PageState]] = []
    unreadable: list[PageFile] = []
    for scan in scans:
        file = scan.file
        if scan.problem is not None or (file.problem is not None and not file.is_empty):
            unreadable.append(file)
        for run in scan.runs:
            pages = range(run.page, min(run.page + run.pages, _end(run, scan.written)))
            found += [(file, index, run.state) for index in pages if run.state not in _SOUND]
    if not found:
        return [], unreadable
    recovered = physical.places
    images = _images(node)
    return [_judged(each, recovered, images) for each in found], unreadable


def _end(run: Run, written: int) -> int:
    """Return the end of the pages that count: zeros at the end of a file were never written."""
    return written if run.state is PageState.ZERO else run.page + run.pages


def _judged(
    found: tuple[PageFile, int, PageState], recovered: set[Place], images: set[Place]
) -> DamagedPage:
    file, index, state = found
    place = (cache_id(file.group), place_id(file.partition, index))
    if place in recovered:
        repair = PageRepair.RECOVERED
    elif file.kind is FileKind.INDEX:
        repair = PageRepair.REBUILT
    elif place in images and state is not PageState.ZERO:
        repair = PageRepair.REPAIRED
    else:
        repair = PageRepair.FATAL
    return DamagedPage(file, index, state, repair)


def _images(node: Node) -> set[Place]:
    """Return the pages whose newest image in the log has a later begin of a checkpoint."""
    pending: set[Place] = set()
    complete: set[Place] = set()
    for type_no, places in _image_records(node):
        if type_no == _PAGE:
            complete -= places
            pending |= places
            continue
        # Copies that are incomplete when the node recovers are obsolete.
        complete |= pending if type_no == _CHECKPOINT else set()
        pending.clear()
    return complete


def _image_records(node: Node) -> Iterator[tuple[int, set[Place]]]:
    """Yield the pages of images by the type of their record, and the records that border them."""
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
