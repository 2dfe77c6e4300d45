"""Space in the page stores of nodes: pages by type, free bytes of data pages, unwritten ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from je_tools.formats.ignite.pages import DATA_TYPES, ROW_LEAVES, PageState, is_tree, page_type_name
from je_tools.ignite.pages.files import page_folder
from je_tools.ignite.pages.scan import Block, read_blocks
from je_tools.ignite.store import path_below

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from je_tools.formats.ignite.pages import PageColumns
    from je_tools.ignite.pages.files import FileKind, PageFile
    from je_tools.ignite.store import Store
    from je_tools.log.scan_options import Progress


class PageFileSpace(Struct):
    """Space in one file.

    Attributes:
        node, group, file: folder of the node, group of caches, path below the store.
        kind: content of the file.
        partition: partition; 65535 for an index.
        size: bytes of the file.
        pages: number of pages.
        data_pages, tree_pages, list_pages: pages of each kind.
        other_pages: meta pages and others that can be trusted.
        zero_pages: pages of zeros before the last that was written.
        tail_pages: pages of zeros after it.
        uncounted: pages that are damaged or encrypted.
        packed_pages: data pages whose free bytes are unknown, as their content is compressed, or
            the number is impossible.
        entries: rows and parts of rows in data pages.
        rows: items in the leaves of the trees of rows, as the file has them now.
        free: free bytes in data pages.
        empty_pages: data pages without an entry.
        fill_percent: used part of the data pages whose free bytes are known; None without any.
    """

    node: str
    group: str
    file: str
    kind: FileKind
    partition: int
    size: int
    pages: int = 0
    data_pages: int = 0
    tree_pages: int = 0
    list_pages: int = 0
    other_pages: int = 0
    zero_pages: int = 0
    tail_pages: int = 0
    uncounted: int = 0
    packed_pages: int = 0
    entries: int = 0
    rows: int = 0
    free: int = 0
    empty_pages: int = 0
    fill_percent: float | None = None


class TypeSpace(Struct):
    """Pages of one type on one node.

    Attributes:
        node: folder of the node.
        type: name of the type.
        pages: number of pages.
        size: their bytes.
        items: entries, items or ids in them; None for a type without.
        free: free bytes in them; None for a type without.
    """

    node: str
    type: str
    pages: int = 0
    size: int = 0
    items: int | None = None
    free: int | None = None


class SpaceReport(Struct):
    """Space in the page stores of nodes.

    Attributes:
        files: by node and file.
        types: by node and type.
        problems: files that could not be read.
    """

    files: list[PageFileSpace]
    types: list[TypeSpace]
    problems: int = 0

    @property
    def uncounted(self) -> int:
        """Number of pages that are damaged or encrypted."""
        return sum(each.uncounted for each in self.files)


def measure_pages(store: Store, threads: int, progress: Progress | None = None) -> SpaceReport:
    """Read the headers of all pages of the nodes of a store.

    Args:
        store: the nodes.
        threads: number of blocks of pages to read at once.
        progress: called with the bytes of each block that was read; None for nothing.

    Raises:
        InputError: a node has no folder of caches.
        StoppedError: a file shrank, vanished or was replaced while it was read.
    """
    report = SpaceReport([], [])
    for node in store.nodes:
        files = page_folder(node).files
        spaces = {each.path: _empty(node.name, each, store.roots[0]) for each in files}
        types: dict[int, TypeSpace] = {}
        for each in read_blocks(files, threads, progress):
            if not isinstance(each, Block):
                report.problems += 1
                continue
            size = each.file.header.page_size if each.file.header is not None else 0
            _add_file(spaces[each.file.path], each.columns)
            _add_types(types, node.name, each.columns, size)
            _add_fill(spaces[each.file.path], size)
        report.problems += sum(each.header is None and not each.is_empty for each in files)
        report.files += spaces.values()
        report.types += [types[no] for no in sorted(types)]
    return report


def _empty(node: str, file: PageFile, root: Path) -> PageFileSpace:
    return PageFileSpace(
        node, file.group, path_below(file.path, root), file.kind, file.partition, file.size
    )


def _add_file(space: PageFileSpace, columns: PageColumns) -> None:
    state, type_no = columns.state, columns.type_no
    is_known: npt.NDArray[np.bool_] = (state == PageState.GOOD) | (state == PageState.UNSUMMED)
    types = np.unique(type_no[is_known]).tolist()

    def of(chosen: Callable[[int], bool]) -> npt.NDArray[np.bool_]:
        return is_known & np.isin(type_no, [no for no in types if chosen(no)])

    is_data, is_list = of(DATA_TYPES.__contains__), of(_is_list)
    counts = {"data_pages": is_data, "tree_pages": of(is_tree), "list_pages": is_list}
    for name, mask in counts.items():
        setattr(space, name, getattr(space, name) + int(np.count_nonzero(mask)))
    known = int(np.count_nonzero(is_known))
    zeros = int(np.count_nonzero(state == PageState.ZERO))
    space.pages += len(columns)
    space.other_pages = space.pages - space.data_pages - space.tree_pages - space.list_pages
    space.uncounted += len(columns) - known - zeros
    written = np.flatnonzero(state != PageState.ZERO)
    tail = len(columns) - (int(written[-1]) + 1 if len(written) else 0)
    if len(written):
        space.zero_pages += space.tail_pages
        space.tail_pages = 0
    space.tail_pages += tail
    space.zero_pages += zeros - tail
    space.other_pages -= space.uncounted + space.zero_pages + space.tail_pages
    is_open = is_data & (columns.free >= 0)
    space.packed_pages += int(np.count_nonzero(is_data & ~is_open))
    space.entries += int(columns.items[is_open].sum())
    space.empty_pages += int(np.count_nonzero(is_open & (columns.items == 0)))
    space.free += int(columns.free[is_open].sum())
    leaves = of(ROW_LEAVES.__contains__) & (columns.items >= 0)
    space.rows += int(columns.items[leaves].sum())


def _is_list(type_no: int) -> bool:
    return page_type_name(type_no).startswith("list ")


def _add_fill(space: PageFileSpace, page_size: int) -> None:
    size = (space.data_pages - space.packed_pages) * page_size
    space.fill_percent = 100 * (1 - space.free / size) if size else None


def _add_types(
    types: dict[int, TypeSpace], node: str, columns: PageColumns, page_size: int
) -> None:
    is_known = (columns.state == PageState.GOOD) | (columns.state == PageState.UNSUMMED)
    for no in np.unique(columns.type_no[is_known]).tolist():
        mask = is_known & (columns.type_no == no)
        space = types.setdefault(no, TypeSpace(node, page_type_name(no)))
        count = int(np.count_nonzero(mask))
        space.pages += count
        space.size += count * page_size
        space.items = _sum(space.items, columns.items[mask])
        space.free = _sum(space.free, columns.free[mask])


def _sum(total: int | None, numbers: npt.NDArray[np.int32]) -> int | None:
    known = numbers[numbers >= 0]
    return (total or 0) + int(known.sum()) if len(known) else total
