"""Pages of page stores in their order, and their items, selected and encoded."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from je_tools.core.ordered import map_in_order
from je_tools.errors import UsageError
from je_tools.formats.ignite.page_image import read_image_pages
from je_tools.formats.ignite.page_items import PageItems, read_page_items
from je_tools.formats.ignite.pages import (
    VERSIONS,
    PageState,
    page_rules,
    page_type_name,
    read_pages,
)
from je_tools.ignite.caches import CacheNames, cache_names, check_partitions
from je_tools.ignite.key_filter import KeyFilter
from je_tools.ignite.pages.files import PageFile, page_folder
from je_tools.ignite.pages.images import mapped_image

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints
    from je_tools.formats.ignite.pages import PageColumns
    from je_tools.ignite.store import Store
    from je_tools.log.scan_options import Progress

Piece = TypeVar("Piece")

_PAGES_MAX = 1 << 10
"""Pages of a table."""


class PageFilters(Struct, frozen=True, kw_only=True):
    """Filters, all of which a page must pass; an empty one filters nothing.

    Attributes:
        groups: names of groups, or of caches without one.
        partitions: numbers of partitions; 65535 for indexes.
        pages: indexes of pages in their files.
        types: names of types, or the beginnings of names.
        keys: keys of rows, one of which a row of a page must have.
    """

    groups: Collection[str] = ()
    partitions: Sequence[int] = ()
    pages: Sequence[int] = ()
    types: Sequence[str] = ()
    keys: KeyFilter = KeyFilter()

    def wants(self, file: PageFile) -> bool:
        """Return True if pages of a file can match."""
        is_group = not self.groups or file.group in self.groups
        return is_group and (not self.partitions or file.partition in self.partitions)

    def check_partitions(self, store: Store) -> None:
        """Check that each wanted partition has a file in a wanted group.

        Raises:
            InputError: a node has no folder of caches.
            UsageError: a partition has no file.
        """
        files = [each for node in store.nodes for each in page_folder(node).files]
        known = {e.partition for e in files if not self.groups or e.group in self.groups}
        check_partitions(self.partitions, known)

    def type_nos(self) -> Ints | None:
        """Return the numbers of the wanted types; None for all.

        Raises:
            UsageError: no type has such a name.
        """
        if not self.types:
            return None
        names = {no: page_type_name(no) for no in np.flatnonzero(VERSIONS).tolist()}
        for text in self.types:
            if not any(name.startswith(text) for name in names.values()):
                raise UsageError(
                    f"no type of pages is named {text}; `ignite pages space --by-type` shows types"
                )
        return np.array([no for no, name in names.items() if name.startswith(tuple(self.types))])


class PagePlace(Struct, frozen=True):
    """Place of pages: what all rows of a table have in common."""

    node: str
    path: str
    file: PageFile
    names: CacheNames


class PageTable(Struct, frozen=True):
    """Pages of one file.

    Attributes:
        index: int64, indexes of the pages.
        columns: their headers.
        pages: uint8 (n, page size), their content, plain.
        readable: mask of those whose content is right.
        items: their items; None if they are not wanted.
    """

    index: Ints
    columns: PageColumns
    pages: npt.NDArray[np.uint8]
    readable: npt.NDArray[np.bool_]
    items: PageItems | None

    def __len__(self) -> int:
        return len(self.index)

    def with_keys(self, keys: KeyFilter, most: int | None) -> PageTable:
        """Select the items that have one of some keys, and their pages, `most` of them at most."""
        items = self.items
        assert items is not None
        items = items.select(keys.found_in(items.data, items.key_start, items.key_size))
        at = np.unique(items.page)[:most]
        items = items.select(np.isin(items.page, at))
        return PageTable(
            self.index[at],
            self.columns.select(at),
            self.pages[at],
            self.readable[at],
            replace(items, page=np.searchsorted(at, items.page)),
        )


class PageDump(Struct, Generic[Piece]):
    """A dump of the pages of a store.

    Attributes:
        filters: filters.
        encode: encoder of rows; several threads call it at once.
        threads: number of threads that decode and encode.
        with_items: also decode the items of pages.
        limit: largest number of pages; None for all.
        progress: called with the bytes that were read.
        count: number of pages so far.
        damaged: number of damaged pages so far, and of files that cannot be read.
        encrypted: number of encrypted pages so far whose rows could not be compared with keys.
    """

    filters: PageFilters
    encode: Callable[[PageTable, PagePlace], Piece]
    threads: int
    with_items: bool = False
    limit: int | None = None
    progress: Progress | None = None
    count: int = 0
    damaged: int = 0
    encrypted: int = 0

    def run(self, store: Store) -> Iterator[Piece]:
        """Yield encoded pages.

        Raises:
            InputError: a node has no folder of caches.
            StoppedError: a file shrank, vanished or was replaced while it was read.
        """
        types = self.filters.type_nos()
        # With a limit, nothing is decoded in advance.
        threads = self.threads if self.limit is None else 1
        for node in store.nodes:
            names = cache_names(node)
            for file in page_folder(node).files:
                if not self.filters.wants(file):
                    continue
                self.damaged += file.problem is not None and not file.is_empty
                path = store.below(file.path)
                place = PagePlace(node.name, path, file, names)
                starts = range(0, file.pages, _PAGES_MAX)
                work = map_in_order(partial(self._read, place, types), starts, threads)
                for pages, damaged, encrypted, piece in work:
                    self.count += pages
                    self.damaged += damaged
                    self.encrypted += encrypted
                    if self.progress is not None:
                        self.progress(_PAGES_MAX * (file.size // max(file.pages, 1)))
                    if piece is not None:
                        yield piece
                    if self.count == self.limit:
                        return

    def _read(
        self, place: PagePlace, types: Ints | None, first: int
    ) -> tuple[int, int, int, Piece | None]:
        """Return the number of pages, of damaged and of encrypted ones, and encoded rows."""
        file = place.file
        assert file.header is not None
        size = file.header.page_size
        start = file.header.size + first * size
        stop = min(start + _PAGES_MAX * size, file.size)
        with mapped_image(file) as image:
            rules = page_rules(file.header, file.partition)
            columns = read_pages(image.base[start:stop], rules, first)
            keep = np.ones(len(columns), np.bool_)
            if types is not None:
                keep &= np.isin(columns.type_no, types) & (columns.state != PageState.ZERO)
            if self.filters.pages:
                here = range(first, first + len(columns))
                # Compare as Python's numbers: one that a user wrote may be too large for an array.
                wanted = [page for page in self.filters.pages if page in here]
                keep &= np.isin(np.arange(here.start, here.stop), wanted)
            at = np.flatnonzero(keep)
            if self.limit is not None and not self.filters.keys:
                at = at[: self.limit - self.count]
            columns = columns.select(at)
            pages, faults = read_image_pages(image, at + first)
        fine = (PageState.GOOD, PageState.UNSUMMED)
        readable = (faults == 0) & np.isin(columns.state, fine)
        damaged = int(np.count_nonzero(columns.state >= PageState.CHECKSUM))
        items = None
        if self.with_items:
            items = read_page_items(
                np.where(readable[:, None], pages, 0), is_big=file.header.is_big
            )
        table = PageTable(at + first, columns, pages, readable, items)
        encrypted = 0
        if self.filters.keys:
            encrypted = int(np.count_nonzero(table.columns.state == PageState.ENCRYPTED))
            most = None if self.limit is None else self.limit - self.count
            table = table.with_keys(self.filters.keys, most)
        return len(table), damaged, encrypted, self.encode(table, place) if len(table) else None
