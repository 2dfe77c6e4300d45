"""Reading all pages of files: counts by type and state, and runs of pages that are not good."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from je_tools.core.ordered import map_in_order
from je_tools.errors import StoppedError
from je_tools.formats.files.source import Source, SourceChangedError, SourceError
from je_tools.formats.ignite.pages import (
    PageState,
    page_rules,
    read_file_pages,
    unread_trees,
    zero_pages,
)
from je_tools.formats.ignite.partition_meta import PART_META_NO
from je_tools.ignite.pages.files import FileKind

if TYPE_CHECKING:
    from je_tools.formats.ignite.pages import PageColumns, PageFileHeader
    from je_tools.ignite.pages.files import PageFile
    from je_tools.log.scan_options import Progress

BLOCK_SIZE = 16 << 20
"""Bytes of pages whose headers are returned at once; the extension reads them piece by piece."""


class Block(Struct, frozen=True):
    """Consecutive pages of a file.

    Attributes:
        file: the file.
        first: index of the first page.
        columns: headers of the pages.
    """

    file: PageFile
    first: int
    columns: PageColumns


class Run(Struct, frozen=True):
    """Consecutive pages of one state, with the header of the first of them.

    Attributes:
        state: their state.
        page: index of the first page.
        pages: number of pages.
        type_no, version, page_id, stored, computed: as in `PageColumns`.
    """

    state: PageState
    page: int
    pages: int
    type_no: int
    version: int
    page_id: int
    stored: int
    computed: int


class PageFileScan(Struct):
    """The pages of one file.

    Attributes:
        file: the file.
        types: good pages by the number of their type.
        states: pages by state.
        compressed: number of compressed pages whose checksum is right.
        written: number of pages up to the last that is not zeros.
        runs: pages that are neither good nor encrypted, in order.
        problem: why the file could not be read to its end; None if it was.
        has_unread_trees: True if there are good pages of trees whose items are not read.
        foreign: first page of a partition, if it is good but its type is not that of a first page.
        page_states: uint8 in pieces, a PageState for each page.
    """

    file: PageFile
    types: Counter[int]
    states: Counter[PageState]
    compressed: int = 0
    written: int = 0
    runs: list[Run] = []
    problem: str | None = None
    has_unread_trees: bool = False
    foreign: Run | None = None
    page_states: list[npt.NDArray[np.uint8]] = []


def read_blocks(
    files: Sequence[PageFile], threads: int, progress: Progress | None = None
) -> Iterator[Block | tuple[PageFile, str]]:
    """Yield the pages of files in order, and for a file that cannot be read the reason.

    Raises:
        StoppedError: a file shrank, vanished or was replaced while it was read.
    """
    for each in map_in_order(_read, _spans(files), threads):
        if progress is not None and isinstance(each, Block):
            header = each.file.header
            progress(len(each.columns) * (header.page_size if header is not None else 0))
        yield each


def scan_files(
    files: Sequence[PageFile], threads: int, progress: Progress | None = None
) -> Iterator[PageFileScan]:
    """Yield the scan of each file, in the order of the files.

    Raises:
        StoppedError: a file shrank, vanished or was replaced while it was read.
    """
    scans = {each.path: PageFileScan(each, Counter(), Counter()) for each in files}
    order = iter(files)
    current = next(order, None)
    for each in read_blocks(files, threads, progress):
        file = each.file if isinstance(each, Block) else each[0]
        while current is not None and current.path != file.path:
            yield scans.pop(current.path)
            current = next(order, None)
        if isinstance(each, Block):
            _add(scans[file.path], each)
        else:
            scans[file.path].problem = each[1]
    while current is not None:
        yield scans.pop(current.path)
        current = next(order, None)


def _spans(
    files: Sequence[PageFile],
) -> Iterator[tuple[PageFile, PageFileHeader, Source, int, int]]:
    """Yield byte ranges of whole pages, up to the end of each file."""
    for file in files:
        if file.header is None or not file.pages:
            continue
        header = file.header
        try:
            source = Source(file.path)
            source.limit(file.size)
        except SourceError as error:
            raise StoppedError(str(error)) from error
        step = max(BLOCK_SIZE // header.page_size, 1) * header.page_size
        for start in range(header.size, file.size, step):
            yield file, header, source, start, min(start + step, file.size)


def _read(
    span: tuple[PageFile, PageFileHeader, Source, int, int],
) -> Block | tuple[PageFile, str]:
    file, header, source, start, stop = span
    first = (start - header.size) // header.page_size
    try:
        if source.is_hole(start, stop):
            pages = -((start - stop) // header.page_size)
            columns = zero_pages(pages, header.page_size)
        else:
            rules = page_rules(header, file.partition)
            columns = read_file_pages(source, start, stop, rules, first)
        if stop == file.size:
            source.check_unchanged()
    except SourceChangedError as error:
        raise StoppedError(str(error)) from error
    except SourceError as error:
        return file, error.reason
    for lost_start, lost_stop in list(source.unreadable):
        lost = slice(
            max((lost_start - start) // header.page_size, 0),
            max(-((start - lost_stop) // header.page_size), 0),
        )
        columns.state[lost] = PageState.UNREADABLE
    return Block(file, first, columns)


def _add(scan: PageFileScan, block: Block) -> None:
    columns = block.columns
    state = columns.state
    scan.page_states.append(state)
    is_good = state == PageState.GOOD
    # np.unique would take longer than reading the pages, and load numpy's masked arrays.
    types, states = np.bincount(columns.type_no[is_good]), np.bincount(state)
    for no in np.flatnonzero(types).tolist():
        scan.types[no] += int(types[no])
    for no in np.flatnonzero(states).tolist():
        scan.states[PageState(no)] += int(states[no])
    if np.any(is_good & unread_trees(columns.type_no, columns.version)):
        scan.has_unread_trees = True
    is_first = block.first == 0 and scan.file.kind is FileKind.PARTITION
    if is_first and is_good[0] and int(columns.type_no[0]) != PART_META_NO:
        scan.foreign = _run(block, 0, 1)
    scan.compressed += int(np.count_nonzero(is_good & (columns.compression > 0)))
    written = np.flatnonzero(state != PageState.ZERO)
    if len(written):
        scan.written = block.first + int(written[-1]) + 1
    for run in _runs(block):
        last = scan.runs[-1] if scan.runs else None
        if last is not None and last.state == run.state and last.page + last.pages == run.page:
            facts = {name: getattr(last, name) for name in Run.__struct_fields__}
            scan.runs[-1] = Run(**facts | {"pages": last.pages + run.pages})
        else:
            scan.runs.append(run)


def _runs(block: Block) -> Iterator[Run]:
    """Yield the runs of pages that are not fine."""
    columns = block.columns
    odd = np.flatnonzero((columns.state != PageState.GOOD) & (columns.state != PageState.ENCRYPTED))
    if not len(odd):
        return
    changes = (np.diff(odd) != 1) | (np.diff(columns.state[odd].astype(np.int16)) != 0)
    starts = np.concatenate(([0], np.flatnonzero(changes) + 1, [len(odd)]))
    for start, stop in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        yield _run(block, int(odd[start]), stop - start)


def _run(block: Block, row: int, pages: int) -> Run:
    columns = block.columns
    return Run(
        PageState(int(columns.state[row])),
        block.first + row,
        pages,
        int(columns.type_no[row]),
        int(columns.version[row]),
        int(columns.page_id[row]),
        int(columns.stored[row]),
        int(columns.computed[row]),
    )
