"""Ids of pages: index, partition and flag, and rotation, or an item where the id is a link.

Source: PageIdUtils, PageIdAllocator, Ignite 2.18.0.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

INDEX_PARTITION = 0xFFFF
"""Partition in the ids of pages of an index file."""

PLACE_BITS = (1 << 48) - 1
"""Bits of an id that name the page in its group: its index and its partition."""

_PARTITION_SHIFT = 32
_FLAG_SHIFT = 48
_ITEM_SHIFT = 56


class PageFlag(IntEnum):
    """Kind of a page, in its id."""

    DATA = 1
    INDEX = 2
    AUXILIARY = 4
    """A page of a tree or a list in a partition, from Ignite 2.10 on."""


def place_id(partition: Any, index: Any) -> Any:
    """Return the bits of an id that name a page; both are numbers, or int64 arrays."""
    return partition << _PARTITION_SHIFT | index


def index_of(page_id: Any) -> Any:
    """Return the index of a page in its file; an id is a number or an int64 array."""
    return page_id & 0xFFFF_FFFF


def partition_of(page_id: Any) -> Any:
    """Return the partition of a page, as `index_of`."""
    return page_id >> _PARTITION_SHIFT & 0xFFFF


def page_file_name(partition: int) -> str:
    """Return the name of the file that holds the pages of a partition."""
    return "index.bin" if partition == INDEX_PARTITION else f"part-{partition}.bin"


def flag_of(page_id: int) -> int:
    """Return the flag of a page, a `PageFlag` unless it is damaged."""
    return page_id >> _FLAG_SHIFT & 0xFF


def item_of(page_id: int) -> int:
    """Return the item of a link, or the rotation of the id of a page."""
    return page_id >> _ITEM_SHIFT & 0xFF


def whole_id(flag: PageFlag, partition: int, index: int) -> int:
    """Return the id of a page that was never rotated."""
    found: int = flag << _FLAG_SHIFT | place_id(partition, index)
    return found
