"""The update counter in the pages of a partition: its low-water mark, and updates after gaps.

Source: PagePartitionMetaIOV2, PartitionUpdateCounterTrackingImpl, SimpleDataPageIO, Ignite 2.18.0.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.formats.ignite.page_ids import index_of, item_of
from je_tools.formats.ignite.page_image import read_image_pages
from je_tools.formats.ignite.page_items import read_page_items
from je_tools.formats.ignite.partition_meta import PartitionMeta, read_partition_meta

if TYPE_CHECKING:
    import numpy.typing as npt

    from je_tools.formats.ignite.page_image import PageImage

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
    meta = None if page is None else read_partition_meta(page.tobytes(), is_big=image.is_big)
    if meta is None:
        return None
    return StoredCounter(meta, _beyond(image, meta.gaps_link) if meta.gaps_link else ())


def _page(image: PageImage, index: int) -> npt.NDArray[np.uint8] | None:
    pages, faults = read_image_pages(image, np.array([index], np.int64))
    return None if faults[0] else pages[0]


def _beyond(image: PageImage, link: int) -> tuple[tuple[int, int], ...] | None:
    """Return the counters at a link, unless they are spread over pages."""
    page = _page(image, index_of(link))
    if page is None:
        return None
    items = read_page_items(page[None], is_big=image.is_big)
    is_whole = (items.fault == 0) & (items.next == 0) & (items.value_size >= 0)
    found = np.flatnonzero(is_whole & (items.item == item_of(link)))
    if not len(found):
        return None
    start, size = items.value_start[found[0]], items.value_size[found[0]]
    return read_gaps(items.data[start : start + size].tobytes())


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
