"""Items of pages one by one, in columns: rows and fragments, items of trees, ids in lists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from je_tools.formats import _native

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints
    from je_tools.formats.files.source import Bytes

ITEM_COLUMNS = 18
"""Number of columns of an item."""


class PageItems(Struct, frozen=True):
    """Items of pages in columns; int64, one element each.

    Attributes:
        page: place of the page among those that were given.
        item: id of a row in a data page, place in a tree or a list, bucket of a list.
        cache_id: cache, -1 for none.
        link: row that an item of a tree leads to, page of an index, or the row itself; 0 for none.
        key_hash, key_type, key_start, key_size, value_type, value_start, value_size, topology,
            node, order, expire_ms, fault: as in `RowBatch`. A fragment of a row is a value.
        next: next fragment, child to the right of an item, or page that a list names; 0 for none.
        rows: number of rows of a cache; -1 for none.
        data: uint8, bytes of keys and values.
    """

    page: Ints
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
    next: Ints
    rows: Ints
    data: Bytes

    def __len__(self) -> int:
        return len(self.page)

    def select(self, keep: npt.NDArray[Any]) -> PageItems:
        """Select items by a mask or by an index array."""
        names = [name for name in self.__struct_fields__ if name != "data"]
        return PageItems(**{name: getattr(self, name)[keep] for name in names}, data=self.data)


def read_page_items(pages: npt.NDArray[np.uint8], *, is_big: bool) -> PageItems:
    """Return the items of plain pages, uint8 (n, page size); none of what is damaged."""
    table, data = _native.page_items(pages, is_big)
    columns = dict(zip(PageItems.__struct_fields__, table, strict=False))
    return PageItems(**columns, data=data)
