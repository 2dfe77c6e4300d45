"""Rows of caches and of the metastorage, read through the tree of a file, in columns.

Source: CacheDataTree, DataPageIO, MetastorageTree, Ignite 2.18.0.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.formats import _native
from je_tools.formats.ignite.page_image import PageFault

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints
    from je_tools.formats.files.source import Bytes
    from je_tools.formats.ignite.page_image import PageImage

ROW_COLUMNS = 16
"""Number of columns of a row."""

BATCH_ROWS = 1 << 16
BATCH_BYTES = 1 << 24


class TreeFault(IntEnum):
    """Reason why a page of a tree cannot be used; below these are those of `PageFault`."""

    TYPE = 32
    """The page has a type that does not belong there."""
    COUNT = 33
    """The page names more items than it has room for."""
    LOOP = 34
    """A second link leads to the page."""
    LOST = 35
    """The pages after it are not known."""


class RowFault(IntEnum):
    """Reason why a row cannot be read; below these are those of `PageFault`."""

    NOT_DATA = 64
    """The page at the link holds no rows."""
    NO_ITEM = 65
    """The page has no such item."""
    SHARED = 66
    """The item belongs to another row too, or the items of its page overlap."""
    UNDECODABLE = 67
    """The bytes do not decode to a row."""
    ELSEWHERE = 68
    """The link leads to another partition."""


_FAULTS = {int(each): each for kind in (PageFault, TreeFault, RowFault) for each in kind}


def fault_of(number: int) -> PageFault | TreeFault | RowFault:
    """Return the fault with a number."""
    return _FAULTS[number]


def fault_text(number: int) -> str:
    """Return the fault with a number, in words."""
    return fault_of(number).name.lower().replace("_", " ")


class RowBatch(Struct, frozen=True):
    """Rows in the order of their leaves; int64, one element each, -1 for none.

    Attributes:
        leaf, item: page index of the leaf, and place in it.
        cache_id: cache.
        link: page and item of the row's start.
        key_hash: hash of the key; 0 in the metastorage.
        key_type: type of the key as a cache object; -1 in the metastorage, whose keys are text.
        key_start, key_size: bytes of the key in `data`.
        value_type, value_start, value_size: the same of the value. Of a row with a fault, the value
            is what could be read of the row.
        topology, node, order: version; `node` has the data center in its highest 5 bits.
        expire_ms: time of expiry, milliseconds since 1970; 0 for none.
        fault: why the row could not be read, a number of `fault_of`; 0 for nothing.
        data: uint8, bytes of keys and values.
    """

    leaf: Ints
    item: Ints
    cache_id: Ints
    link: Ints
    key_hash: Ints
    key_type: Ints
    key_start: Ints
    key_size: Ints
    value_type: Ints
    value_start: Ints
    value_size: Ints
    topology: Ints
    node: Ints
    order: Ints
    expire_ms: Ints
    fault: Ints
    data: Bytes

    def __len__(self) -> int:
        return len(self.leaf)


class RowReader:
    """Reader of all rows in the tree of one file of pages.

    Damage is data: a row that cannot be read is a row with a fault. After a leaf that cannot be
    read, reading continues with the leaf that the level above names next.
    """

    def __init__(self, image: PageImage, cache_id: int) -> None:
        """Make a reader.

        Args:
            image: the pages of a partition or of the metastorage.
            cache_id: cache of rows whose leaves name none, which is the group's id.
        """
        self._image = image
        self._cache_id = cache_id
        self._walker = _native.RowWalker(image)

    def batches(
        self, most_rows: int = BATCH_ROWS, most_bytes: int = BATCH_BYTES
    ) -> Iterator[RowBatch]:
        """Yield the rows, ordered by cache (in groups), then by the signed hash of the key.

        A batch has whole leaves: it ends after `most_rows` rows or `most_bytes` bytes.
        """
        while True:
            table, data = self._walker.step(self._image, most_rows, most_bytes)
            if not table.shape[1]:
                return
            cache_id = table[2]
            cache_id[cache_id == -1] = self._cache_id
            columns = dict(zip(RowBatch.__struct_fields__, table, strict=False))
            yield RowBatch(**columns, data=data)

    def faults(self) -> list[tuple[int, PageFault | TreeFault]]:
        """Return the pages of the tree that could not be used so far, with the reason."""
        return [(page, _FAULTS[fault]) for page, fault in self._walker.faults()]  # type: ignore[misc]
