"""The update counter in the pages of a partition: its low-water mark, and updates after gaps.

Source: PagePartitionMetaIOV2, PartitionUpdateCounterTrackingImpl, SimpleDataPageIO, Ignite 2.18.0.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.formats.ignite.page_image import read_image_pages
from je_tools.formats.ignite.partition_meta import PartitionMeta, read_partition_meta

if TYPE_CHECKING:
    from je_tools.formats.ignite.page_image import PageImage

_ITEM_SHIFT = 56
_DIRECT_COUNT = 50
_ITEMS = 54
_FRAGMENT = 0x8000
_BLOB_VERSION = 1


class StoredCounter(Struct, frozen=True):
    """Update counter of a partition, as its pages have it.

    Attributes:
        meta: its first page.
        beyond: start and number of updates that are applied beyond gaps; None if they cannot be
            read.
    """

    meta: PartitionMeta
    beyond: tuple[tuple[int, int], ...] | None


def read_stored_counter(image: PageImage) -> StoredCounter | None:
    """Return the counter of a partition; None if its first page cannot be read."""
    page = _page(image, 0)
    meta = None if page is None else read_partition_meta(page, is_big=image.is_big)
    if meta is None:
        return None
    return StoredCounter(meta, _beyond(image, meta.gaps_link) if meta.gaps_link else ())


def _page(image: PageImage, index: int) -> bytes | None:
    pages, faults = read_image_pages(image, np.array([index], np.int64))
    return None if faults[0] else pages[0].tobytes()


def _beyond(image: PageImage, link: int) -> tuple[tuple[int, int], ...] | None:
    """Return the counters at a link, unless they are spread over pages."""
    page, item = _page(image, link & 0xFFFF_FFFF), link >> _ITEM_SHIFT
    if page is None or item >= page[_DIRECT_COUNT]:
        return None
    order = ">" if image.is_big else "<"
    try:
        (at,) = struct.unpack_from(f"{order}H", page, _ITEMS + 2 * item)
        (size,) = struct.unpack_from(f"{order}H", page, at)
        (count,) = struct.unpack_from(f"{order}i", page, at + 2)
    except struct.error:
        return None
    if size & _FRAGMENT or count + 4 != size:
        return None
    return read_gaps(page[at + 6 : at + 6 + count])


def read_gaps(blob: bytes) -> tuple[tuple[int, int], ...] | None:
    """Return the updates beyond gaps that a partition keeps; None if they do not decode."""
    if not blob:
        return ()
    try:
        version, count = struct.unpack_from(">bi", blob)
        pairs = tuple(struct.iter_unpack(">qq", blob[5:]))
    except struct.error:
        return None
    if version != _BLOB_VERSION or count != len(pairs):
        return None
    return tuple((int(start), int(size)) for start, size in pairs)
